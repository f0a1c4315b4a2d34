"""popdist and Horovod: alone, and as one of several processes of TF_CONFIG."""

import contextlib
import json

import numpy as np
import pytest
import tensorflow as tf

from ipufeed import compat, no_effect
from ipufeed.device.config.config import IPUConfig
from ipufeed.errors import RefusedError
from ipufeed.programs.popdist_strategy import PopDistStrategy

pytestmark = pytest.mark.usefixtures("clean_system")

compat.install()
import popdist  # noqa: E402
import popdist.tensorflow  # noqa: E402
from tensorflow.python.ipu import distributed, horovod  # noqa: E402


@pytest.fixture
def second_of_three(monkeypatch):
    """TF_CONFIG of one of several processes, which none of these tests starts."""
    workers = [f"localhost:{port}" for port in (2301, 2302, 2303)]
    text = json.dumps(
        {"cluster": {"worker": workers}, "task": {"type": "worker", "index": 1}}
    )
    monkeypatch.setenv("TF_CONFIG", text)


def test_alone_a_process_is_one_of_one(monkeypatch, caplog):
    """So that programs that ask go on as without popdist."""
    monkeypatch.delenv("TF_CONFIG", raising=False)
    popdist.init()

    assert not popdist.isPopdistEnvSet()
    assert (popdist.getNumInstances(), popdist.getInstanceIndex()) == (1, 0)
    assert (popdist.getNumTotalReplicas(), popdist.getReplicaIndexOffset()) == (1, 0)
    config = IPUConfig()
    assert popdist.tensorflow.set_ipu_config(config, ipus_per_replica=2) is config
    assert config.auto_select_ipus == 2
    assert popdist.getNumIpusPerReplica() == 2
    assert config.experimental.multi_replica_distribution.process_count == 0
    config.configure_ipu_system()
    assert popdist.getNumLocalReplicas() == 1
    assert popdist.getDeviceId() >= 0
    no_effect.forget()
    assert popdist.getDeviceId(popdist.getNumIpusPerReplica()) >= 0
    assert "has no effect" not in caplog.text
    assert popdist.getDeviceId(64) >= 0
    assert "`getDeviceId(ipus_per_replica=)` has no effect" in caplog.text
    popdist.tensorflow.set_ipu_config(IPUConfig(), 1)


@pytest.mark.parametrize(
    ("number", "error", "text"),
    [
        ("x", TypeError, "`ipus_per_replica` must be an int or None, got str 'x'"),
        (True, TypeError, "`ipus_per_replica` must be an int or None, got bool True"),
        (0, ValueError, "`ipus_per_replica` must be at least 1, got 0"),
    ],
)
def test_wrong_ipus_of_a_replica_are_refused(number, error, text):
    """Though the number has no effect."""
    with pytest.raises(error, match=text):
        popdist.getDeviceId(number)


@pytest.mark.parametrize("ask", ["isPopdistEnvSet", "getNumInstances"])
def test_variables_of_graphcores_launcher_are_named_once(monkeypatch, caplog, ask):
    """Else each of its processes would train alone, and nothing would say so."""
    monkeypatch.delenv("TF_CONFIG", raising=False)
    monkeypatch.setenv("POPDIST_NUM_TOTAL_REPLICAS", "4")
    monkeypatch.setenv("POPDIST_INSTANCE_INDEX", "1")
    no_effect.forget()
    for _ in range(2):
        assert getattr(popdist, ask)() in (False, 1)
        assert popdist.getInstanceIndex() == 0

    assert caplog.text.count("find each other by TF_CONFIG here") == 1
    assert (
        "`POPDIST_INSTANCE_INDEX`, `POPDIST_NUM_TOTAL_REPLICAS` of the" in caplog.text
    )


@pytest.mark.usefixtures("second_of_three")
def test_with_tf_config_variables_of_the_launcher_are_left_alone(monkeypatch, caplog):
    """It says what the processes are."""
    monkeypatch.setenv("POPDIST_INSTANCE_INDEX", "0")
    no_effect.forget()

    assert popdist.getInstanceIndex() == 1
    assert "POPDIST_" not in caplog.text


