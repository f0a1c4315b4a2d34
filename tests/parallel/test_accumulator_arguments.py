"""The values of raw accumulations, barriers and hints, of which each error says which."""

import pytest
import tensorflow as tf

from ipufeed.ops.control_flow_ops import barrier
from ipufeed.parallel.collectives.ops import assume_equal_across_replicas
from ipufeed.parallel.pipeline.recomputation import recomputation_checkpoint
from ipufeed.programs import gen_poputil_ops as ops

TWO = tf.zeros([2])
HALVES = tf.zeros([2], tf.float16)
VARIABLE = tf.Variable(TWO)

VALUES = {
    r"`gradients` must have the shape \(2,\) of `accumulator`, got \(3, 2\)": lambda: (
        ops.gradient_accumulator_add_with_scale(TWO, tf.zeros([3, 2]), 1.0)
    ),
    r"`accumulator_scale` must be a scalar, got the shape \(2,\)": lambda: (
        ops.gradient_accumulator_add_with_scale(TWO, TWO, [1.0, 2.0])
    ),
    r"`shape` must be fully defined .* got \[None, 2\]": lambda: (
        ops.gradient_accumulator_create_from_shape([None, 2], tf.int32)
    ),
    r"`momentum` must be a scalar, got the shape \(2,\)": lambda: (
        ops.ipu_stateful_gradient_accumulate_with_momentum(VARIABLE, TWO, TWO, 1)
    ),
    "`tensors` must be a tensor, or a value that converts to one": lambda: (
        recomputation_checkpoint([TWO, None])
    ),
}


@pytest.mark.parametrize("words", VALUES)
def test_a_wrong_value_is_named(words):
    """A gradient of another shape was broadcast, and the sum had its shape."""
    with pytest.raises(ValueError, match=words):
        VALUES[words]()


TYPES = {
    "`variable` must be a resource variable, or its handle, got str 'a'": lambda: (
        ops.gradient_accumulator_create("a", tf.float32)
    ),
    "`accum` must be a resource variable": lambda: (
        ops.ipu_stateful_gradient_accumulate_with_momentum(TWO, TWO, 0.5, 1)
    ),
    "`grad` must be of float32, as `accum` is, got float16": lambda: (
        ops.ipu_stateful_gradient_accumulate_with_momentum(VARIABLE, HALVES, 0.5, 1)
    ),
    "`output_type` must be a dtype of numbers, as tf.float32, got tf.string": lambda: (
        ops.gradient_accumulator_create(VARIABLE, tf.string)
    ),
    "`shape` must be a shape, as .* got 'a'": lambda: (
        ops.gradient_accumulator_create_from_shape("a", tf.int32)
    ),
    "verify_usage must be a bool, got int 3": lambda: (
        ops.ipu_stateful_gradient_accumulate(TWO, 2, 3)
    ),
}


@pytest.mark.parametrize("words", TYPES)
def test_a_value_of_another_type_is_named(words):
    with pytest.raises(TypeError, match=words):
        TYPES[words]()


TEXTS = {
    "barrier": lambda: barrier([TWO, "a"]),
    "ipu_barrier": lambda: ops.ipu_barrier([TWO, "a"]),
    "hint": lambda: assume_equal_across_replicas({"x": "a"}),
    "checkpoint": lambda: recomputation_checkpoint("a"),
    "sink": lambda: ops.gradient_accumulator_sink("a"),
    "accumulate": lambda: ops.ipu_stateful_gradient_accumulate("a", 2),
}


@pytest.mark.parametrize("call", TEXTS)
def test_text_is_refused(call):
    """XLA's error, if any, named an operation that the program does not have."""
    with pytest.raises(
        TypeError, match="must be of numbers or bools, got a tensor of str"
    ):
        TEXTS[call]()
