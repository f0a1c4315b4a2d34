"""What the gradient accumulation optimizers promise: one update for several batches."""

import gc

import numpy as np
import pytest
import small_model
import styles
import tensorflow as tf
from accumulating import INNER, V2, v1

from ipufeed.parallel.optimizers import accumulation, optimizers

UPDATES = 3


def train(style, optimizer, batch, iterations):
    """Trains the model in one program; gives its variables afterwards."""
    x, y = small_model.samples(24)
    infeed = style.feed(lambda: small_model.batches(x, y, batch))
    variables = small_model.weights(style)

    def body(x, y):
        return optimizer.minimize(small_model.loss(variables, x, y), var_list=variables)

    def net():
        return style.repeat(iterations, body, [], infeed)

    style.run(net)
    return [np.array(each) for each in style.read(variables)]


def large_batches(rate=small_model.RATE):
    """What `train` gives without accumulation, computed in float64 by numpy."""
    x, y = (each.astype(np.float64) for each in small_model.samples(24))
    first, second = (each.astype(np.float64) for each in small_model.initial_weights())
    speeds = [np.zeros_like(first), np.zeros_like(second)]
    for step in range(UPDATES):
        part = slice(step * 8, step * 8 + 8)
        hidden = np.tanh(x[part] @ first)
        error = 2 * (hidden @ second - y[part]) / 8
        gradients = [
            x[part].T @ ((error @ second.T) * (1 - hidden**2)),
            hidden.T @ error,
        ]
        speeds = [
            0.9 * speed + gradient
            for speed, gradient in zip(speeds, gradients, strict=True)
        ]
        first, second = first - rate * speeds[0], second - rate * speeds[1]
    return [first, second]


def close(found, expected, rtol=1e-5):
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=rtol, atol=1e-7)


@pytest.mark.parametrize("style", styles.TWO, ids=", ".join, indirect=True)
@pytest.mark.parametrize("method", ["mean", "RUNNING_MEAN"])
def test_accumulated_batches_train_as_one_large_batch(style, method):
    """With means: the loss is a mean over its batch. In each style, and each mode."""
    optimizer = V2(INNER["momentum"](), 4, reduction_method=method)

    close(train(style, optimizer, 2, 4 * UPDATES), large_batches())


@pytest.mark.parametrize("style", [("function", "xla")], indirect=True)
@pytest.mark.parametrize("inner", INNER)
def test_any_optimizer_can_be_wrapped(style, inner):
    """Its state changes once for each update, too."""
    large = train(style, INNER[inner](), 8, UPDATES)
    optimizer = V2(INNER[inner](), 4, reduction_method="mean")

    close(train(style, optimizer, 2, 4 * UPDATES), large)


@pytest.mark.parametrize("optimizer", [V2, accumulation.GradientAccumulationOptimizer])
@pytest.mark.parametrize("style", [("graph", "xla")], indirect=True)
def test_the_sum_is_what_is_accumulated_by_default(style, optimizer):
    """A quarter of the rate makes a mean of it; the older form can do nothing else."""
    inner = v1.train.MomentumOptimizer(small_model.RATE / 4, 0.9)

    close(train(style, optimizer(inner, 4), 2, 4 * UPDATES), large_batches())


