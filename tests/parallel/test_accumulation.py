"""What the gradient accumulation optimizers promise: one update for several batches."""

import gc

import keras
import numpy as np
import pytest
import small_model
import styles
import tensorflow as tf

from ipufeed.device.program import compiler, loops
from ipufeed.device.program.scopes import ipu_scope
from ipufeed.device.program.strategy import IPUStrategy
from ipufeed.parallel.optimizers import accumulation, optimizers
from ipufeed.parallel.optimizers.reduction_method import (
    GradientAccumulationReductionMethod,
)

v1 = tf.compat.v1
V2 = accumulation.GradientAccumulationOptimizerV2
UPDATES = 3

INNER = {
    "descent": lambda: v1.train.GradientDescentOptimizer(small_model.RATE),
    "momentum": lambda: v1.train.MomentumOptimizer(small_model.RATE, 0.9),
    "adam": lambda: v1.train.AdamOptimizer(small_model.RATE),
}


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
def test_one_mini_batch_is_no_accumulation(style):
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


def test_accumulation_outside_of_a_loop_is_refused_when_it_runs():
    """The original's words, and what to do."""
    with tf.Graph().as_default(), v1.Session() as session:
        with ipu_scope("/device:IPU:0"):
            weight = v1.get_variable("w", initializer=tf.constant(1.0))
            program = compiler.compile(
                lambda: V2(INNER["descent"](), 4).minimize(weight * 2)
            )
        session.run(v1.global_variables_initializer())
        with pytest.raises(
            tf.errors.FailedPreconditionError,
            match="Detected a gradient accumulation operation with 4 number of mini "
            "batches which is not inside a training loop",
        ):
            session.run(program)
        assert session.run(weight) == 1.0


def test_a_while_loop_is_no_training_loop():
    """The number of its iterations is unknown."""
    strategy = IPUStrategy()
    with strategy.scope():
        weight = tf.Variable(1.0)

    @tf.function(jit_compile=True)
    def program():
        def body(i):
            V2(INNER["descent"](), 2).minimize(weight * 2, var_list=[weight])
            return i + 1

        return loops.while_loop(lambda i: i < 4, body, [0])

    with (
        strategy.scope(),
        pytest.raises(tf.errors.FailedPreconditionError, match="not inside a training"),
    ):
        strategy.run(program)


class Recording(v1.train.Optimizer):
    """Notes the dtypes that it is to apply, and applies nothing."""

    def __init__(self):
        super().__init__(use_locking=False, name="Recording")
        self.dtypes = []

    def apply_gradients(self, grads_and_vars, global_step=None, name=None):
        self.dtypes = [gradient.dtype for gradient, _ in grads_and_vars]
        return tf.no_op()


def v1_form(optimizer, number):
    return accumulation.GradientAccumulationOptimizer(optimizer, number)


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [
        (None, [tf.float16, tf.float32]),
        (tf.float32, [tf.float32, tf.float32]),
        ("float16", [tf.float16, tf.float16]),
        (np.float32, [tf.float32, tf.float32]),
        (
            lambda var: tf.float64 if var.dtype == tf.float16 else var.dtype,
            [tf.float64, tf.float32],
        ),
    ],
    ids=["the variable's", "one for all", "by name", "of NumPy", "by variable"],
)
def test_accumulators_have_the_dtype_that_is_asked_for(dtype, expected):
    """And so have the gradients that the wrapped optimizer gets."""
    inner = Recording()
    optimizer = V2(inner, 2, dtype=dtype)
    with tf.Graph().as_default(), ipu_scope("/device:IPU:0"):
        half = v1.get_variable("half", initializer=tf.constant(1.0, tf.float16))
        single = v1.get_variable("single", initializer=tf.constant(1.0))

        def body():
            return optimizer.minimize(tf.cast(half, tf.float32) * single)

        compiler.compile(lambda: loops.repeat(4, body))
        sums = [
            op.get_attr("dtype")
            for op in half.graph.get_operations()
            if op.type == "VarHandleOp" and op.name.endswith("_sum")
        ]

    assert inner.dtypes == expected
    assert sums == expected


@pytest.mark.parametrize("wrap", [V2, v1_form])
def test_accumulators_are_none_of_the_program_s_variables(wrap):
    """A checkpoint has the weights and the wrapped optimizer's state, and no more."""
    inner = v1.train.MomentumOptimizer(0.1, 0.9)
    with tf.Graph().as_default(), v1.Session() as session:
        with ipu_scope("/device:IPU:0"):
            weight = v1.get_variable("weight", initializer=tf.constant(2.0))

            def body():
                return wrap(inner, 2).minimize(3.0 * weight)

            program = compiler.compile(lambda: loops.repeat(4, body))
        names = {each.op.name for each in v1.global_variables()}
        assert names == {"weight", "weight/Momentum"}
        assert not v1.local_variables()
        session.run(v1.global_variables_initializer())
        for _ in range(2):  # the second run begins as the first
            session.run(program)
        # Gradients of 6 in each of four updates.
        momentum, expected = 0.0, 2.0
        for _ in range(4):
            momentum = 0.9 * momentum + 6.0
            expected -= 0.1 * momentum
        assert session.run(weight) == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("style", [("function", "xla")], indirect=True)
