"""What replication promises: copies of a program that share one dataset and one result."""

import logging

import numpy as np
import pytest
import small_model
import styles
import tensorflow as tf
from replica_programs import numbers, v1
from replicated import on, run_loop

from ipufeed.device.program import scopes, steps
from ipufeed.parallel.collectives import ops as collectives
from ipufeed.parallel.optimizers import accumulation, optimizers
from ipufeed.queues import (
    IPUOutfeedMode,
    IPUOutfeedQueue,
)

pytestmark = pytest.mark.usefixtures("clean_system")
STYLES = list(styles.STYLES)


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("replicas", [2, 4])
def test_elements_are_dealt_out_and_results_have_an_axis(style, replicas):
    """Element k * R + r goes to replica r, whose result is at [k, r]."""
    with on(replicas, style) as ready:
        infeed = ready.feed(numbers)
        outfeed = IPUOutfeedQueue()
        run_loop(ready, 5, lambda x: outfeed.enqueue({"x": x, "twice": 2 * x}), infeed)
        results = ready.read(outfeed.dequeue())

    expected = np.arange(5 * replicas, dtype=np.float32).reshape(5, replicas)
    np.testing.assert_array_equal(results["x"], expected)
    np.testing.assert_array_equal(results["twice"], 2 * expected)


def test_results_of_other_replicas_are_refused_and_those_stored_stay():
    """Also where the bytes are as many: two numbers of one replica, one of each of two."""
    outfeed = IPUOutfeedQueue()
    shapes = {1: [2], 2: []}

    def run(replicas, count):
        with on(replicas) as style:
            body = lambda: outfeed.enqueue(tf.fill(shapes[replicas], 7.0))  # noqa: E731
            run_loop(style, count, body)

    def take(replicas):
        with on(replicas) as style:
            return style.read(outfeed.dequeue()).shape

    for first, other in ((1, 2), (2, 1)):
        run(first, 3)
        with pytest.raises(
            tf.errors.FailedPreconditionError, match="or replication factor"
        ):
            run(other, 1)
        for configured in (other, first):
            assert take(configured) == (3, 2)
            run(first, 3)
        assert take(first) == (3, 2)
        _ = outfeed.deleter
    run(2, 1)
    assert take(2) == (1, 2)


@pytest.mark.parametrize(
    "where", ["the work of an IPU", "the start of the IPUs' work", "ipufeed_enqueue"]
)
@pytest.mark.parametrize("nth", [1, 2])
def test_an_exception_in_one_replica_ends_the_program_with_it(fault, where, nth):
    """The others do not wait for it; the next program of the queue runs as before."""
    outfeed = IPUOutfeedQueue()
    nth = 1 if where.startswith("the start") else nth
    with on(2) as style:

        def run():
            run_loop(style, 3, lambda: outfeed.enqueue(tf.fill([2], 7.0)))

        with (
            fault(where, nth),
            pytest.raises(tf.errors.ResourceExhaustedError, match="std::bad_alloc in"),
        ):
            run()
        _ = style.read(outfeed.dequeue())
        run()
        results = style.read(outfeed.dequeue())

    assert results.shape == (3, 2, 2)


def test_programs_go_on_where_the_last_one_stopped():
    """Nothing is lost or repeated between two runs."""
    with on(4) as style:
        infeed = style.feed(numbers)
        outfeed = IPUOutfeedQueue()
        run = style.build(
            lambda n: style.repeat(n, lambda x: outfeed.enqueue(x), [], infeed),
            np.int32(0),
        )
        found = []
        for count in (3, 0, 2):
            run(np.int32(count))
            found.append(style.read(outfeed.dequeue()))

    np.testing.assert_array_equal(
        np.concatenate([each for each in found if each.size]),
        np.arange(20.0).reshape(5, 4),
    )
    assert found[1].shape == (0, 4)


def test_each_replica_has_steps_of_its_own():
    """One begins when the replica's own last one has ended, whatever the others do."""
    with on(2) as style:
        infeed = style.feed(lambda: numbers().prefetch(8))
        outfeed = IPUOutfeedQueue()

        def body(x):
            times = steps.step(0.004)
            return outfeed.enqueue({"x": x, "times": times})

        run_loop(style, 8, body, infeed)
        times = steps.to_times(style.read(outfeed.dequeue())["times"])

    assert times.end.shape == (8, 2)
    np.testing.assert_array_equal(times.free[1:], times.end[:-1])


@pytest.mark.parametrize("style", ["graph", "function"])
def test_the_last_result_has_the_axis_too(style):
    """[R, *shape], and one deals with any shape."""
    with on(2, style) as ready:
        infeed = ready.feed(lambda: numbers().batch(3, drop_remainder=True))
        outfeed = IPUOutfeedQueue(IPUOutfeedMode.LAST)
        run_loop(ready, 3, lambda x: outfeed.enqueue(x), infeed)
        last = ready.read(outfeed.dequeue())

    np.testing.assert_array_equal(last, np.arange(12.0, 18.0).reshape(2, 3))


def test_results_can_be_streamed():
    """One result of all replicas at a time."""
    with on(2) as style:
        infeed = style.feed(numbers)
        outfeed = IPUOutfeedQueue()
        run_loop(style, 3, lambda x: outfeed.enqueue(x), infeed)
        rows = [row.numpy().tolist() for row in outfeed.stream(timeout_s=10)]

    assert rows == [[0, 1], [2, 3], [4, 5]]


