"""Devices without IPUs, the IPU Model, and parts of programs on them, in each style."""

import numpy as np
import pytest
import tensorflow as tf
from replicated import configure
from styles import entered, only

from ipufeed.device.config.config import DeviceConnectionType, IPUConfig
from ipufeed.device.system import system
from ipufeed.executable.store.counters import reset_stats, stats
from ipufeed.parallel.collectives import ops as collectives
from ipufeed.parallel.pipeline.pipeline import pipeline
from ipufeed.parallel.pipeline.schedules import PipelineSchedule
from ipufeed.programs import gen_poputil_ops
from ipufeed.queues import IPUOutfeedQueue

pytestmark = pytest.mark.usefixtures("clean_system")
STYLES = ["graph", "graph, while v2", "function"]


@pytest.mark.parametrize("style", STYLES)
def test_a_program_is_compiled_where_it_cannot_run(style, tmp_path, monkeypatch):
    """Its report and its file are written, and then its execution fails."""
    monkeypatch.setenv("TF_POPLAR_FLAGS", f"--executable_cache_path={tmp_path}/cache")
    config = IPUConfig()
    config.auto_select_ipus = 1
    config.device_connection.type = DeviceConnectionType.NEVER
    config.device_connection.version = "ipu2"
    config.compilation_poplar_options = {
        "autoReport.all": "true",
        "autoReport.directory": str(tmp_path / "reports"),
    }
    system.configure_ipu_system(config)
    with entered(style, "xla") as ready:
        run = ready.build(lambda x: x * 2.40625, 1.0)
        with pytest.raises(
            tf.errors.InvalidArgumentError,
            match="a device that was configured for compilation only",
        ):
            run(1.0)

    assert len(list(tmp_path.glob("cache/*.poplar_exec"))) == 1
    assert len(list(tmp_path.glob("reports/*/profile.pop"))) == 1


@pytest.mark.parametrize("style", STYLES)
def test_each_compile_has_a_folder_with_one_report(style, tmp_path):
    """Also of another program of the same name; what is found again has none."""
    config = IPUConfig()
    config.auto_select_ipus = 1
    config.compilation_poplar_options = {
        "autoReport.all": "true",
        "autoReport.directory": str(tmp_path),
    }
    system.configure_ipu_system(config)
    with entered(style, "xla") as ready:

        def same_name(x):
            return tf.cos(x) * 2.53125

        for size in (3, 300, 3):
            run = ready.build(same_name, np.ones(size, np.float32))
            for _ in range(2):
                run(np.ones(size, np.float32))

    folders = list(tmp_path.glob("tf_report__*"))
    assert len(folders) == 2
    for each in folders:
        assert [one.name for one in each.glob("*.pop")] == ["profile.pop"]
        assert (each / "framework.json").exists()


@pytest.mark.parametrize("style", STYLES)
def test_what_is_found_on_disk_after_a_reset_has_no_report(
    style, tmp_path, monkeypatch
):
    """The reset forgets the program in memory; the file is found, and nothing compiled."""
    monkeypatch.setenv("TF_POPLAR_FLAGS", f"--executable_cache_path={tmp_path}/cache")
    config = IPUConfig()
    config.auto_select_ipus = 1
    config.compilation_poplar_options = {
        "autoReport.all": "true",
        "autoReport.directory": str(tmp_path / "reports"),
    }
    system.configure_ipu_system(config)
    reset_stats()
    with entered(style, "xla") as ready:
        run = ready.build(lambda x: x * 2.609375, 1.0)
        for _ in range(2):
            assert only(run(1.0)) == 2.609375
            system.reset_ipu_configuration()
            system.configure_ipu_system(config)

    assert (stats().compiles, stats().disk_hits) == (1, 1)
    assert len(list(tmp_path.glob("reports/*/profile.pop"))) == 1


@pytest.mark.parametrize("style", STYLES)
def test_programs_that_alternate_are_loaded_each_time(style):
    """An IPU holds one; none is compiled again."""
    configure(1)
    with entered(style, "xla") as ready:
        first = ready.build(lambda x: x * 2.578125, 1.0)
        second = ready.build(lambda x: x * 2.59375, 1.0)
        first(1.0), second(1.0)
        reset_stats()
        for _ in range(3):
            first(1.0), second(1.0)

    assert (stats().compiles, stats().loads, stats().switches) == (0, 6, 6)


@pytest.mark.parametrize("style", STYLES)
def test_the_ipu_model_has_replicas(style, monkeypatch):
    """Their results are next to one another, and they know their sum."""
    monkeypatch.setenv("TF_POPLAR_FLAGS", "--use_ipu_model")
    configure(4)
    outfeed = IPUOutfeedQueue()
    with entered(style, "xla") as ready:

        def body(x):
            rank = tf.cast(collectives.replication_index(), tf.float32)
            total = collectives.cross_replica_sum(rank)
            return x + total, outfeed.enqueue(rank)

        total = ready.run(lambda x: ready.repeat(3, body, [x]), 0.0)
        found = ready.read(outfeed.dequeue())

    assert np.ravel(only(total))[0] == 18.0
    assert found.tolist() == [[0, 1, 2, 3]] * 3


@pytest.mark.parametrize("style", STYLES)
def test_the_parts_of_an_accumulation_make_one(style):
    """Zeros of a variable's shape, a scaled sum in each iteration, and the sink."""
    configure(1)
    with entered(style, "xla") as ready:
        weight = ready.variable(np.float16([1.0, 2.0]), "weight")

        def net(x):
            zeros = gen_poputil_ops.gradient_accumulator_create(
                weight.handle, output_type=tf.float32
            )

            def body(total):
                gradients = tf.cast(x * weight, tf.float16)
                return gen_poputil_ops.gradient_accumulator_add_with_scale(
                    total, gradients, 0.5
                )

            gen_poputil_ops.gradient_accumulation_count(3)
            total = ready.repeat(3, body, [zeros])
            return gen_poputil_ops.gradient_accumulator_sink(total)

        found = only(ready.run(net, np.float16(4.0)))
    assert found.dtype == np.float32
    assert found.tolist() == [7.0, 14.0]


@pytest.mark.parametrize("style", STYLES)
def test_a_sequential_pipeline_logs_no_error(style, capfd):
    """TensorFlow's optimizers of graphs accept it."""
    configure(2)
    outfeed = IPUOutfeedQueue()
    with entered(style, "xla") as ready:
        infeed = ready.feed(
            lambda: tf.data.Dataset.range(8).map(lambda i: tf.cast(i, tf.float32))
        )

        def net():
            return pipeline(
                [lambda x: x + 1.0, lambda x: x * 2.0],
                4,
                infeed_queue=infeed,
                outfeed_queue=outfeed,
                pipeline_schedule=PipelineSchedule.Sequential,
            )

        ready.run(net)
        assert ready.read(outfeed.dequeue()).tolist() == [2, 4, 6, 8]
    logged = capfd.readouterr().err
    assert "meta_optimizer" not in logged
    assert "SymbolicShapeRefiner" not in logged
