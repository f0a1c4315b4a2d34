"""What sharding promises: which IPU an op, its gradient and its update are on."""

import numpy as np
import pytest
import styles
import tensorflow as tf
from replicated import configure, on

from ipufeed.device.program import compiler, loops, scopes, sharding
from ipufeed.device.program.replication import replication_factor
from ipufeed.parallel.optimizers import optimizers
from ipufeed.queues import IPUOutfeedQueue

v1 = tf.compat.v1


@pytest.fixture
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


def two_layers():
    """A loss through a variable on each of two IPUs."""
    x = v1.placeholder(tf.float32, [2, 3])
    with scopes.ipu_shard(0):
        first = v1.get_variable("first", [3, 4], use_resource=True)
        hidden = tf.tanh(x @ first)
    with scopes.ipu_shard(1):
        second = v1.get_variable("second", [4, 1], use_resource=True)
        return tf.reduce_sum(hidden @ second), [first, second]


def test_gradients_and_updates_are_in_the_shard_of_their_variable(graph):
    """So that no IPU but the variable's own has to hold its state."""
    loss, _ = two_layers()
    optimizer = optimizers.ShardedOptimizer(v1.train.MomentumOptimizer(0.1, 0.9))
    gradients = optimizer.compute_gradients(loss)
    optimizer.apply_gradients(gradients)
    updates = {
        op.inputs[0].op.name: sharding.get_sharding(op)
        for op in graph.get_operations()
        if op.type == "ResourceApplyMomentum"
    }

    assert [sharding.get_sharding(each.op) for each, _ in gradients] == [[0], [1]]
    assert updates == {"first": [0], "second": [1]}


def test_a_sharded_optimizer_updates_as_the_wrapped_one(graph):
    """Shards change no number."""
    del graph

    def trained(wrap):
        with tf.Graph().as_default(), v1.Session() as session:
            v1.set_random_seed(3)
            loss, variables = two_layers()
            train = wrap(v1.train.GradientDescentOptimizer(0.1)).minimize(loss)
            x = loss.graph.get_operation_by_name("Placeholder").outputs[0]
            session.run(v1.global_variables_initializer())
            session.run(train, {x: np.ones([2, 3], np.float32)})
            return session.run(variables)

    plain = trained(lambda opt: opt)
    sharded = trained(optimizers.ShardedOptimizer)

    for one, other in zip(plain, sharded, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("use_while_v1", [True, False])
def test_the_shards_of_a_program_are_counted_in_its_loops_too(graph, use_while_v1):
    """And noted at all of its ops, since rewrites may drop those with a shard."""

    def body(x):
        with scopes.ipu_shard(2):
            return x + 1

    def net(x):
        with scopes.ipu_shard([0, 1]):
            x = x * 2
        return loops.repeat(3, body, [x], use_while_v1=use_while_v1)

    assert sharding.number_of_shards(graph.get_operations()) == 1
    with scopes.ipu_scope("/device:IPU:0"):
        compiler.compile(net, [tf.constant(1.0)])
    noted = {
        op.get_attr(sharding.SHARDS_ATTR)
        for op in graph.get_operations()
        if sharding.SHARDS_ATTR in op.node_def.attr
    }

    # The three are given four IPUs.
    assert sharding.number_of_shards(graph.get_operations()) == 4
    assert noted == {4}


@pytest.mark.parametrize("style", ["graph", "graph, while v2", "function"])
@pytest.mark.usefixtures("clean_system")
def test_three_shards_are_given_four_ipus(style):
    """Which is one copy of the program on four, and two on eight: outfeeds show it."""
    for num_ipus, shape in ((4, (1,)), (8, (1, 2))):
        with on(num_ipus, style) as ready:
            outfeed = IPUOutfeedQueue()

            def net(x, outfeed=outfeed):
                with scopes.ipu_shard(2):
                    outfeed.enqueue(x + 1)
                    return x

            ready.run(net, 1.0)

            assert ready.read(outfeed.dequeue()).shape == shape


@pytest.mark.parametrize("style", ["graph", "graph, while v2", "function"])
@pytest.mark.usefixtures("clean_system")
def test_a_program_that_is_rewritten_keeps_its_shards(style):
    """TensorFlow makes one sum of several, which has no shard: the count stays."""
    with on(4, style) as ready:

        def net(a, b):
            with scopes.ipu_shard(1):
                first = a + b
            with scopes.ipu_shard(3):
                return first + a + b + a - b

        assert np.ravel(ready.run(net, 1.0, 2.0)) == [5.0]


@pytest.mark.parametrize(
    ("ipus", "shards", "factor"),
    [(1, 1, 1), (4, 1, 4), (4, 2, 2), (4, 4, 1), (6, 3, 2)],
)
def test_replicas_are_ipus_divided_by_shards(ipus, shards, factor):
    """Without a remainder."""
    assert replication_factor(ipus, shards) == factor


@pytest.mark.parametrize(("ipus", "shards"), [(4, 3), (2, 4), (1, 2)])
def test_a_remainder_is_an_error(ipus, shards):
    """The original's words, and what each number comes from."""
    with pytest.raises(
        tf.errors.InternalError,
        match=f"IPU device with {ipus} IPUs and {shards} shards. The number of shards "
        "needs to divide the number of IPUs.*auto_select_ipus",
    ):
        replication_factor(ipus, shards)


@pytest.mark.parametrize("style", ["graph", "function"])
@pytest.mark.usefixtures("clean_system")
def test_the_executor_refuses_programs_for_several_copies(style):
    """And runs what is spread over all of the IPUs."""

    def net(x):
        return x + 1.0

    def sharded(x):
        with scopes.ipu_shard(1):
            return x + 1.0

    configure(2)
    with styles.entered(style, "tensorflow") as ready:
        assert np.ravel(ready.run(sharded, 1.0)) == [2.0]
        with pytest.raises(
            tf.errors.UnimplementedError, match=r"2 IPUs for 2 copies.*to 1"
        ):
            ready.run(net, 1.0)
