"""Programs are compiled once: across functions, sessions, IPUs, threads and processes.

function -> key -> memory | file | compile -> device
"""

import threading

import numpy as np
import pytest
import styles
import tensorflow as tf
from program_loops import configured, loop, stats, unique, v1

from ipufeed.device.config.enums import DeviceConnectionType
from ipufeed.device.program import compiler, executor
from ipufeed.device.program.scopes import ipu_scope
from ipufeed.device.system import system
from ipufeed.executable.store import counters


@pytest.fixture(autouse=True)
def fresh(clean_system):
    """No device holds a program, and the counters are at 0."""
    counters.reset_stats()


@pytest.mark.parametrize("style", ["graph", "function"])
def test_another_configuration_compiles_again(style, tmp_path):
    """Programs are forgotten with the configuration, and not with the same one again."""
    value = float(next(unique))

    def named(x):
        return x * value + value

    with styles.entered(style, "xla") as ready:
        configured(DeviceConnectionType.ON_DEMAND)
        run = ready.build(named, 1.0)
        for _ in range(2):
            run(1.0)
            configured(DeviceConnectionType.ON_DEMAND)
        assert stats().compiles == 1

        options = {"autoReport.all": "true", "autoReport.directory": str(tmp_path)}
        configured(DeviceConnectionType.ON_DEMAND, compilation_poplar_options=options)
        assert styles.only(run(1.0)) == 2 * value
        assert stats().compiles == 2
        assert list(tmp_path.glob("tf_report__*/profile.pop"))
        run(1.0)
        assert stats().compiles == 2

        system.reset_ipu_configuration()
        run(1.0)
        assert stats().compiles == 3


def test_a_configuration_while_a_program_runs_does_not_disturb_it():
    """It goes on with what it has; what runs afterwards is compiled again."""
    run, outfeed = loop(float(next(unique)))
    thread = threading.Thread(target=run, args=(300_000,))
    thread.start()
    while thread.is_alive() and not len(outfeed.dequeue()):
        pass
    configured(DeviceConnectionType.ON_DEMAND)
    thread.join()
    run(2)
    run(2)

    assert stats().compiles == 2


def test_a_second_run_and_another_count_compile_nothing():
    """The number of iterations is a value, not a part of the program."""
    run, _ = loop(float(next(unique)))
    run(1)
    assert stats().compiles == 1
    run(1)
    run(7)
    assert stats().compiles == 1


def test_new_queues_and_another_ipu_share_the_program():
    """The same text, with queue objects of its own, and on another device."""
    constant = float(next(unique))
    run, _ = loop(constant)
    expected = run(3)
    again, _ = loop(constant)

    assert again(3) == expected
    assert again(3, ordinal=1) == expected
    assert stats().compiles == 1
    assert stats().memory_hits == 2


