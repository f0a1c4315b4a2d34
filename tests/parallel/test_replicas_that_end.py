"""A replica, or an IPU of a pipeline, that ends before others need it: an error at once.

Without that error, each program here deadlocks. The error does not depend on their
speed: the replicas have delays from a seed.
"""

import dataclasses
import threading
import time

import numpy as np
import pytest
import seeds
import tensorflow as tf
from helpers import DEADLOCK_S
from replicated import configure

from ipufeed.device.program import clock, loops
from ipufeed.device.program.strategy import IPUStrategy
from ipufeed.parallel.collectives import ops as collectives
from ipufeed.parallel.optimizers.optimizers import CrossReplicaOptimizer
from ipufeed.parallel.pipeline import ipu_program
from ipufeed.parallel.pipeline.options import OptimizerFunctionOutput
from ipufeed.parallel.pipeline.pipeline import pipeline
from ipufeed.queues import IPUInfeedQueue, IPUOutfeedQueue

pytestmark = [pytest.mark.usefixtures("clean_system"), pytest.mark.long]

v1 = tf.compat.v1


def run(build):
    """A program of what `build` builds, which has to end; its error is raised."""
    program = tf.function(build, jit_compile=True, autograph=False)
    ended = []

    def work():
        try:
            ended.append(IPUStrategy().run(program))
        except Exception as error:
            ended.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(DEADLOCK_S)
    assert ended, "the program does not end"
    if isinstance(ended[0], Exception):
        raise ended[0]
    return ended[0]


def refused(build, match):
    """Three times, since threads that stay behind are too few for that; then all work."""
    for _ in range(3):
        with pytest.raises(tf.errors.InternalError, match=match):
            run(build)
    index = run(lambda: collectives.cross_replica_sum(collectives.replication_index()))
    assert int(index) > 0


def held_up(seed, value):
    """`value`, on each replica after another time, on some at once."""
    dice = seeds.generator(seed)
    delays = [dice.choice([0.0, 0.0, 0.001, 0.01, 0.05]) for _ in range(4)]
    return tf.switch_case(
        collectives.replication_index(),
        [lambda s=seconds: clock.wait(value, s) for seconds in delays],
    )


def numbers():
    """0.0, 1.0, ..."""
    return tf.data.Dataset.range(10**6).map(lambda i: tf.cast(i, tf.float32))


def shorter(replica, count, less):
    """How often a loop runs: `less` on one replica."""
    return tf.where(collectives.replication_index() == replica, less, count)


@pytest.mark.parametrize("seed", range(6))
def test_a_replica_that_waits_in_a_collective_for_one_that_has_ended_gets_an_error(
    seed,
):
    """Its loop was shorter. The others' error names it, the collective and the waiters."""
    configure(4)

    def build():
        def body(x):
            return collectives.cross_replica_sum(held_up(seed, x)) / 4.0

        return loops.repeat(shorter(2, 5, 3), body, [1.0])

    refused(
        build,
        r"Replica 2 has ended, and replicas? [013](, [013])*( and [013])? waits? for it "
        r"with a sum \(cross_replica_sum\) of 1 tensor, 4 bytes\. All replicas must come",
    )


def test_large_collectives_end_likewise():
    """Those of which each replica computes a part, and groups of some of them."""
    configure(4)

    def build():
        def body(x):
            return collectives.cross_replica_mean(x, replica_group_size=2)

        return loops.repeat(shorter(3, 4, 2), body, [tf.ones([100_000])])

    refused(build, r"Replica 3 has ended, .* with a mean \(cross_replica_mean, ")


@pytest.mark.parametrize("seed", range(3))
def test_a_program_without_the_collective_ends_the_others(seed):
    """The one that has none returns at once, or after the others have come."""
    configure(2)

    def build():
        x = held_up(seed, tf.constant([1.0, 2.0]))
        return tf.cond(
            collectives.replication_index() == 1,
            lambda: x,
            lambda: collectives.all_gather(x, 2)[0],
        )

    refused(
        build,
        "Replica 1 has ended, and replica 0 waits for it with an all_gather of 1 tensor, "
        "8 bytes",
    )


@pytest.mark.parametrize(("count", "less"), [(2, 1), (100, 3), (3, 0)])
@pytest.mark.parametrize("seed", range(3))
def test_a_replica_that_enqueues_less_than_others_is_named(count, less, seed):
    """Results are lost otherwise, and with many of them the others never end."""
    configure(4)
    outfeed = IPUOutfeedQueue()

    def build():
        def body(x):
            return x + 1.0, outfeed.enqueue(x)

        x = held_up(seed, tf.constant(0.0))
        return loops.repeat(shorter(1, count, less), body, [x])

    refused(
        build,
        rf"Replica 1 has ended after {less} results? for outfeed queue '.*', and replica "
        r"[023] has another one\. A result is made of a part of each replica",
    )