def test_popdist_lists_its_names():
    """For a star import, help() and completion."""
    names = {}
    exec("from popdist import *", names)

    assert names["getNumInstances"] is popdist.getNumInstances
    assert {"init", "getInstanceIndex", "tensorflow"} <= set(dir(popdist))
    assert not {"json", "cluster"} & set(names)
    assert "set_ipu_config" in dir(popdist.tensorflow)


@pytest.mark.usefixtures("second_of_three")
def test_tf_config_gives_the_number_of_the_process():
    """And the config gets it."""
    config = popdist.tensorflow.set_ipu_config(IPUConfig(), 1, configure_device=False)
    distribution = config.experimental.multi_replica_distribution

    assert popdist.isPopdistEnvSet()
    assert (popdist.getNumInstances(), popdist.getInstanceIndex()) == (3, 1)
    assert (popdist.getNumTotalReplicas(), popdist.getReplicaIndexOffset()) == (3, 1)
    assert (distribution.process_count, distribution.process_index) == (3, 1)
    assert config.auto_select_ipus == []
    assert (horovod.size(), horovod.rank()) == (3, 1)


@pytest.mark.parametrize(
    ("cluster", "task", "why"),
    [
        ({}, {}, "KeyError: 'worker'"),
        ({"worker": ["a:1"]}, {"index": 1}, "not one of its workers"),
        ({"worker": ["a:1"]}, {"index": 0.5}, "`index` must be an int, got float 0.5"),
        ({"worker": [1]}, {"index": 0}, r"not of the form 'host:port': \[1\]"),
        (
            {"chief": ["a:1"], "worker": ["a:2"]},
            {"type": "chief", "index": 0},
            "its task is a 'chief': list each process as a `worker`",
        ),
    ],
)
def test_a_wrong_tf_config_is_an_error(monkeypatch, cluster, task, why):
    """The error has the form that it must have."""
    text = json.dumps({"cluster": cluster, "task": task})
    monkeypatch.setenv("TF_CONFIG", text)
    with pytest.raises(ValueError, match=f"TF_CONFIG must be a JSON object.*{why}"):
        popdist.getNumInstances()


def test_alone_values_stay_what_they_are(monkeypatch):
    """Between several processes they are exchanged in programs."""
    monkeypatch.delenv("TF_CONFIG", raising=False)
    value = tf.constant([1.0, 2.0])
    horovod.init()

    assert horovod.allreduce(value).numpy().tolist() == [1.0, 2.0]
    assert horovod.allreduce(value, horovod.Sum, 2.0, 3.0).numpy().tolist() == [
        6.0,
        12.0,
    ]
    assert horovod.allgather(value).numpy().tolist() == [1.0, 2.0]
    assert distributed.allgather(value).shape == [1, 2]
    assert horovod.broadcast(value, 0).numpy().tolist() == [1.0, 2.0]


@pytest.mark.usefixtures("second_of_three")
def test_a_function_runs_in_the_processes_that_are_named():
    """This one is number 1; the others get None."""
    called = []

    def note(value, *, twice):
        called.append(value)
        return 2 * value if twice else value

    assert popdist.execute_on_instances({1, 2}, note, 3, twice=True) == 6
    assert popdist.execute_on_instances([0], note, 4, twice=True) is None
    assert called == [3]
    for instances, function, error, text in (
        ({3}, note, ValueError, "must be from 0 to 2, as there are 3 processes, got 3"),
        (0, note, TypeError, r"must be indices of processes, such as \{0\}, got int 0"),
        ({"0"}, note, TypeError, "`instances` must be an int, got str '0'"),
        ({0}, 3, TypeError, "`function` must be a function"),
    ):
        with pytest.raises(error, match=text):
            popdist.execute_on_instances(instances, function)


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("synchronize", r"ipu\.distributed\.allreduce\(0\)"),
        ("finalizeBackend", "Leave it out"),
        ("checkNumIpusPerReplica", r"Compare with getNumIpusPerReplica\(\)"),
        ("getAnything", "It has: execute_on_instances, getDeviceId"),
    ],
)
def test_a_function_that_is_missing_is_refused_by_name(name, instead):
    """With what to use instead."""
    text = rf"`popdist\.{name}` does not exist for simulated IPUs\. .*{instead}"
    with pytest.raises(AttributeError, match=text):
        getattr(popdist, name)


