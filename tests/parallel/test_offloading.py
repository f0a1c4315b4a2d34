"""An optimizer's state in the host's memory: the same numbers, and seen where it moves."""

import json

import numpy as np
import pytest
import styles
import tensorflow as tf
from models import WIDTH, Pipelined, v1
from replicated import configure, on

from ipufeed import executable
from ipufeed.device.config.config import IPUConfig
from ipufeed.device.system import system
from ipufeed.parallel.optimizers import offloading
from ipufeed.parallel.optimizers.optimizers import CrossReplicaOptimizer
from ipufeed.parallel.pipeline.options import OptimizerFunctionOutput
from ipufeed.parallel.pipeline.pipeline import pipeline
from ipufeed.queues import IPUOutfeedQueue

pytestmark = [pytest.mark.usefixtures("clean_system"), pytest.mark.long]

STATE_BYTES = 2 * WIDTH * WIDTH * 4  # of both stages' momentum
OPTIMIZERS = {
    "momentum": lambda: v1.train.MomentumOptimizer(0.05, 0.9),
    "adam": lambda: v1.train.AdamOptimizer(0.02),
    "keras": lambda: tf.keras.optimizers.SGD(0.05, momentum=0.9),
}


def trained(optimizer, offload, executions=3):
    """A pipeline of two stages, after one program."""
    model = Pipelined(
        OPTIMIZERS[optimizer],
        2,
        4,
        repeat_count=executions,
        offload_weight_update_variables=offload,
    )
    return model.train()


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_offloaded_state_changes_no_number(optimizer):
    """Losses and weights, to the last bit."""
    configure(2)
    kept, offloaded = trained(optimizer, False), trained(optimizer, True)

    np.testing.assert_array_equal(offloaded.losses, kept.losses)
    for one, other in zip(offloaded.weights, kept.weights, strict=True):
        np.testing.assert_array_equal(one, other)


def transfers(path):
    """By row, the transfers of remote buffers: names and bytes, in order."""
    events = json.loads(path.read_text())["traceEvents"]
    rows = {
        (each["pid"], each["tid"]): each["args"]["name"]
        for each in events
        if each["name"] == "thread_name"
    }
    found = {}
    for each in sorted(events, key=lambda one: one.get("ts", 0)):
        row = rows.get((each["pid"], each["tid"]), "")
        if each["ph"] == "X" and "remote buffer" in row:
            what = each["name"].partition("_TRANSFER")[0], each["args"]["bytes"]
            found.setdefault(row, []).append(what)
    return found


def test_moves_are_in_the_trace_where_it_is_on(tmp_path):
    """A row for each remote buffer: to the IPU before each update, and back behind it."""
    configure(2)
    for name, offload in (("off", False), ("on", True)):
        with executable.trace(tmp_path / name):
            trained("momentum", offload, executions=3)

    assert transfers(tmp_path / "off") == {}
    there_and_back = [("HOST_TO_DEVICE", 144), ("DEVICE_TO_HOST", 144)]
    assert transfers(tmp_path / "on") == {
        "IPU 0, remote buffer 0": 3 * there_and_back,
        "IPU 0, remote buffer 1": 3 * there_and_back,
    }


@pytest.mark.parametrize("offload", [False, True])
def test_the_memory_report_separates_remote_buffers_from_the_rest(
    tmp_path, monkeypatch, offload
):
    """They are not variables of the IPU's memory, and not in its peak."""
    options = {"autoReport.all": "true", "autoReport.directory": str(tmp_path)}
    monkeypatch.setenv("POPLAR_ENGINE_OPTIONS", json.dumps(options))
    configure(2)
    trained("momentum", offload)

    found = [json.loads(path.read_text()) for path in tmp_path.glob("*/profile.json")]
    (memory,) = [
        each["memory"]
        for each in found
        if "pipeline_ipu" not in each["program"]["name"]
    ]
    by_purpose = memory["by_purpose"]
    assert by_purpose["remote"] == (STATE_BYTES if offload else 0)
    assert by_purpose["variables"] == (STATE_BYTES if offload else 2 * STATE_BYTES)
    assert (
        memory["peak_bytes"] + by_purpose["code"] + by_purpose["remote"]
        == (memory["total_bytes"])
    )


@pytest.mark.parametrize("style", ["graph", "function"])
@pytest.mark.parametrize(
    ("attributes", "model", "offloads"),
    [
        ({}, False, True),
        ({"type": "ON_DEMAND"}, False, True),
        ({}, True, False),
        ({"type": "PRE_COMPILE", "version": "ipu2"}, False, False),
        (
            {"type": "PRE_COMPILE", "version": "ipu2", "enable_remote_buffers": True},
            False,
            True,
        ),
    ],
)
def test_state_is_offloaded_by_default_where_there_are_remote_buffers(
    monkeypatch, tmp_path, attributes, model, offloads, style
):
    """IPUs that are attached have them, the IPU Model none; else the config says it."""
    flags = "--use_ipu_model" if model else f"--executable_cache_path={tmp_path}"
    monkeypatch.setenv("TF_POPLAR_FLAGS", flags)
    config = IPUConfig.from_dict(
        {"auto_select_ipus": 2}
        | {f"device_connection.{name}": value for name, value in attributes.items()}
    )
    system.configure_ipu_system(config)
    moves = []
    monkeypatch.setattr(
        offloading, "move", lambda *_, **__: moves.append(1) or tf.no_op()
    )
    with styles.entered(style, "xla") as ready:
        weight = ready.variable(np.float32([1.0, 2.0]), "weight")
        ready.build(
            lambda x: pipeline(
                [lambda x: x * weight, tf.reduce_sum],
                4,
                inputs=[x],
                outfeed_queue=IPUOutfeedQueue(),
                optimizer_function=lambda loss: OptimizerFunctionOutput(
                    OPTIMIZERS["momentum"](), loss
                ),
            ),
            1.0,
        )(1.0)

    assert bool(moves) is offloads


def test_copies_of_a_pipeline_offload_too():
    """Each moves its own."""
    configure(4)
    results = []
    for offload in (False, True):
        model = Pipelined(
            lambda: CrossReplicaOptimizer(OPTIMIZERS["momentum"]()),
            2,
            4,
            repeat_count=2,
            offload_weight_update_variables=offload,
        )
        results.append(model.train())

    kept, offloaded = results
    np.testing.assert_array_equal(offloaded.losses, kept.losses)


@pytest.mark.parametrize("style", ["graph", "graph, while v2"])
def test_version_1_programs_offload_too(style):
    """The state goes on from one update to the next."""
    with on(2, style) as ready:
        dataset = tf.data.Dataset.range(8).map(lambda i: tf.cast(i, tf.float32))
        infeed, outfeed = ready.feed(lambda: dataset), IPUOutfeedQueue()
        weight = ready.variable([1.0, 2.0], "offloaded")
        ready.run(
            lambda: pipeline(
                [lambda x: x * weight, tf.reduce_sum],
                4,
                repeat_count=2,
                infeed_queue=infeed,
                outfeed_queue=outfeed,
                optimizer_function=lambda loss: OptimizerFunctionOutput(
                    v1.train.MomentumOptimizer(1.0, 0.5), loss
                ),
                offload_weight_update_variables=True,
            )
        )
        after = ready.read(weight)

    first, second = 0 + 1 + 2 + 3, 4 + 5 + 6 + 7
    moved = first + (0.5 * first + second)
    np.testing.assert_allclose(after, [1.0 - moved, 2.0 - moved])