def test_threads_that_need_the_same_program_compile_it_once():
    """The first compiles, the others wait for it."""
    constant = float(next(unique))
    runs = [loop(constant, ipu=n)[0] for n in range(3)]
    results = []
    threads = [
        threading.Thread(target=lambda run=run, n=n: results.append(run(2, ordinal=n)))
        for n, run in enumerate(runs)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert results == [[8.0 * constant] * 2] * 3
    assert stats().compiles == 1


def test_sessions_share_the_program():
    """A graph with ipu_compiler.compile, run by two sessions."""
    constant = float(next(unique))
    with tf.Graph().as_default():
        x = v1.placeholder(tf.float32, [2])
        with ipu_scope("/device:IPU:0"):
            result = compiler.compile(lambda y: y * constant + 1.0, [x])
        for _ in range(2):
            with v1.Session() as session:
                (value,) = session.run(result, {x: [1.0, 2.0]})
                assert value.tolist() == [constant + 1, 2 * constant + 1]

    assert stats().compiles == 1


@pytest.mark.parametrize("change", ["constant", "shape", "dtype"])
def test_another_program_is_compiled(change):
    """Of the same name, and the same otherwise."""
    base = float(next(unique))

    @tf.function(jit_compile=True, reduce_retracing=False)
    def program(x, factor):
        return x * factor

    with tf.device("/device:IPU:0"):
        program(tf.ones([3]), base)
        before = stats().compiles
        if change == "constant":
            program(tf.ones([3]), base + 0.5)
        elif change == "shape":
            program(tf.ones([4]), base)
        else:
            program(tf.ones([3], tf.float16), base)
    assert stats().compiles == before + 1


def test_programs_that_alternate_are_loaded_each_time():
    """An IPU holds one program; one that stays is loaded once."""
    first, _ = loop(float(next(unique)))
    second, _ = loop(float(next(unique)))
    first(1), second(1)
    counters.reset_stats()

    for _ in range(3):
        first(1), second(1)
    assert (stats().loads, stats().switches) == (6, 6)
    counters.reset_stats()

    for _ in range(3):
        second(1)
        first(1, ordinal=1)
    assert (stats().loads, stats().switches) == (1, 0)  # the first time on IPU 1
    assert stats().compiles == 0


def graph_with_step(step_device):
    """A training step and its counter, which is on the IPU or on the CPU."""
    x = v1.placeholder(tf.float32, [2])
    with tf.device(step_device):
        step = v1.get_variable(
            "step", [], tf.int64, v1.zeros_initializer(), use_resource=True
        )
        count = step.assign_add(1)
    with ipu_scope("/device:IPU:0"):
        constant = float(next(unique))
        result = compiler.compile(lambda y: y * constant + y, [x])
    return x, [result, count]


@pytest.mark.parametrize(
    ("device", "switches"), [("/device:IPU:0", True), ("cpu", False)]
)
def test_a_global_step_on_the_ipu_switches_programs(device, switches):
    """In each step; on the CPU it does not."""
    with tf.Graph().as_default(), v1.Session() as session:
        x, fetches = graph_with_step(device)
        session.run(v1.global_variables_initializer())
        session.run(fetches, {x: [1.0, 2.0]})
        counters.reset_stats()
        for _ in range(4):
            session.run(fetches, {x: [1.0, 2.0]})

    assert (stats().switches >= 4) == switches
    assert switches or stats().loads == 0


@pytest.mark.parametrize("mode", ["xla", "tensorflow"])
def test_a_graph_without_compile_is_one_program_and_op_by_op_many(mode):
    """What the executor is asked to run is one program for each op."""

    def compute(x):
        return tf.nn.relu(tf.linalg.matmul(x, x)) + 1.0

    with tf.Graph().as_default(), executor.executor_scope("xla"):
        x = v1.placeholder(tf.float32, [2, 2])
        with ipu_scope("/device:IPU:0"):
            plain = compute(x)
            (whole,) = compiler.compile(compute, [x])
        with v1.Session() as session:
            executor.set_executor(mode)
            values = []
            for fetch in (plain, whole):
                session.run(fetch, {x: np.eye(2)})
                counters.reset_stats()
                values.append(session.run(fetch, {x: np.eye(2)}))
                if fetch is plain and mode == "tensorflow":
                    assert stats().loads >= 3
                else:
                    assert stats().loads == 0

    np.testing.assert_array_equal(*values)


def test_what_the_executor_runs_as_one_program_is_one():
    """Its ops do not switch the device."""
    with tf.Graph().as_default(), executor.executor_scope("tensorflow"):
        x = v1.placeholder(tf.float32, [2, 2])
        with ipu_scope("/device:IPU:0"):
            result = compiler.compile(lambda y: tf.nn.relu(y @ y) + 1.0, [x])
        with v1.Session() as session:
            session.run(result, {x: np.eye(2)})
            counters.reset_stats()
            for _ in range(3):
                session.run(result, {x: np.eye(2)})
    assert stats().loads == 0