def fill(infeed, elements):
    """Starts it, and waits until it holds `elements`."""
    _ = infeed.initializer
    infeed.read_ahead()
    end = time.monotonic() + DEADLOCK_S
    while infeed.stats().filled < elements:
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.mark.parametrize("depth", [3, 64])
@pytest.mark.parametrize("delayed", [False, True])
def test_a_replica_whose_element_is_never_dealt_out_gets_an_error(delayed, depth):
    """What the others take is behind elements of the replica that has ended.

    Also where its ring was full, and is more than half so still: the feeder sleeps then.
    """
    configure(2)
    infeed = IPUInfeedQueue(numbers(), prefetch_depth=depth)
    fill(infeed, 2 * depth)

    def build():
        def body(total, x):
            return total + (held_up(1, x) if delayed else x)

        return loops.repeat(shorter(0, 5000, 2), body, [0.0], infeed)

    with pytest.raises(
        tf.errors.InternalError,
        match=r"Replica 0 has ended after 2 elements of infeed queue '.*', and replica 1 "
        r"waits for another one after \d+\. Elements are distributed to the replicas",
    ):
        run(build)


def test_what_has_been_dealt_out_is_taken_though_one_has_ended():
    """A few elements more or less are not an error: no replica waits."""
    configure(2)
    infeed = IPUInfeedQueue(numbers())
    _ = infeed.initializer

    def build():
        def body(total, x):
            return total + x

        return collectives.cross_replica_sum(
            loops.repeat(shorter(1, 4, 2), body, [0.0], infeed)
        )

    assert float(run(build)) == (0 + 2 + 4 + 6) + (1 + 3)


def test_one_may_take_more_while_there_is_room_for_what_others_do_not_take():
    """Though they take too few to wake the feeder, and wait in a collective."""
    configure(2)
    infeed = IPUInfeedQueue(numbers(), prefetch_depth=64)
    fill(infeed, 2 * 64)

    def build():
        def body(total, x):
            return total + x

        return collectives.cross_replica_sum(
            loops.repeat(shorter(0, 64 + 4, 5), body, [0.0], infeed)
        )

    assert float(run(build)) == sum(range(0, 10, 2)) + sum(range(1, 2 * 68, 2))


STAGES = [lambda x: x + 1.0, lambda x: x * 2.0]


def pipelined(stages, count, **arguments):
    """What builds a pipeline with queues of its own."""
    infeed, outfeed = IPUInfeedQueue(numbers()), IPUOutfeedQueue()
    _ = infeed.initializer
    return lambda: pipeline(
        stages, count, infeed_queue=infeed, outfeed_queue=outfeed, **arguments
    )


@pytest.mark.parametrize("trains", [False, True])
def test_a_stage_whose_partner_in_another_copy_has_ended_gets_an_error(trains):
    """Also while that copy waits for this one, to reduce gradients."""
    configure(4)
    with IPUStrategy().scope():
        weight = tf.Variable(2.0)

    def second(x):
        x = x * weight
        return tf.cond(
            collectives.replication_index() == 1,
            lambda: x,
            lambda: collectives.cross_replica_sum(x),
        )

    def optimizer(loss):
        descent = v1.train.GradientDescentOptimizer(0.0)
        return OptimizerFunctionOutput(CrossReplicaOptimizer(descent), loss)

    build = pipelined(
        [STAGES[0], second],
        4,
        repeat_count=3,
        optimizer_function=optimizer if trains else None,
    )
    refused(
        build,
        r"Replica 1 has ended this execution of the stage, and replica 0 waits for it "
        r"with a sum .*\(Stage F1 on IPU 1 of the pipeline's device\.\) \(Replica 0 of 2",
    )


@pytest.mark.parametrize(
    ("ipu", "says"),
    [
        (0, "IPU 0 of the pipeline has ended, and IPU 1 waits for another mini-batch"),
        (1, "IPU 1 of the pipeline has ended, and IPU 0 waits until it takes"),
    ],
)
def test_an_ipu_whose_neighbour_has_ended_gets_an_error(monkeypatch, ipu, says):
    """The one before it, or behind it: its program is cut short here."""
    configure(2)
    whole = ipu_program.IPUProgram.__init__

    def cut(self, plan, number):
        if number == ipu:
            plan = dataclasses.replace(plan, count=1, rings=[])
        whole(self, plan, number)

    monkeypatch.setattr(ipu_program.IPUProgram, "__init__", cut)
    other = f"Stage F{1 - ipu} on IPU {1 - ipu} of"
    refused(pipelined(STAGES, 20), rf"{says} .*F0 to F1.*\({other}")


def test_copies_that_do_the_same_end_without_an_error():
    """However unevenly they run: no replica is taken for one that has ended."""
    configure(4)
    outfeed = IPUOutfeedQueue()

    def build():
        def body(x):
            x = collectives.cross_replica_sum(held_up(4, x)) / 4.0
            return x, outfeed.enqueue(held_up(5, x))

        return loops.repeat(20, body, [1.0])

    for _ in range(5):
        run(build)

    np.testing.assert_array_equal(outfeed.dequeue(), np.ones((100, 4), np.float32))
