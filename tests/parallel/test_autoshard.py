"""What automatic sharding promises: shards between two tensors, and their IPUs."""

import numpy as np
import pytest
import tensorflow as tf
from replicated import configure, on

from ipufeed.device.program import compiler, scopes, sharding
from ipufeed.device.program import shard_queries as autoshard
from ipufeed.parallel.optimizers import optimizers
from ipufeed.queues import IPUOutfeedQueue

v1 = tf.compat.v1
STYLES = ["graph", "graph, while v2", "function"]


def layers(x):
    """The results of three layers, each with a variable."""
    for name in ("first", "second", "third"):
        weights = v1.get_variable(
            name, [2, 2], initializer=tf.constant_initializer(0.5), use_resource=True
        )
        x = tf.nn.relu(x @ weights)
    return tf.reduce_sum(x)


def shards_of(*operations):
    """The shards of the ops that these depend on, by type."""
    found = [
        (op.type, sharding.get_sharding(op))
        for root in operations
        for op in root.graph.get_operations()
    ]
    return {
        kind: sorted(shard[0] for other, shard in found if other == kind and shard)
        for kind, _ in found
    }


def test_a_model_is_divided_into_equal_parts_and_trains_as_before():
    """Its variables are read where they are used; gradients are on their ops' IPUs."""
    losses = []
    for shards in (1, 2):
        configure(2)

        def net(x, shards=shards):
            loss = layers(x)
            optimizer = optimizers.ShardedOptimizer(v1.train.AdamOptimizer(0.1))
            train = optimizer.minimize(loss)
            autoshard.automatic_sharding(shards, x, loss)
            return loss, train

        with tf.Graph().as_default(), v1.Session() as session:
            place = v1.placeholder(tf.float32, [3, 2])
            with scopes.ipu_scope("/device:IPU:0"):
                run = compiler.compile(net, [place])
            found = shards_of(run[0])
            session.run(v1.global_variables_initializer())
            feed = {place: np.ones([3, 2], np.float32)}
            losses.append([session.run(run, feed)[0] for _ in range(3)])
            assert sharding.number_of_shards(place.graph.get_operations()) == shards
    assert {
        "Relu": [0, 0, 1],
        "ReluGrad": [0, 0, 1],
        "Sum": [1],
    }.items() <= found.items()
    assert found["Placeholder"] == []
    assert losses[0] == losses[1]
    assert losses[0][0] > losses[0][2]


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.usefixtures("clean_system")
def test_a_program_gets_the_ipus_of_its_shards(style):
    """Of four IPUs two for each copy, in a loop as well."""
    with on(4, style) as ready:
        outfeed = IPUOutfeedQueue()

        def body(x):
            y = tf.sqrt(x + 1) * 2
            autoshard.automatic_sharding(2, x, y)
            return y, outfeed.enqueue(y)

        ready.run(lambda: ready.repeat(3, body, [1.0]))
        assert ready.read(outfeed.dequeue()).shape == (3, 2)


def test_only_marked_ops_are_distributed():
    """Those of the scope, if there are any; a shard that was set stays."""
    with tf.Graph().as_default():
        x = tf.constant(1.0)
        with scopes.ipu_shard(3):
            before = tf.exp(x)
        with autoshard.ipu_autoshard():
            y = tf.sqrt(tf.sin(before))
        loss = tf.negative(y)
        autoshard.automatic_sharding(2, x, loss, frozen_inference=True)
        found = shards_of(loss.op)
    assert found == {"Const": [], "Exp": [3], "Sin": [0], "Sqrt": [1], "Neg": []}
    with autoshard.ipu_autoshard():
        assert tf.exp(0.0) == 1.0


def test_shards_that_are_set_stay_and_other_inputs_are_on_the_shards_of_their_ops():
    """The input itself has no shard."""
    with tf.Graph().as_default():
        x = tf.constant(1.0)
        y = tf.multiply(x, v1.random_uniform([], seed=1))
        with scopes.ipu_shard(3):
            y = tf.exp(y)
        loss = tf.subtract(y, v1.random_normal([], seed=1))
        autoshard.automatic_sharding(2, x, loss)
        found = shards_of(loss.op)
        assert sharding.get_sharding(x.op) is None
    assert found["Exp"] == [3]
    assert found["RandomUniform"] == [0]  # of the first operation
    assert found["AddV2"] == [1]  # the last part of random_normal, of the last one


def test_wrong_arguments_are_refused():
    """By name."""
    with tf.Graph().as_default():
        x = tf.constant(1.0)
        y = x + 1
        for text, error, arguments in (
            ("`num_shards` must be at least 1, got 0", ValueError, (0, x, y)),
            ("`num_shards` must be an int", TypeError, ("2", x, y)),
            ("`loss_ts` must be a tensor, got float", TypeError, (2, x, 1.0)),
            ("There are 1 ops on an IPU between", ValueError, (2, x, y)),
            ("There are 0 ops on an IPU between", ValueError, (2, y, x)),
            ("`edge_filter` must be a function", TypeError, (1, x, y, "edge")),
        ):
            with pytest.raises(error, match=text):
                autoshard.automatic_sharding(*arguments)
