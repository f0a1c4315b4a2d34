"""Programs of several IPUs that run on one device at the same time."""

import threading

import pytest
import tensorflow as tf
from replicated import configure

from ipufeed import _native
from ipufeed.device.program import loops
from ipufeed.device.program.strategy import IPUStrategy
from ipufeed.parallel.collectives import ops as collectives
from ipufeed.parallel.pipeline.pipeline import pipeline
from ipufeed.queues import IPUInfeedQueue, IPUOutfeedQueue, set_stall_report

pytestmark = pytest.mark.usefixtures("clean_system", "programs_end")
LIMIT_S = 180.0  # only a hang gets there
SETS = 16  # IpuLease::kSets


@pytest.fixture
def programs_end():
    """What a failed test leaves does not hold up the next one."""
    yield
    _native.entry().ipufeed_stop_programs(b"the test is over")


class Waiting:
    """A program on all IPUs of the device that waits until it is given an element."""

    def __init__(self, build):
        self.source = tf.queue.FIFOQueue(10, [tf.float32], [[]])
        source = self.source
        self.infeed = IPUInfeedQueue(
            tf.data.Dataset.counter().map(lambda _: source.dequeue())
        )
        self.outfeed = IPUOutfeedQueue()
        _ = self.infeed.initializer
        program = tf.function(
            lambda: build(self.infeed, self.outfeed), jit_compile=True
        )
        self.error = None
        self.thread = threading.Thread(target=self.run, args=[program])
        self.thread.start()

    def run(self, program):
        try:
            IPUStrategy().run(program)
        except tf.errors.OpError as error:
            self.error = error

    def give(self, *values):
        self.source.enqueue_many([list(values)])

    def end(self):
        self.thread.join(LIMIT_S)
        assert not self.thread.is_alive()
        return self.outfeed.dequeue().numpy().reshape(-1).tolist()


def replicas(infeed, outfeed):
    def body(x):
        return outfeed.enqueue(collectives.cross_replica_sum(x))

    return loops.repeat(1, body, [], infeed)


def stages(infeed, outfeed):
    return pipeline(
        [lambda x: x + 1.0, lambda x: x * 10.0],
        gradient_accumulation_count=2,
        infeed_queue=infeed,
        outfeed_queue=outfeed,
    )


def test_a_program_that_waits_does_not_hold_up_others():
    """Each has threads of its own, whichever kind it is."""
    configure(2)
    first, second, third = Waiting(replicas), Waiting(stages), Waiting(replicas)

    third.give(1.0, 2.0)
    assert third.end() == [3.0, 3.0]
    second.give(1.0, 2.0)
    assert second.end() == [20.0, 30.0]
    first.give(3.0, 4.0)
    assert first.end() == [7.0, 7.0]


@pytest.mark.parametrize("ends", ["given", "stopped"])
def test_one_program_more_waits_and_says_so(capfd, ends):
    """Its turn comes when another one has ended; a stop ends it, too."""
    configure(2)
    set_stall_report(0.2)
    pause = threading.Event()
    text = ""
    programs = [Waiting(replicas) for _ in range(SETS + 1)]
    while f"{SETS} other programs of several IPUs run on its device" not in text:
        pause.wait(0.1)
        text += capfd.readouterr().err
    set_stall_report(30)

    if ends == "given":
        for each in programs:
            each.give(1.0, 2.0)
        assert [each.end() for each in programs] == [[3.0, 3.0]] * len(programs)
        return
    _native.entry().ipufeed_stop_programs(b"enough")
    for each in programs:
        each.thread.join(LIMIT_S)
        assert isinstance(each.error, tf.errors.CancelledError)
        assert "enough" in str(each.error)
