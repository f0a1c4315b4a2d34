"""Prints, delays and counters act at their place in the program, in each run."""

import threading

import numpy as np
import pytest
import styles
import tensorflow as tf
from helpers import DEADLOCK_S

from ipufeed.device.config.config import IPUConfig
from ipufeed.device.program.loops import repeat
from ipufeed.device.program.scopes import ipu_scope
from ipufeed.device.program.strategy import IPUStrategy
from ipufeed.ops.control_flow_ops import barrier
from ipufeed.ops.internal_ops import fifo, get_current_iteration_counter, print_tensor
from ipufeed.parallel.pipeline.options import OptimizerFunctionOutput
from ipufeed.parallel.pipeline.pipeline import pipeline
from ipufeed.queues import IPUInfeedQueue, IPUOutfeedQueue

pytestmark = pytest.mark.usefixtures("clean_system")
v1 = tf.compat.v1


def configure(ipus, recompute=False):
    config = IPUConfig()
    config.auto_select_ipus = ipus
    config.allow_recompute = recompute
    config.configure_ipu_system()


@pytest.mark.parametrize("style", styles.CASES, ids=", ".join, indirect=True)
def test_prints_and_delays_come_in_the_order_of_a_loop(style, capfd):
    """Each iteration prints its number, twice; each run starts with an empty queue."""
    outfeed = IPUOutfeedQueue()

    def body(number):
        first = print_tensor(number, name="first")
        with tf.control_dependencies([first] if first is not None else []):
            second = print_tensor(tf.stack([number, number]), name="second")
        late = fifo(number, 2), fifo(number + 0.5, 1)
        with tf.control_dependencies([second] if second is not None else []):
            return number + 1, outfeed.enqueue([*late, fifo(number, 0)])

    go = style.build(lambda: style.repeat(4, body, [tf.constant(1.0)]))
    go()
    go()
    two, one, none = style.read(outfeed.dequeue())

    np.testing.assert_array_equal(two, [0, 0, 1, 2] * 2)
    np.testing.assert_array_equal(one, [0, 1.5, 2.5, 3.5] * 2)
    np.testing.assert_array_equal(none, [1, 2, 3, 4] * 2)
    expected = [
        line for n in (1, 2, 3, 4) for line in (f"first: {n}.", f"second: [{n}. {n}.]")
    ]
    lines = capfd.readouterr().err.splitlines()
    assert [each for each in lines if ": " in each and each[0] in "fs"] == expected * 2


def test_a_delay_lasts_as_long_as_its_program():
    """However many others begin and end in the meantime."""
    configure([1, 1])
    source = tf.queue.FIFOQueue(10, [tf.float32], [[]])
    infeed = IPUInfeedQueue(tf.data.Dataset.counter().map(lambda _: source.dequeue()))
    outfeed = IPUOutfeedQueue()
    _ = infeed.initializer

    @tf.function(jit_compile=True)
    def program():
        return repeat(3, lambda x: outfeed.enqueue(fifo(x, 1)), [], infeed)

    thread = threading.Thread(target=IPUStrategy().run, args=[program])
    thread.start()
    results = iter(outfeed.stream(timeout_s=DEADLOCK_S))
    source.enqueue(1.0)
    found = [float(next(results))]
    with ipu_scope("/device:IPU:1"):
        for number in range(12):
            fifo(tf.constant(100.0 + number), 1)
    source.enqueue_many([[2.0, 3.0]])
    thread.join(DEADLOCK_S)
    found += [float(each) for each in results]

    assert found == [0.0, 1.0, 2.0]


def test_replicas_print_their_numbers(capfd):
    """And an eager print is a program of its own."""
    configure(2)
    with styles.entered("function", "xla") as style:
        outfeed = IPUOutfeedQueue()

        def body():
            print_tensor(tf.constant([True, False]), "flags")
            return outfeed.enqueue(tf.constant(1.0))

        style.run(lambda: style.repeat(1, body, []))
    with ipu_scope("/device:IPU:0"):
        assert print_tensor(tf.constant(2, tf.int64), "eager") is None
        np.testing.assert_array_equal(fifo(tf.constant([5.0]), 1), [0.0])
    lines = capfd.readouterr().err.splitlines()

    assert {each for each in lines if each.startswith("flags")} == {
        "flags (replica 0): [ True False]",
        "flags (replica 1): [ True False]",
    }
    assert "eager: 2" in lines