def test_shards_divide_the_replicas(caplog):
    """Four IPUs and two shards are two copies, and the log says so."""
    with on(4) as style:
        infeed = style.feed(numbers)
        outfeed = IPUOutfeedQueue()

        def body(x):
            with scopes.ipu_shard(1):
                return outfeed.enqueue(x + 1)

        with caplog.at_level(logging.INFO, "ipufeed"):
            run_loop(style, 3, body, infeed)
        results = style.read(outfeed.dequeue())

    np.testing.assert_array_equal(results, np.arange(1.0, 7.0).reshape(3, 2))
    output = "Automatically replicating the TensorFlow model by a factor of 2."
    assert [each.message for each in caplog.records].count(output) == 1


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize(("ipus", "shard", "shards"), [(2, 2, 4), (2, 3, 4), (1, 1, 2)])
def test_shards_must_divide_the_ipus(style, ipus, shard, shards):
    """The original's words, rounded up; also for a shard in a loop's body alone."""
    with on(ipus, style) as ready:

        def body(x):
            with scopes.ipu_shard(shard):
                return x * 2 + 1

        with pytest.raises(
            tf.errors.InternalError,
            match=f"Trying to compile a graph for an IPU device with {ipus} IPUs and "
            f"{shards} shards. The number of shards needs to divide the number of "
            "IPUs.",
        ):
            ready.run(lambda x: ready.repeat(2, body, [x]), 1.0)


def test_the_ipu_model_replicates_too(flags):
    """As hardware does: two IPUs and one shard are two copies."""
    flags("--use_ipu_model")
    with on(2) as style:
        outfeed = IPUOutfeedQueue()

        def net():
            outfeed.enqueue(collectives.replication_index())
            return tf.zeros([])

        style.run(net)
        found = style.read(outfeed.dequeue())

    np.testing.assert_array_equal(found, [[0, 1]])


def test_each_replica_knows_its_index():
    """From 0, also outside of loops."""
    with on(4) as style:
        outfeed = IPUOutfeedQueue()

        def net():
            outfeed.enqueue(collectives.replication_index())
            return tf.zeros([])

        style.run(net)
        found = style.read(outfeed.dequeue())

    np.testing.assert_array_equal(found, [[0, 1, 2, 3]])


def train(ipus, batch, updates, wrap, style="function"):
    """Trains the model; its variables, and each replica's at its end."""
    x, y = small_model.samples(48)
    with on(ipus, style) as ready:
        infeed = ready.feed(lambda: small_model.batches(x, y, batch))
        outfeed = IPUOutfeedQueue(IPUOutfeedMode.LAST)
        variables = small_model.weights(ready)
        optimizer = wrap(v1.train.MomentumOptimizer(small_model.RATE, 0.9))

        def body(x, y):
            loss = small_model.loss(variables, x, y)
            train = optimizer.minimize(loss, var_list=variables)
            with tf.control_dependencies([train]):
                return outfeed.enqueue([each.read_value() for each in variables])

        run_loop(ready, updates, body, infeed)
        found = [np.array(each) for each in ready.read(variables)]
        return found, [np.array(each) for each in ready.read(outfeed.dequeue())]


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("replicas", [2, pytest.param(4, marks=pytest.mark.long)])
def test_replicas_train_as_one_with_all_their_batches(style, replicas):
    """The same weights on each, and those of one with R times the batch."""
    one, _ = train(1, 8, 4, lambda opt: opt, style)
    several, each = train(
        replicas, 8 // replicas, 4, optimizers.CrossReplicaOptimizer, style
    )

    for found, expected, copies in zip(several, one, each, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-7)
        for copy in copies:
            np.testing.assert_array_equal(copy, found)


@pytest.mark.parametrize("style", ["graph", "function"])
def test_replicas_accumulate_and_reduce_once(style):
    """Two replicas, two mini-batches: one batch of four times the size."""
    one, _ = train(1, 8, 3, lambda opt: opt, style)
    several, each = train(
        2,
        2,
        6,
        lambda opt: accumulation.CrossReplicaGradientAccumulationOptimizerV2(
            opt, 2, reduction_method="mean"
        ),
        style,
    )

    for found, expected, copies in zip(several, one, each, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-7)
        for copy in copies:
            np.testing.assert_array_equal(copy, found)


def test_two_replicated_runs_give_the_same_bits():
    """Whichever replica comes first, the order of the sum is that of the replicas."""
    runs = [train(4, 2, 4, optimizers.CrossReplicaOptimizer)[0] for _ in range(2)]

    for one, other in zip(*runs, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("synchronization", list(tf.VariableSynchronization))
@pytest.mark.parametrize("aggregation", list(tf.VariableAggregation))
def test_a_variable_is_the_replicas_own_whatever_its_options(
    synchronization, aggregation
):
    """A read is not a sum; a collective is one, and the same on all."""
    with on(2) as style:
        outfeed = IPUOutfeedQueue()
        with style.strategy.scope():
            own, shared = (
                tf.Variable(
                    0.0, synchronization=synchronization, aggregation=aggregation
                )
                for _ in range(2)
            )

        def body():
            number = tf.cast(collectives.replication_index(), tf.float32) + 1.0
            own.assign_add(number)
            shared.assign_add(collectives.cross_replica_sum(number))
            return outfeed.enqueue([own.read_value(), shared.read_value()])

        run_loop(style, 2, body)
        of_replicas, of_all = style.read(outfeed.dequeue())
    np.testing.assert_array_equal(of_replicas, [[1, 2], [2, 4]])
    np.testing.assert_array_equal(of_all, [[3, 3], [6, 6]])
    assert (own.numpy(), shared.numpy()) == (2.0, 6.0)  # of replica 0