def test_wide_accumulators_keep_what_narrow_ones_lose(style):
    """2048 + 1 is 2048 in float16; a map before the update makes it fit the variable."""

    def trained(dtype):
        gradients = [2048.0, 1.0, 1.0, 0.0]
        infeed = style.feed(
            lambda: tf.data.Dataset.from_tensor_slices(np.array(gradients, np.float16))
        )
        weight = style.variable(np.float16(0), "weight")
        inner = optimizers.MapGradientOptimizerInvertedChaining(
            v1.train.GradientDescentOptimizer(1.0),
            lambda gradient, variable: tf.cast(gradient, variable.dtype),
        )
        optimizer = V2(inner, 4, dtype=dtype)

        def body(x):
            return optimizer.minimize(weight * x, var_list=[weight])

        style.run(lambda: style.repeat(4, body, [], infeed))
        return float(style.read(weight))

    assert trained(tf.float32) == -2050.0
    assert trained(None) == -2048.0


@pytest.mark.parametrize(
    "make",
    [
        lambda opt: V2(opt, 2),
        lambda opt: accumulation.CrossReplicaGradientAccumulationOptimizerV2(opt, 2),
        lambda opt: accumulation.GradientAccumulationOptimizer(opt, 2, False),
        optimizers.CrossReplicaOptimizer,
        optimizers.ShardedOptimizer,
        lambda opt: optimizers.MapGradientOptimizer(opt, lambda g, v: g),
    ],
    ids=["accumulation", "over replicas", "older", "replicas", "shards", "map"],
)
def test_keras_optimizers_are_refused(make):
    """They have no compute_gradients to wrap."""
    with pytest.raises(ValueError, match=r"TensorFlow 1 optimizers .*, got .*SGD|SGD"):
        make(keras.optimizers.SGD(0.1))


def test_replicas_with_a_keras_optimizer_are_told_the_way_out():
    """It adds the gradients of the replicas itself."""
    with pytest.raises(ValueError, match=r"by itself in an IPUStrategy: .* divide"):
        optimizers.CrossReplicaOptimizer(keras.optimizers.SGD(0.1))


@pytest.mark.parametrize("number", [0, -1, 1.5, True, None])
def test_the_number_of_mini_batches_must_be_positive(number):
    """And an integer."""
    with pytest.raises(ValueError, match="num_mini_batches must be a positive number"):
        V2(INNER["descent"](), number)


@pytest.mark.parametrize(
    "wrap",
    [
        lambda opt: opt,
        optimizers.CrossReplicaOptimizer,
        lambda opt: optimizers.MapGradientOptimizer(opt, lambda g, v: g),
    ],
    ids=["directly", "over replicas", "mapped"],
)
@pytest.mark.parametrize(
    "outer", [V2, accumulation.CrossReplicaGradientAccumulationOptimizerV2]
)
def test_what_accumulates_does_not_wrap_what_does(outer, wrap):
    """Both would count the same iterations; an update of one mini-batch counts none."""
    inner = wrap(V2(INNER["descent"](), 3))
    with pytest.raises(ValueError, match=r"must not wrap a Grad.*num_mini_batches=6"):
        outer(inner, 2)
    outer(inner, 1)
    outer(wrap(V2(INNER["descent"](), 1)), 2)


def test_the_older_form_is_for_descent_and_momentum():
    """Unless that is not to be checked."""
    older = accumulation.GradientAccumulationOptimizer
    older(INNER["momentum"](), 2)
    older(INNER["adam"](), 2, verify_usage=False)
    with pytest.raises(ValueError, match="MomentumOptimizer, got AdamOptimizer"):
        older(INNER["adam"](), 2)


@pytest.mark.parametrize("dtype", [3.5, int, object(), tf.int32, "float99"])
def test_a_dtype_must_be_one(dtype):
    """Of floating point, as gradients are; a Python type is none."""
    with pytest.raises(TypeError, match=r"`dtype` must be None, a tf.DType"):
        V2(INNER["descent"](), 2, dtype=dtype)


def test_reduction_methods_are_parsed():
    """From themselves, and from their names in any case."""
    method = GradientAccumulationReductionMethod
    assert [method.parse(x) for x in ("sum", "Mean", method.RUNNING_MEAN)] == [
        method.SUM,
        method.MEAN,
        method.RUNNING_MEAN,
    ]
    with pytest.raises(
        ValueError,
        match=r"Cannot parse Median as one of GradientAccumulationReductionMethod. Valid "
        r"values are: SUM, MEAN, RUNNING_MEAN.",
    ):
        V2(INNER["descent"](), 2, reduction_method="Median")


def test_gradients_can_be_mapped():
    """When they are computed; variables without a gradient have nothing to map."""
    with tf.Graph().as_default():
        used, unused = tf.Variable(3.0), tf.Variable(0.0)
        optimizer = optimizers.MapGradientOptimizer(
            INNER["descent"](), lambda gradient, variable: gradient + variable
        )
        (mapped, _), (none, _) = optimizer.compute_gradients(
            used * 2.0, var_list=[used, unused]
        )
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            assert session.run(mapped) == 5.0
    assert none is None
    with pytest.raises(TypeError, match="gradient_mapping_function"):
        optimizers.MapGradientOptimizer(INNER["descent"](), 3)