def test_horovods_arguments_are_checked(monkeypatch):
    """A reduction that is not there, and a scalar, which has no rows."""
    monkeypatch.delenv("TF_CONFIG", raising=False)
    with pytest.raises(
        ValueError, match=r"must be horovod.Average or horovod.Sum, got 'x'"
    ):
        horovod.allreduce(tf.constant(1.0), op="x")
    with pytest.raises(ValueError, match=r"must have rows, got a scalar"):
        horovod.allgather(tf.constant(1.0))
    for name in ("prescale_factor", "postscale_factor"):
        with pytest.raises(TypeError, match=f"`{name}` must be a number, got str 'x'"):
            horovod.allreduce(tf.constant(1.0), **{name: "x"})
    for function in (horovod.broadcast, distributed.broadcast):
        with pytest.raises(TypeError, match="`root_rank` must be an int, got str '0'"):
            function(tf.constant(1.0), "0")
    assert horovod.is_initialized()


def test_alone_a_process_takes_what_several_take(monkeypatch):
    """A program finds out at once, not on the day it has peers."""
    monkeypatch.delenv("TF_CONFIG", raising=False)
    text = tf.constant(["a"])
    for call in (horovod.allreduce, horovod.allgather, distributed.broadcast):
        with pytest.raises(
            TypeError, match=r"take tensors of .*got string: use tf.cast"
        ):
            call(text)


def test_integers_are_scaled_by_fractions(monkeypatch):
    """As Horovod scales them: not by the integer of the fraction, which is 0."""
    monkeypatch.delenv("TF_CONFIG", raising=False)
    value = tf.constant([5, -5, 2**24 + 1])

    half = horovod.allreduce(value, horovod.Sum, 0.5)
    assert half.numpy().tolist() == [2, -2, 2**23]
    assert horovod.allreduce(value, horovod.Sum, 1, 3).numpy()[2] == 3 * (2**24 + 1)


@pytest.mark.usefixtures("second_of_three")
def test_between_processes_the_ipus_must_be_configured_for_them():
    """The error says what to call."""
    IPUConfig().configure_ipu_system()
    with pytest.raises(
        tf.errors.FailedPreconditionError,
        match=r"process 1 of 3, and the IPUs are configured for one process: call popdist",
    ):
        horovod.allreduce(tf.constant(1.0))


def test_a_strategy_counts_the_replicas_of_the_config(monkeypatch):
    """Of the IPUs that it gives each; those of a Keras model without stages have one."""
    import keras

    monkeypatch.delenv("TF_CONFIG", raising=False)
    config = IPUConfig()
    config.auto_select_ipus = 4
    popdist.tensorflow.set_ipu_config(config, 2).configure_ipu_system()
    strategy = PopDistStrategy()
    assert strategy.num_replicas_in_sync == popdist.getNumTotalReplicas() == 2

    rows = np.arange(8, dtype=np.float32)[:, None]
    weights = []
    for scope, batch in ((strategy.scope(), 1), (contextlib.nullcontext(), 4)):
        with scope:
            dense = keras.layers.Dense(1, kernel_initializer="ones")
            model = keras.Sequential([keras.Input([1]), dense])
            model.compile(keras.optimizers.SGD(0.01), "mse", steps_per_execution=2)
            model.fit(rows, 3 * rows, batch, shuffle=False, verbose=0)
        weights.append(np.ravel(model.get_weights()[0]))
    np.testing.assert_allclose(*weights, rtol=1e-5)


@pytest.mark.parametrize(
    "name",
    [
        "utils.export_variables_from_live_model",
        "utils.export_variables_from_live_session",
        "ops.op_util.create_resource_update",
    ],
)
def test_what_cannot_work_names_the_replacement(name):
    """When it is called, not when it is imported."""
    module, _, last = name.rpartition(".")
    refused = getattr(compat.submodule(module), last)
    with pytest.raises(RefusedError, match=f"{last} does not work here: .*(use|write)"):
        refused()
