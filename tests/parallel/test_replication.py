"""What replication promises: copies of a program that share one dataset and one result."""

import logging
import threading
import time

import numpy as np
import pytest
import small_model
import styles
import tensorflow as tf
from replicated import configure, on, run_loop

from ipufeed import _native
from ipufeed.device.program import scopes, steps
from ipufeed.parallel.collectives import ops as collectives
from ipufeed.parallel.optimizers import accumulation, optimizers
from ipufeed.queues import (
    IPUInfeedQueue,
    IPUOutfeedMode,
    IPUOutfeedQueue,
    set_outfeed_limit,
    set_stall_report,
)

pytestmark = pytest.mark.usefixtures("clean_system")
v1 = tf.compat.v1
STYLES = list(styles.STYLES)
LIMIT_S = 180.0  # only a hang gets there


class InThread:
    """A call on a thread of its own; its error is kept."""

    def __init__(self, function):
        self.error = None
        self.thread = threading.Thread(target=self._call, args=[function])
        self.thread.start()

    def _call(self, function):
        try:
            function()
        except Exception as error:
            self.error = error

    def end(self):
        self.thread.join(LIMIT_S)
        assert not self.thread.is_alive()
        return self.error


def until(condition):
    """Waits for it."""
    end = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def until_opened(gate, count):
    """`count` numbers, and the others when the gate is open."""

    def wait(n):
        if n >= count:
            gate.wait(LIMIT_S)
        return np.float32(n)

    return tf.data.Dataset.range(100).map(
        lambda n: tf.ensure_shape(tf.numpy_function(wait, [n], tf.float32), [])
    )


def numbers(count=1000):
    """0.0, 1.0, and so on."""
    return tf.data.Dataset.range(count).map(lambda n: tf.cast(n, tf.float32))


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
@pytest.mark.parametrize("replicas", [2, 4])
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


def test_without_a_collective_replicas_go_their_own_way():
    """The variables that remain are those of the first."""
    with on(2) as style:
        infeed = style.feed(numbers)
        total = style.variable(0.0, "total")
        run_loop(style, 3, lambda x: (total.assign_add(x), None)[1], infeed)

        assert style.read(total) == 0 + 2 + 4


def test_a_dataset_that_ends_within_a_round_ends_it_for_all():
    """Two whole rounds of four are delivered, the half one is not, and nothing hangs."""
    with on(4) as style:
        infeed = style.feed(lambda: numbers(10))
        outfeed = IPUOutfeedQueue()
        total = style.variable(0.0, "total")

        def body(x):
            total.assign_add(collectives.cross_replica_sum(x))
            return outfeed.enqueue(x)

        with pytest.raises(tf.errors.OutOfRangeError, match="all of its 10 elements"):
            run_loop(style, 3, body, infeed)
        results = style.read(outfeed.dequeue())

        assert style.read(total) == 0.0  # as before the program
    np.testing.assert_array_equal(results, np.arange(8.0).reshape(2, 4))


def test_the_end_of_a_dataset_loses_no_result_that_waits_for_room():
    """Both rounds are delivered, though the second one finds the queue full.

    The replica that completes it waits for room until the other one comes to the end of
    the dataset and stops the program.
    """
    set_outfeed_limit(0)
    try:
        with on(2) as style:
            infeed = style.feed(lambda: numbers(4))
            outfeed = IPUOutfeedQueue(buffer_depth=1)

            with pytest.raises(
                tf.errors.OutOfRangeError, match="all of its 4 elements"
            ):
                run_loop(style, 3, outfeed.enqueue, infeed)
            results = style.read(outfeed.dequeue())
    finally:
        set_outfeed_limit(4 << 30)

    np.testing.assert_array_equal(results, np.arange(4.0).reshape(2, 2))


def test_a_failing_dataset_stops_all_replicas_with_its_cause():
    """The error is the dataset's, and says where it is from."""
    with on(4) as style:
        infeed = style.feed(
            lambda: numbers().map(
                lambda x: tf.debugging.check_numerics(1 / (x - 6), "six") * 0 + x
            )
        )
        outfeed = IPUOutfeedQueue()

        def body(x):
            return outfeed.enqueue(collectives.cross_replica_sum(x))

        with pytest.raises(
            tf.errors.InvalidArgumentError, match=r"element 6 \(from 0\).*six"
        ):
            run_loop(style, 3, body, infeed)


