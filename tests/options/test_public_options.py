"""No public argument is silently without effect: support/option_table.py."""

import contextlib
import enum
import inspect
import logging

import numpy as np
import option_table
import public_api
import pytest
import tensorflow as tf
from option_calls import CALLS, build_pipeline, sgd

from ipufeed import no_effect
from ipufeed.device.config import options_create
from ipufeed.device.config.config import IPUConfig
from ipufeed.device.config.no_effect import ATTRIBUTES, FLAGS
from ipufeed.device.flags.flags import Flags
from ipufeed.device.program.strategy import IPUStrategy
from ipufeed.device.system import system
from ipufeed.keras import layers as keras_layers
from ipufeed.parallel.optimizers.accumulation import (
    GradientAccumulationOptimizerV2,
)
from ipufeed.queues import IPUOutfeedQueue

pytestmark = pytest.mark.usefixtures("clean_system")

KINDS = ("works", "warns", "refused", "label")


def table() -> dict[str, dict[str, str]]:
    """By callable and parameter, its kind."""
    return {
        name: dict((*word.split(":"), "works")[:2] for word in str(parameters).split())
        for name, parameters in option_table.PARAMETERS.items()
    }


def rows(kind):
    """The parameters of a kind, as (callable, parameter)."""
    return [
        (name, parameter)
        for name, parameters in table().items()
        for parameter, found in parameters.items()
        if found == kind
    ]


def test_the_table_has_every_public_parameter_and_no_other():
    """In the order of the signatures."""
    assert {name: list(each) for name, each in table().items()} == (
        public_api.parameters()
    )
    assert {kind for each in table().values() for kind in each.values()} <= {*KINDS}


def test_the_table_has_every_attribute_and_those_that_warn_have_a_reason():
    """Of IPUConfig; and only they."""
    assert list(option_table.ATTRIBUTES) == public_api.attributes()
    warns = {name for name, kind in option_table.ATTRIBUTES.items() if kind == "warns"}
    assert warns == {f"IPUConfig.{name}" for name in ATTRIBUTES}


@contextlib.contextmanager
def warnings_of(caplog):
    """The options that are warned of inside."""
    no_effect.forget()
    caplog.clear()
    found: list[str] = []
    with caplog.at_level(logging.WARNING, "ipufeed"):
        yield found
    found += [
        record.args[0]
        for record in caplog.records
        if "has no effect on a simulated IPU" in record.msg
    ]


def test_every_row_that_warns_is_tried():
    """And no other."""
    attributes = [
        (name, "") for name, kind in option_table.ATTRIBUTES.items() if kind == "warns"
    ]
    assert {*CALLS} == {*rows("warns"), *attributes}


@pytest.mark.parametrize(("name", "parameter"), CALLS, ids=lambda each: each)
def test_what_has_no_effect_warns_once(caplog, name, parameter):
    """The second call says nothing more; the warning names the option and a reason."""
    with warnings_of(caplog) as found:
        CALLS[name, parameter]()
        CALLS[name, parameter]()

    assert (
        len(found) == len(set(found)) == (2 if parameter == "profile_execution" else 1)
    )
    assert all(record.args[1] for record in caplog.records if len(record.args) == 2)


@pytest.mark.parametrize(
    ("parameter", "value", "training"),
    [
        ("accumulate_outfeed_dtype", tf.float32, True),
        ("gradient_accumulation_dtype", tf.float32, False),
        ("gradient_accumulation_for_captured_grads", False, False),
        ("offload_weight_update_variables", True, False),
        ("reduction_method", "mean", False),
    ],
)
def test_what_a_pipeline_has_no_use_for_is_warned_of(
    caplog, parameter, value, training
):
    """Arguments that concern gradients or sums that this pipeline does not have."""
    arguments = {} if training else {"optimizer_function": None}
    with warnings_of(caplog) as found:
        build_pipeline(**arguments)
    assert not found
    with warnings_of(caplog) as found:
        build_pipeline(**arguments, **{parameter: value})

    assert found == [f"pipeline({parameter}=)"]


@pytest.mark.parametrize("name", FLAGS)
def test_a_flag_that_has_no_effect_warns_once(caplog, monkeypatch, name):
    """Each of TF_POPLAR_FLAGS that only the docs know."""
    default = getattr(Flags(), name)
    value = "x" if isinstance(default, str) else int(default) + 100
    given = f"--{name}" if isinstance(default, bool) else f"--{name}={value}"
    monkeypatch.setenv("TF_POPLAR_FLAGS", given)
    with warnings_of(caplog) as found:
        IPUConfig().configure_ipu_system()
        IPUConfig().configure_ipu_system()

    assert found == [f"TF_POPLAR_FLAGS --{name}"]