@pytest.mark.parametrize("recompute", [False, True])
def test_stages_know_their_mini_batch_and_print_once(capfd, recompute):
    """Forward, recomputed and backward; again from 0 in each repetition."""
    configure(2, recompute)
    strategy = IPUStrategy()
    infeed = IPUInfeedQueue(tf.data.Dataset.from_tensors(np.float32(1)).repeat())
    outfeed = IPUOutfeedQueue()
    _ = infeed.initializer
    with strategy.scope():
        weight = tf.Variable(0.0)

    def first(x):
        number = tf.cast(get_current_iteration_counter(), tf.float32)
        print_tensor(number, "stage")
        return x * weight * tf.square(number), number

    def second(x, number):
        own = tf.cast(get_current_iteration_counter(), tf.float32)
        return x, number, own, fifo(own, 1)

    @tf.function(jit_compile=True)
    def program():
        return pipeline(
            [first, second],
            gradient_accumulation_count=4,
            repeat_count=3,
            infeed_queue=infeed,
            outfeed_queue=outfeed,
            optimizer_function=lambda loss, *_: OptimizerFunctionOutput(
                v1.train.GradientDescentOptimizer(1.0), loss
            ),
        )

    with strategy.scope():
        strategy.run(program)
    _, of_first, of_second, late = (each.numpy() for each in outfeed.dequeue())
    printed = [
        line
        for line in capfd.readouterr().err.splitlines()
        if line.startswith("stage: ")
    ]

    np.testing.assert_array_equal(of_first, np.tile(np.arange(4), 3))
    np.testing.assert_array_equal(of_second, of_first)
    np.testing.assert_array_equal(late, [0, *of_second[:-1]])
    assert weight.numpy() == -3 * (0 + 1 + 4 + 9)
    assert printed == [f"stage: {n}." for n in (0, 1, 2, 3)] * 3


def test_a_counter_belongs_to_a_pipeline():
    """Elsewhere it is refused."""
    with pytest.raises(
        tf.errors.FailedPreconditionError, match="Cannot access an execution counter"
    ):
        get_current_iteration_counter(lower_into_pipeline_stage=True)


@pytest.mark.parametrize(
    ("depth", "error", "words"),
    [
        (1.5, TypeError, "depth must be an int, got float 1.5"),
        (True, TypeError, "depth must be an int, got bool True"),
        ("2", TypeError, "depth must be an int, got str '2'"),
        (None, TypeError, "depth must be an int, got NoneType"),
        (2**31, ValueError, "depth must be at most 2147483647"),
        (-1, ValueError, "depth must be at least 0, got -1"),
    ],
)
def test_a_depth_that_is_not_a_count_is_refused(depth, error, words):
    with pytest.raises(error, match=words):
        fifo(tf.constant(1.0), depth)
    with pytest.raises(TypeError, match="offload must be a bool"):
        fifo(tf.constant(1.0), 1, offload="x")


def test_a_depth_of_numpy_is_a_count():
    np.testing.assert_array_equal(fifo(tf.constant(3.0), np.int64(0)), 3.0)


@pytest.mark.parametrize("style", styles.TWO, ids=", ".join, indirect=True)
def test_integers_pass_a_barrier_next_to_what_has_a_gradient(style):
    """Labels have none."""
    outfeed = IPUOutfeedQueue()

    def body(x):
        inputs, labels = barrier([x, tf.constant(3)], insert_barrier_for_gradients=True)
        loss = inputs * inputs * tf.cast(labels, tf.float32)
        (gradient,) = tf.gradients(loss, [x])
        return x + 1.0, outfeed.enqueue(gradient)

    style.run(lambda x: style.repeat(2, body, [x]), 1.0)

    assert style.read(outfeed.dequeue()).tolist() == [6.0, 12.0]


def test_a_delay_of_text_is_refused():
    """When the program is built."""
    with pytest.raises(
        TypeError, match="`x` must be of numbers or bools, got a tensor"
    ):
        fifo("text", 2)
