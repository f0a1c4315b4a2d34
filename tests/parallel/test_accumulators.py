"""Accumulators: their dtypes, wrapped optimizers, and arguments that are refused."""

import keras
import numpy as np
import pytest
import small_model
import tensorflow as tf
from accumulating import INNER, V2, v1
from styles import GraphStyle

from ipufeed.device.program import compiler, loops
from ipufeed.device.program.scopes import ipu_scope
from ipufeed.executable.store import counters
from ipufeed.keras.optimizers import wrappers
from ipufeed.parallel.optimizers import accumulation, optimizers
from ipufeed.parallel.optimizers.arguments import (
    GradientAccumulationReductionMethod,
)


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
def test_accumulators_have_the_requested_dtype(dtype, expected):
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


@pytest.mark.parametrize(
    "style", [("graph", "xla"), ("function", "xla")], indirect=True
)
@pytest.mark.parametrize("wrap", [V2, v1_form])
def test_accumulators_are_none_of_the_program_s_variables(wrap, style):
    """A checkpoint has the weights and the wrapped optimizer's state, and no more."""
    inner = v1.train.MomentumOptimizer(0.1, 0.9)
    optimizer = wrap(inner, 2)
    weight = style.variable(2.0, "weight")
    collected = []

    def body():
        return optimizer.minimize(lambda: 3.0 * weight, var_list=[weight])

    def net():
        done = style.repeat(4, body)
        collected.extend(v1.global_variables() + v1.local_variables())
        return done

    run = style.build(net)
    for _ in range(2):  # the second run begins as the first
        run()
    in_graph = {"weight:0", "weight/Momentum:0"}  # TensorFlow 2 has no collections
    expected_names = in_graph if isinstance(style, GraphStyle) else set()
    assert {each.name for each in collected} == expected_names
    for each in (inner, optimizer):
        assert [one.name for one in each.variables()] == ["weight/Momentum:0"]
    # Gradients of 6 in each of four updates.
    momentum, expected = 0.0, 2.0
    for _ in range(4):
        momentum = 0.9 * momentum + 6.0
        expected -= 0.1 * momentum
    assert style.read(weight) == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("build", [compiler.compile, lambda program: program()])
def test_a_loop_is_compiled_once(build):
    """Whether `compile` makes the program, or the graph is compiled as a whole.

    To XLA an accumulator that exists since the first run would be one more input.
    """
    with tf.Graph().as_default(), v1.Session() as session:
        with ipu_scope("/device:IPU:0"):
            weight = v1.get_variable("weight", initializer=tf.constant(2.0))

            def body():
                return V2(INNER["descent"](), 2).minimize(3.0 * weight)

            program = build(lambda: loops.repeat(4, body))
        session.run(v1.global_variables_initializer())
        before = counters.stats().compiles
        for _ in range(3):
            session.run(program)
        assert counters.stats().compiles - before == 1
        trained = 2.0 - 3 * 4 * 3.0 * small_model.RATE
        assert session.run(weight) == pytest.approx(trained, abs=1e-5)


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


def test_replicas_with_a_keras_optimizer_are_refused_with_the_remedy():
    """It adds the gradients of the replicas itself."""
    with pytest.raises(ValueError, match=r"by itself in an IPUStrategy: .* divide"):
        optimizers.CrossReplicaOptimizer(keras.optimizers.SGD(0.1))


@pytest.mark.parametrize("number", [0, -1])
def test_the_number_of_mini_batches_must_be_positive(number):
    """The text is Graphcore's, with the value."""
    with pytest.raises(
        ValueError, match=f"num_mini_batches must be a positive number, got {number}"
    ):
        V2(INNER["descent"](), number)


WRAPPERS = {
    "accumulates": lambda name: V2(INNER["descent"](), 4, name=name),
    "version 1": lambda name: accumulation.GradientAccumulationOptimizer(
        INNER["descent"](), 4, name=name
    ),
    "over replicas": lambda name: (
        accumulation.CrossReplicaGradientAccumulationOptimizerV2(
            INNER["descent"](), 4, name=name
        )
    ),
    "of replicas": lambda name: optimizers.CrossReplicaOptimizer(
        INNER["descent"](), name
    ),
    "maps": lambda name: optimizers.MapGradientOptimizer(
        INNER["descent"](), lambda gradient, variable: gradient, name=name
    ),
}


@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_the_name_of_an_optimizer_must_be_text(wrapper):
    """When it is made: the error of its first update did not name the argument."""
    with pytest.raises(TypeError, match="`name` must be a str or None, got int 3"):
        WRAPPERS[wrapper](3)


@pytest.mark.parametrize("wrong", [None, 3, "ab", [1], [(1.0, 2.0, 3.0)], tf.ones(2)])
@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_what_an_optimizer_applies_must_be_pairs(wrapper, wrong):
    """The error was Python's, about what cannot be iterated or unpacked."""
    with pytest.raises(TypeError, match=r"`grads_and_vars` must be pairs .*, got "):
        WRAPPERS[wrapper](None).apply_gradients(wrong)


@pytest.mark.parametrize("number", [1.5, True, None, "4"])
def test_the_number_of_mini_batches_must_be_an_integer(number):
    """Its type and value are named."""
    with pytest.raises(
        TypeError, match=f"`num_mini_batches` must be an int, got .* {number!r}"
    ):
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


@pytest.mark.parametrize(
    "accumulating",
    [
        lambda dtype: V2(INNER["descent"](), 2, dtype=dtype),
        lambda dtype: accumulation.CrossReplicaGradientAccumulationOptimizerV2(
            INNER["descent"](), 2, dtype=dtype
        ),
        lambda dtype: wrappers.GradientAccumulationOptimizer(
            keras.optimizers.SGD(), 2, dtype=dtype
        ),
    ],
    ids=["V2", "CrossReplicaV2", "Keras"],
)
@pytest.mark.parametrize(
    "dtype",
    [3.5, int, object(), tf.int32, "float99", True, 1, np.array([1.0, 2.0])],
)
def test_a_dtype_must_be_one(accumulating, dtype):
    """Of floating point, as gradients are; True and an array are not dtypes."""
    with pytest.raises(TypeError, match=r"`dtype` must be None, a tf.DType"):
        accumulating(dtype)


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