def test_a_replica_that_stalls_is_waited_for_and_named(capfd):
    """The others wait in their collective, and report it; a stop ends all of them."""
    with on(4) as style:
        gate = threading.Event()
        infeed = style.feed(lambda: until_opened(gate, 5))
        outfeed = IPUOutfeedQueue()
        set_stall_report(0.2)
        program = InThread(
            lambda: run_loop(
                style,
                5,
                lambda x: outfeed.enqueue(collectives.cross_replica_sum(x)),
                infeed,
            )
        )
        until(lambda: infeed.stats().elements == 5)
        time.sleep(0.8)
        set_stall_report(30)
        _native.entry().ipufeed_stop_programs(b"enough")
        error = program.end()
        gate.set()

    assert isinstance(error, tf.errors.CancelledError)
    assert "enough" in str(error)
    output = capfd.readouterr().err
    assert (
        "A program on IPU 0 of /device:IPU:0 (replica 0 of 4) has waited for" in output
    )
    assert (
        "replica 0 waits in a collective, and replicas 1, 2 and 3 have not arrived"
        in output
    )
    assert "its dataset has delivered nothing more" in output


def test_a_session_may_close_on_waiting_replicas():
    """Those that wait for data, and those that wait for these."""
    configure(4)
    with styles.entered("graph", "xla") as style:
        gate = threading.Event()
        infeed = style.feed(lambda: until_opened(gate, 5))
        outfeed = IPUOutfeedQueue()
        run = style.build(
            lambda: style.repeat(
                5,
                lambda x: outfeed.enqueue(collectives.cross_replica_sum(x)),
                [],
                infeed,
            )
        )
        graph = v1.get_default_graph()

        def in_graph():
            with graph.as_default():
                run()

        program = InThread(in_graph)
        until(lambda: infeed.stats().elements == 5)
        style.session.close()
        assert isinstance(program.end(), tf.errors.CancelledError)
        gate.set()


def test_after_a_stop_all_replicas_go_on_together():
    """A round of which some replicas had an element is over for all of them."""
    with on(2) as style:
        gate = threading.Event()
        infeed = style.feed(lambda: until_opened(gate, 5))
        outfeed = IPUOutfeedQueue()
        run = style.build(
            lambda: style.repeat(4, lambda x: outfeed.enqueue(x), [], infeed)
        )
        program = InThread(run)
        until(lambda: infeed.stats().elements == 5)  # replica 0 is a round ahead
        _native.entry().ipufeed_stop_programs(b"enough")
        assert isinstance(program.end(), tf.errors.CancelledError)
        before = style.read(outfeed.dequeue())
        gate.set()
        run()
        after = style.read(outfeed.dequeue())

    np.testing.assert_array_equal(before, [[0, 1], [2, 3]])
    np.testing.assert_array_equal(after, np.arange(6.0, 14.0).reshape(4, 2))


def test_a_queue_serves_programs_of_one_replication():
    """The original's words, and the way out."""
    with on(4) as style:
        infeed = style.feed(numbers)
        outfeed = IPUOutfeedQueue()
        run_loop(style, 2, lambda x: outfeed.enqueue(x), infeed)

        def sharded(x):
            with scopes.ipu_shard(1):
                return (tf.identity(x), None)[1]

        with pytest.raises(
            tf.errors.FailedPreconditionError,
            match="has already been setup with a replication factor of 4 when it should "
            "have 2",
        ):
            run_loop(style, 2, sharded, infeed)


def test_a_queue_must_know_the_ipus_of_its_device():
    """One that was initialized before the configuration cannot deal out."""
    infeed = IPUInfeedQueue(numbers())
    _ = infeed.initializer
    with (
        on(2) as style,
        pytest.raises(
            tf.errors.FailedPreconditionError, match="device had 1 IPUs when"
        ),
    ):
        run_loop(style, 2, lambda x: None, infeed)


def test_a_program_follows_a_new_configuration():
    """It is not compiled again for another number of replicas, and runs with it."""
    with on(2) as style:
        run = style.build(lambda x: collectives.cross_replica_sum(x), 1.0)
        found = [run(1.0)]
        for ipus in (4, 1):
            configure(ipus)
            found.append(run(1.0))

    assert found == [2.0, 4.0, 1.0]


def test_counters_are_those_of_all_replicas():
    """Elements of the dataset, and results of all."""
    with on(4) as style:
        infeed = style.feed(numbers)
        outfeed = IPUOutfeedQueue()
        run_loop(style, 5, lambda x: outfeed.enqueue(x), infeed)

        assert infeed.stats().elements == 20
        assert infeed.stats().capacity == 4 * 32
        assert outfeed.stats().elements == 5


@pytest.mark.parametrize("option", ["--use_synthetic_data", "--null_data_feed"])
def test_replicas_run_without_a_dataset(flags, option):
    """On synthetic data, and on constant data."""
    flags(option)
    with on(2) as style:
        infeed = style.feed(numbers)
        total = style.variable(0.0, "total")
        run_loop(
            style,
            3,
            lambda x: (
                total.assign_add(collectives.cross_replica_sum(x * 0 + 1)),
                None,
            )[1],
            infeed,
        )

        assert style.read(total) == 6.0