@pytest.mark.parametrize("part", ["TARGET", "RUNTIME"])
def test_options_of_targets_and_the_runtime_warn_once(caplog, monkeypatch, part):
    """Each by its name; what is not a JSON object is refused."""
    variable = f"POPLAR_{part}_OPTIONS"
    monkeypatch.setenv(variable, '{"one": "1", "two": "2"}')
    with warnings_of(caplog) as found:
        IPUConfig().configure_ipu_system()
        IPUConfig().configure_ipu_system()
    assert found == [f"{variable} one", f"{variable} two"]

    monkeypatch.setenv(variable, "one")
    with pytest.raises(ValueError, match=f"{variable} must be JSON"):
        IPUConfig().configure_ipu_system()


def test_defaults_warn_of_nothing(caplog):
    """Neither a config's nor those of the older style, nor a program's."""
    with warnings_of(caplog) as found:
        IPUConfig().configure_ipu_system()
        system.configure_ipu_system(options_create.create_ipu_config())
        build_pipeline()
        GradientAccumulationOptimizerV2(sgd(), 2)
        IPUStrategy()

    assert found == []


# ---- What is refused

REFUSED = {
    ("ops.pipelining_ops.pipeline", "continuous_weight_updates"): (
        NotImplementedError,
        lambda: build_pipeline(continuous_weight_updates=True),
    ),
    **{
        ("keras.layers.Embedding", parameter): (
            NotImplementedError,
            lambda p=parameter: keras_layers.Embedding(
                4, 2, **{p: p == "mask_zero" or "l2"}
            ),
        )
        for parameter in (
            "embeddings_regularizer",
            "activity_regularizer",
            "embeddings_constraint",
            "mask_zero",
            "input_length",
        )
    },
}


def test_every_row_that_is_refused_is_tried():
    """And no other."""
    assert {*REFUSED} == {*rows("refused")}


@pytest.mark.parametrize(("name", "parameter"), REFUSED, ids=lambda each: each)
def test_what_is_refused_raises(name, parameter):
    """The error names the argument."""
    kind, call = REFUSED[name, parameter]

    with pytest.raises(kind, match=f"(?i){parameter.replace('_', '.')}"):
        call()


# ---- What must be a bool

FLAGS_OF_OTHERS = {
    ("sources.RecordReport", "data_checked"),  # a result, which no program makes
    ("keras.layers.GRU.call", "training"),  # Keras gives tensors, too
    ("keras.layers.LSTM.call", "training"),
}


def wants_a_bool():
    """Each parameter that is documented as a bool: (callable, parameter) to how to call."""
    found = {}
    for name, value in public_api.exported().items():
        if inspect.isclass(value) and issubclass(value, (enum.Enum, BaseException)):
            continue
        calls = {name: value} if callable(value) else {}
        if inspect.isclass(value):
            calls |= {f"{name}.{n}": f for n, f in public_api.methods(value)}
            calls.pop(f"{name}.__init__", None)
        for full, call in calls.items():
            for parameter in inspect.signature(call).parameters.values():
                kinds = str(parameter.annotation).replace("'bool'", "bool")
                if kinds in ("bool", "bool | None", "<class 'bool'>"):
                    found[full, parameter.name] = call, kinds == "bool | None"
    return found


WANTS_A_BOOL = {
    key: value for key, value in wants_a_bool().items() if key not in FLAGS_OF_OTHERS
}


def test_the_walk_finds_the_flags():
    """Of functions, methods and classes."""
    for key in (
        ("utils.reset_ipu_seed", "experimental_identical_replicas"),
        ("ipu_outfeed_queue.IPUOutfeedQueue.dequeue", "wait_for_completion"),
        ("ipu_strategy.IPUStrategy", "enable_keras_extensions"),
        ("keras.layers.GroupNorm", "center"),
        ("benchmark.Settings", "memcpy"),
        ("ops.pipelining_ops.pipeline", "offload_weights"),
    ):
        assert key in WANTS_A_BOOL
    assert len(WANTS_A_BOOL) > 110
    assert {*FLAGS_OF_OTHERS} <= {*wants_a_bool()}


@pytest.mark.parametrize(("name", "parameter"), WANTS_A_BOOL)
def test_what_is_not_a_bool_is_refused_where_one_is_wanted(name, parameter):
    """With the argument's name and the value, before anything else is looked at."""
    call, or_none = WANTS_A_BOOL[name, parameter]
    required = {
        each.name: None
        for each in inspect.signature(call).parameters.values()
        if each.default is each.empty and each.kind is each.POSITIONAL_OR_KEYWORD
    }
    for value in ("no", 0, 1, 0.5, [True], *([] if or_none else [None])):
        with pytest.raises(
            TypeError, match=rf"`?{parameter}`? must be a bool.*, got \w+ "
        ):
            call(**(required | {parameter: value}))


def test_a_positional_flag_is_checked_too():
    """And a bool of NumPy's is one."""
    assert IPUOutfeedQueue().dequeue(np.bool_(True)) == []
    IPUStrategy("/device:IPU:0", "/cpu:0", np.bool_(True))
    with pytest.raises(TypeError, match="enable_dataset_iterators must be a bool, got"):
        IPUStrategy("/device:IPU:0", "/cpu:0", 1)