@pytest.mark.parametrize("style", [("function", "xla")], indirect=True)
def test_two_runs_give_the_same_bits(style):
    """Each from the same start."""
    first, second = (train(style, V2(INNER["adam"](), 4), 2, 12) for _ in range(2))

    for one, other in zip(first, second, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("style", [("graph", "xla")], indirect=True)
def test_one_mini_batch_is_not_accumulated(style):
    """Any number of iterations is a multiple of one, also outside of a loop."""
    close(train(style, V2(INNER["momentum"](), 1), 8, UPDATES), large_batches())


@pytest.mark.parametrize("style", [("graph", "xla")], indirect=True)
def test_the_step_counts_updates(style):
    """And not mini-batches."""
    x, y = small_model.samples(24)
    infeed = style.feed(lambda: small_model.batches(x, y, 2))
    variables = small_model.weights(style)
    step = style.variable(np.int64(0), "step")
    optimizer = V2(INNER["descent"](), 4)

    def body(x, y):
        loss = small_model.loss(variables, x, y)
        return optimizer.minimize(loss, global_step=step, var_list=variables)

    style.run(lambda: style.repeat(12, body, [], infeed))

    assert style.read(step) == UPDATES


@pytest.mark.long
@pytest.mark.parametrize("style", styles.TWO, ids=", ".join, indirect=True)
@pytest.mark.parametrize("inner", INNER)
def test_an_optimizer_may_be_made_in_the_body_of_the_loop(style, inner):
    """It trains as one that was made before, also in the next run of the program."""
    x, y = small_model.samples(24)

    def make():
        return V2(optimizers.CrossReplicaOptimizer(INNER[inner]()), 4)

    def trained(inside):
        infeed = style.feed(lambda: small_model.batches(x, y, 2))
        variables = small_model.weights(style)
        made = make()

        def body(x, y):
            optimizer = make() if inside else made
            loss = small_model.loss(variables, x, y)
            return optimizer.minimize(loss, var_list=variables)

        program = style.build(lambda: style.repeat(8, body, [], infeed))
        for _ in range(2):
            program()
            gc.collect()
        return [np.array(each) for each in style.read(variables)]

    for one, other in zip(trained(True), trained(False), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)


@pytest.mark.long
@pytest.mark.parametrize("style", [("function", "xla")], indirect=True)
@pytest.mark.parametrize("inner", INNER)
def test_a_program_may_create_its_variables_in_its_first_call(style, inner):
    """TensorFlow traces it twice then, and the second trace has accumulators, too."""
    x, y = small_model.samples(24)

    def trained(inside):
        infeed = style.feed(lambda: small_model.batches(x, y, 2))
        made = [] if inside else small_model.weights(style)
        optimizer = V2(INNER[inner](), 4)

        def body(x, y):
            if not made:
                made.extend(map(tf.Variable, small_model.initial_weights()))
            loss = small_model.loss(made, x, y)
            return optimizer.minimize(loss, var_list=made)

        program = style.build(lambda: style.repeat(8, body, [], infeed))
        for _ in range(2):
            program()
        return [np.array(each) for each in style.read(made)]

    for one, other in zip(trained(True), trained(False), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    "style", [("graph", "xla"), ("function", "xla")], indirect=True
)
def test_a_loop_must_run_a_multiple_of_the_mini_batches(style):
    """The original's words, and both counts nearby that would do; nothing is trained."""
    with pytest.raises(
        tf.errors.FailedPreconditionError,
        match=r"Detected a gradient accumulation operation with 4 number of mini batches "
        r"inside a loop with 10 iterations. .* multiple .*, such as 8 or 12\.",
    ):
        train(style, V2(INNER["descent"](), 4), 2, 10)


@pytest.mark.parametrize(
    "style", [("graph", "xla"), ("function", "xla")], indirect=True
)
def test_accumulation_outside_of_a_loop_is_refused_when_it_runs(style):
    """The original's words, and what to do."""
    weight = style.variable(np.float32(1.0), "weight")
    optimizer = V2(INNER["descent"](), 4)

    def net(x):
        update = optimizer.minimize(lambda: weight * x, var_list=[weight])
        with tf.control_dependencies([update]):
            return tf.identity(x)

    run = style.build(net, 2.0)
    with pytest.raises(
        tf.errors.FailedPreconditionError,
        match="Detected a gradient accumulation operation with 4 number of mini "
        "batches which is not inside a training loop",
    ):
        run(2.0)
    assert style.read(weight) == 1.0


@pytest.mark.parametrize(
    "style", [("graph", "xla"), ("function", "xla")], indirect=True
)
def test_a_while_loop_is_a_training_loop(style):
    """The number of its iterations is known after the last."""
    weight = style.variable(np.float32(1.0), "weight")
    optimizer = V2(INNER["descent"](), 2)

    def program(n):
        def body(i):
            done = optimizer.minimize(lambda: weight * 2, var_list=[weight])
            return i + 1, done

        return style.while_loop(lambda i: i < n, body, [0])

    run = style.build(program, np.int32(4))
    run(np.int32(4))
    descended = style.read(weight)
    assert descended < 1.0
    with pytest.raises(tf.errors.FailedPreconditionError, match="with 5 iterations"):
        run(np.int32(5))
    assert style.read(weight) == descended
