"""What programs ask of the graph: attributes, dependencies, shards; and of captures."""

import pytest
import tensorflow as tf

import ipufeed as ipu
from ipufeed.device.program import shard_queries
from ipufeed.device.program.scopes import ipu_shard
from ipufeed.device.program.strategy import IPUStrategy, KerasExtensions
from ipufeed.parallel.optimizers.gradient_capture import (
    GradientCaptureContext,
    num_gradient_collection_tapes,
)


def test_what_an_op_depends_on():
    """By values and by order, to the roots; nothing else."""
    with tf.Graph().as_default():
        a, b, c = (tf.constant(1.0, name=name) for name in "abc")
        with tf.control_dependencies([c]):
            total = tf.add(a, b, name="total")
        tf.identity(total, name="after")
        found = shard_queries.dependencies([total])
        assert {op.name for op in found} == {"a", "b", "c", "total"}
        assert shard_queries.dependencies([a.op]) == {a.op}
        assert shard_queries.has_attr(total.op, "T")
        assert not shard_queries.has_attr(total.op, "_none")


def test_the_shard_of_a_neighbour():
    """Of what an op is colocated with first, then of what it reads."""
    with tf.Graph().as_default():
        with ipu_shard(1):
            one = tf.constant(1.0)
        with ipu_shard(2):
            two = tf.constant(2.0)
        plain = tf.constant(3.0)
        with tf.compat.v1.colocate_with(two):
            beside = tf.identity(one)
        assert shard_queries.get_shard_from_colocation(beside.op) == 2
        assert shard_queries.get_shard_from_colocation(tf.negative(one).op) == 1
        assert shard_queries.get_shard_from_colocation(tf.negative(plain).op) is None
        assert shard_queries.enable_sharded_gradient_tape() is None


@pytest.mark.parametrize(
    ("call", "got"),
    [
        (lambda: shard_queries.dependencies([1]), "`roots` .* got int"),
        (lambda: shard_queries.dependencies(None), "`roots` .* got NoneType"),
        (
            lambda: shard_queries.dependencies([tf.ones(2)]),
            "`roots` .* got EagerTensor",
        ),
        (lambda: shard_queries.get_shard_from_colocation("a"), "`op` .* got str"),
        (lambda: shard_queries.has_attr(None, "a"), "`op` .* got NoneType"),
        (
            lambda: shard_queries.automatic_sharding(1, tf.ones(2), tf.ones(2)),
            "`input_ts` .* got EagerTensor",
        ),
    ],
    ids=["number", "none", "eager", "text", "no op", "eager input"],
)
def test_what_is_in_no_graph_is_refused(call, got):
    """Neither an attribute nor a shard can be read from it."""
    with pytest.raises(TypeError, match=got):
        call()


def test_open_captures_are_counted():
    """In this thread."""
    assert num_gradient_collection_tapes() == 0
    with GradientCaptureContext(), GradientCaptureContext():
        assert num_gradient_collection_tapes() == 2
    assert num_gradient_collection_tapes() == 0


def test_classes_of_a_strategy():
    """For isinstance, under the original's names."""
    strategy = IPUStrategy(enable_keras_extensions=False)
    assert isinstance(strategy, ipu.keras_extensions.KerasExtensions)
    assert isinstance(strategy.extended, ipu.ipu_strategy.IPUExtendedV1)
    assert strategy._enable_keras_extensions is False
    assert KerasExtensions(enable_dataset_iterators=False)._enable_keras_extensions
