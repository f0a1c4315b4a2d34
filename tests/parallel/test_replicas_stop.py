"""Replicas without collectives, whose dataset ends or fails, or that are stopped."""

import threading
import time

import numpy as np
import pytest
import styles
import tensorflow as tf
from dependence import check_chained, compiled_modules
from helpers import DEADLOCK_S
from replica_programs import numbers, v1
from replicated import configure, on, run_loop

from ipufeed import _native
from ipufeed.device.program import scopes
from ipufeed.parallel.collectives import ops as collectives
from ipufeed.queues import (
    IPUInfeedQueue,
    IPUOutfeedQueue,
    set_outfeed_limit,
    set_stall_report,
)

pytestmark = pytest.mark.usefixtures("clean_system")


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
        self.thread.join(DEADLOCK_S)
        assert not self.thread.is_alive()
        return self.error


def until(condition):
    """Waits for it."""
    end = time.monotonic() + DEADLOCK_S
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def until_opened(gate, count):
    """`count` numbers, and the others when the gate is open."""

    def wait(n):
        if n >= count:
            gate.wait(DEADLOCK_S)
        return np.float32(n)

    return tf.data.Dataset.range(100).map(
        lambda n: tf.ensure_shape(tf.numpy_function(wait, [n], tf.float32), [])
    )


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


def test_an_assertion_of_one_replica_stops_all_of_them():
    """The round of the element that fails is not delivered.

    The one before it is if all replicas enqueue before the failure stops them.
    """
    with on(4) as style, compiled_modules() as modules:
        infeed = style.feed(numbers)
        outfeed = IPUOutfeedQueue()

        def body(x):
            tf.debugging.Assert(x != 10, ["not 10"])
            return outfeed.enqueue(collectives.cross_replica_sum(x))

        with pytest.raises(tf.errors.InternalError, match=r"not 10.*Replica 2 of 4"):
            run_loop(style, 5, body, infeed)
        results = style.read(outfeed.dequeue())

    rounds = [[6.0] * 4, [22.0] * 4]
    np.testing.assert_array_equal(results, rounds[: len(results)])
    # That none came after it may be luck. That the enqueue needs the assertion is none.
    assert max(check_chained(each) for each in modules) == 3


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
    """The original's words, and the remedy."""
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
