"""What an outfeed knows of the graphs that enqueue to it, and when it refuses tensors."""

import pytest
import tensorflow as tf
from styles import CASES, entered

from ipufeed.device.program import compiler, loops, scopes
from ipufeed.device.program.executor import executor_scope
from ipufeed.queues import IPUOutfeedQueue

v1 = tf.compat.v1


def test_a_graph_enqueues_if_a_function_that_is_made_in_it_does():
    """As a pipeline's stages do; another function of the graph does not."""
    outfeed = IPUOutfeedQueue()
    seen = []

    @tf.function
    def enqueues():
        outfeed.enqueue(tf.constant(1.0))
        tf.cond(tf.constant(True), lambda: note(), lambda: tf.constant(0.0))

    def note():
        seen.append(outfeed.enqueued)
        return tf.constant(1.0)

    @tf.function
    def another():
        seen.append(outfeed.enqueued)

    with tf.Graph().as_default():
        assert not outfeed.enqueued
        with scopes.ipu_scope("/device:IPU:0"):
            enqueues.get_concrete_function()
        assert outfeed.enqueued
        assert seen == [True]
        another.get_concrete_function()
        assert seen == [True, False]
    with tf.Graph().as_default():
        assert not outfeed.enqueued


@pytest.mark.parametrize(("style", "executor"), CASES)
def test_a_dimension_of_size_0_is_an_error_of_the_run(style, executor):
    """It is built without one, so that an error of the program that comes later is seen."""
    built = []
    with entered(style, executor) as ready:
        outfeed = IPUOutfeedQueue()

        def net():
            outfeed.enqueue(tf.zeros([0, 3]))
            built.append(True)
            return tf.constant(1.0)

        def graph_net():
            return tf.constant(1.0), outfeed.enqueue(tf.zeros([0, 3]))

        run = ready.build(net if style == "function" else graph_net)
        with pytest.raises(
            tf.errors.InvalidArgumentError,
            match="Detected an input tensor to an outfeed queue with a dimension of size 0",
        ):
            run()
        assert outfeed.stats().elements == 0
    assert built or style != "function"


def test_a_dequeue_before_an_enqueue_is_refused_in_a_graph():
    """With the original's sentence."""
    outfeed = IPUOutfeedQueue()
    with (
        tf.Graph().as_default(),
        pytest.raises(
            ValueError,
            match=r"^Trying to dequeue an outfeed which has not been enqueued\. No program",
        ),
    ):
        outfeed.dequeue()
    with tf.Graph().as_default(), scopes.ipu_scope("/device:IPU:0"):
        compiler.compile(lambda: outfeed.enqueue(tf.constant(1.0)))
        assert isinstance(outfeed.dequeue(), tf.Tensor)


def unreturned(outfeed, x):
    outfeed.enqueue(x)
    return x + 1.0


def in_a_branch(outfeed, x):
    tf.cond(x > 0.0, lambda: [outfeed.enqueue(x), x][1], lambda: x)
    return x + 1.0


def returned(outfeed, x):
    return x + 1.0, outfeed.enqueue(x)


def controlling(outfeed, x):
    with tf.control_dependencies([outfeed.enqueue(x)]):
        return x + 1.0


def before_another(outfeed, x):
    outfeed.enqueue(x)
    return x + 1.0, IPUOutfeedQueue().enqueue(x)


@pytest.mark.parametrize("executor", ["xla", "tensorflow"])
@pytest.mark.parametrize(
    ("body", "version_2", "count"),
    [
        (unreturned, False, 0),
        (in_a_branch, False, 0),
        (returned, False, 3),
        (controlling, False, 3),
        (before_another, False, 3),
        (unreturned, True, 3),
    ],
)
def test_an_enqueue_that_a_loop_does_not_run_is_warned_of(
    executor, body, version_2, count, caplog
):
    """A body of a version 1 loop has to return it; its queue was empty silently."""
    outfeed = IPUOutfeedQueue()

    def step(x):
        return body(outfeed, x)

    def net():
        return loops.repeat(3, step, [1.0], use_while_v1=not version_2)

    with (
        executor_scope(executor),
        tf.Graph().as_default(),
        scopes.ipu_scope("/device:IPU:0"),
    ):
        run = compiler.compile(net)
        dequeued = outfeed.dequeue()
        with v1.Session() as session:
            session.run(run)
            assert session.run(dequeued).shape == (count,)
    warned = (
        "`step` of a version 1 loop enqueues to an outfeed, and nothing" in caplog.text
    )
    assert warned == (count == 0)
