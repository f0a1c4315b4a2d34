"""Gradients of loops with conditionals in their bodies, in both styles and both loops."""

import numpy as np
import pytest
import tensorflow as tf
from styles import CASES, entered

from ipufeed.queues import IPUOutfeedQueue

v1 = tf.compat.v1


def gradients(style, function, value, weight):
    """function(value) and its gradients by the value and the weight."""
    if style != "function":
        result = function(value)
        return result, *tf.gradients(result, [value, weight])
    with tf.GradientTape() as tape:
        tape.watch(value)
        result = function(value)
    return result, *tape.gradient(result, [value, weight])


def once(x, weight):
    """Twice the doubling of x, and then the sum with the weight."""
    return tf.cond(x < 15.0, lambda: x * weight, lambda: x + weight)


def nested(x, weight):
    """The same through a conditional in a branch."""
    return tf.cond(
        x < 15.0,
        lambda: tf.cond(x < 7.0, lambda: x * weight, lambda: x * weight * 1.0),
        lambda: x + weight,
    )


def switched(x, weight):
    """The same through tf.case."""
    return tf.case([(x < 15.0, lambda: x * weight)], default=lambda: x + weight)


@pytest.mark.parametrize("body", [once, nested, switched])
@pytest.mark.parametrize(("style", "executor"), CASES)
def test_a_loop_with_a_conditional_has_gradients(style, executor, body):
    """5 -> 10 -> 20 -> 22, by the value 2 * 2, by the weight 5 * 2 + 10 + 1."""
    with entered(style, executor) as ready:
        weight = ready.variable(2.0, "weight")

        def net(x):
            def looped(x):
                return ready.repeat(3, lambda y: body(y, weight), [x])

            return gradients(style, looped, x, weight)

        results = ready.run(net, 5.0)

    assert np.ravel(results).tolist() == [22.0, 4.0, 21.0]


@pytest.mark.parametrize(("style", "executor"), CASES)
def test_a_step_with_a_conditional_trains_in_a_loop(style, executor):
    """The gradient is of one iteration; a queue call in a branch keeps its place."""
    with entered(style, executor) as ready:
        weight = ready.variable(2.0, "weight")
        outfeed = IPUOutfeedQueue()

        def body(x):
            loss, _, slope = gradients(style, lambda x: once(x, weight), x, weight)
            with tf.control_dependencies([loss]):
                updated = weight.assign_sub(0.125 * slope)
            with tf.control_dependencies([updated]):
                return x * 2.0, outfeed.enqueue(loss)

        def net(x):
            return ready.repeat(3, body, [x])

        ready.run(net, 8.0)
        losses = ready.read(outfeed.dequeue())

        # Slopes 8, 1, 1 of the weight: 2, 1, 0.875, 0.75.
        assert losses.tolist() == [16.0, 17.0, 32.875]
        assert ready.read(weight) == 0.75
