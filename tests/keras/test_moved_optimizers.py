"""Keras's optimizers in programs of one's own, made in the scope or outside of it."""

import keras
import keras_models as models
import numpy as np
import pytest
import tensorflow as tf
import tf_keras

import ipufeed as ipu
from ipufeed.keras import optimizers

pytestmark = pytest.mark.long

KINDS = [
    lambda kind: kind.SGD(0.1),
    lambda kind: kind.Adam(0.1),
    lambda kind: kind.Adam(kind.schedules.ExponentialDecay(0.1, 1, 0.5)),
]


@pytest.fixture(autouse=True, scope="module")
def one_ipu():
    models.configure(1)


def trained(make, steps=4, in_scope=True):
    """A variable after some steps of a loop, and the count of updates."""
    strategy = ipu.IPUStrategy()
    optimizer = None if in_scope else make()
    data = tf.data.Dataset.range(100).map(lambda x: tf.cast(x, tf.float32))
    with strategy.scope():
        optimizer = make() if in_scope else optimizer
        v = tf.Variable([1.0, 2.0])
        queue = ipu.IPUInfeedQueue(data)

        @tf.function(jit_compile=True)
        def program():
            def body(x):
                with tf.GradientTape() as tape:
                    loss = tf.reduce_sum(v * v) * (x + 1)
                optimizer.apply_gradients([(tape.gradient(loss, v), v)])

            ipu.loops.repeat(steps, body, [], queue)

        queue.initializer  # noqa: B018
        strategy.run(program)
        count = getattr(optimizer, "iterations", None)
        return v.numpy(), None if count is None else int(count)


@pytest.mark.parametrize("library", [keras, tf_keras])
@pytest.mark.parametrize("kind", range(len(KINDS)))
def test_an_optimizer_made_outside_of_the_scope_moves_at_its_first_use(library, kind):
    """It updates as one that was made inside."""

    def make():
        return KINDS[kind](library.optimizers)

    inside, outside = trained(make), trained(make, in_scope=False)

    np.testing.assert_array_equal(inside[0], outside[0])
    assert inside[1] == outside[1] == 4


@pytest.mark.parametrize("method", ["sum", "mean", "running_mean"])
@pytest.mark.parametrize("in_scope", [True, False])
def test_accumulation_in_a_loop_is_that_of_version_1(method, in_scope):
    """Every third application updates, with the same numbers."""

    def old():
        return ipu.optimizers.GradientAccumulationOptimizerV2(
            tf.compat.v1.train.MomentumOptimizer(0.01, 0.9),
            3,
            reduction_method=method,
        )

    def new():
        return optimizers.GradientAccumulationOptimizer(
            keras.optimizers.SGD(0.01, 0.9), 3, reduction_method=method
        )

    expected, _ = trained(old, 6)
    got, count = trained(new, 6, in_scope)

    np.testing.assert_allclose(got, expected, rtol=1e-6)
    assert count == 2


def test_accumulation_needs_a_multiple_of_the_mini_batches():
    """The program is refused when it runs."""

    def make():
        return optimizers.GradientAccumulationOptimizer(keras.optimizers.SGD(0.01), 3)

    with pytest.raises(tf.errors.FailedPreconditionError, match="multiple"):
        trained(make, 4)


def pipelined(make, in_scope):
    """The variables of two stages after two updates."""
    models.configure(2)
    strategy = ipu.IPUStrategy()
    optimizer = None if in_scope else make()
    rows = np.arange(32, dtype=np.float32).reshape(16, 2) / 32
    with strategy.scope():
        optimizer = make() if in_scope else optimizer
        first = tf.Variable([[0.1, 0.2], [0.3, 0.4]])
        second = tf.Variable([[0.5], [0.6]])
        data = tf.data.Dataset.from_tensor_slices(rows).batch(1, drop_remainder=True)
        infeed = ipu.IPUInfeedQueue(data)
        outfeed = ipu.IPUOutfeedQueue()

        def optimize(loss):
            return ipu.pipelining_ops.OptimizerFunctionOutput(
                optimizer, loss, variables=[first, second]
            )

        @tf.function(jit_compile=True)
        def program():
            ipu.pipelining_ops.pipeline(
                [lambda x: x @ first, lambda h: tf.reduce_sum((h @ second - 1.0) ** 2)],
                gradient_accumulation_count=8,
                repeat_count=2,
                infeed_queue=infeed,
                outfeed_queue=outfeed,
                optimizer_function=optimize,
            )

        infeed.initializer  # noqa: B018
        strategy.run(program)
        return first.numpy(), second.numpy()


@pytest.mark.parametrize("library", [keras, tf_keras])
def test_an_optimizer_made_outside_of_the_scope_updates_a_pipeline(library):
    """As one that was made inside."""

    def make():
        return library.optimizers.Adam(0.05)

    inside, outside = pipelined(make, True), pipelined(make, False)

    for one, other in zip(inside, outside, strict=True):
        np.testing.assert_array_equal(one, other)
    assert abs(inside[0] - [[0.1, 0.2], [0.3, 0.4]]).min() > 0.05
