"""Programs of several IPUs that run on one device at the same time."""

import functools
import gc
import queue
import threading

import pytest
import tensorflow as tf
from helpers import DEADLOCK_S
from replicated import configure

from ipufeed import _native
from ipufeed.device.config.config import IPUConfig
from ipufeed.device.program import compiler, loops
from ipufeed.device.program.scopes import ipu_scope
from ipufeed.device.program.strategy import IPUStrategy
from ipufeed.parallel.collectives import ops as collectives
from ipufeed.parallel.pipeline.pipeline import pipeline
from ipufeed.queues import IPUInfeedQueue, IPUOutfeedQueue, set_stall_report

pytestmark = pytest.mark.usefixtures("clean_system", "programs_end")
SETS = 16  # IpuLease::kSets


@pytest.fixture
def programs_end():
    """What a failed test leaves does not delay the next one."""
    yield
    _native.entry().ipufeed_stop_programs(b"the test is over")


class Waiting:
    """A program on all IPUs of the device that waits until it is given an element."""

    def __init__(self, build, ordinal=0):
        self.source = tf.queue.FIFOQueue(100, [tf.float32], [[]])
        source = self.source
        self.infeed = IPUInfeedQueue(
            tf.data.Dataset.counter().map(lambda _: source.dequeue()), ordinal
        )
        self.outfeed = IPUOutfeedQueue(device_ordinal=ordinal)
        _ = self.infeed.initializer
        program = tf.function(
            lambda: build(self.infeed, self.outfeed), jit_compile=True
        )
        self.error = None
        self.thread = threading.Thread(target=self.run, args=[program, ordinal])
        self.thread.start()

    def run(self, program, ordinal):
        try:
            IPUStrategy(f"/device:IPU:{ordinal}").run(program)
        except tf.errors.OpError as error:
            self.error = error

    def give(self, *values):
        self.source.enqueue_many([list(values)])

    def end(self):
        self.thread.join(DEADLOCK_S)
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


def test_a_program_that_waits_does_not_block_others():
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
def test_one_program_more_waits_and_logs_it(capfd, ends):
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
        each.thread.join(DEADLOCK_S)
        assert isinstance(each.error, tf.errors.CancelledError)
        assert "enough" in str(each.error)


def repeated(infeed, outfeed, added=1.0, repeat_count=3):
    return pipeline(
        [lambda x: x + added, lambda x: x * 10.0],
        gradient_accumulation_count=2,
        repeat_count=repeat_count,
        infeed_queue=infeed,
        outfeed_queue=outfeed,
    )


def test_a_pipeline_keeps_its_ipus():
    """Those of the configuration with which it began, in each of its executions."""
    configure(2)
    program = Waiting(repeated)
    program.give(0.0, 1.0)
    for _, result in zip(range(2), program.outfeed.stream(DEADLOCK_S), strict=False):
        assert result.numpy() in (10.0, 20.0)
    configure(1)
    program.give(2.0, 3.0, 4.0, 5.0)

    results = program.end()
    assert program.error is None, str(program.error)
    assert results == [30.0, 40.0, 50.0, 60.0]


def test_a_pipeline_outlives_configurations():
    """Its IPUs' programs are found, though others have compiled and dropped them, too."""

    def change(recompute):
        config = IPUConfig()
        config.auto_select_ipus = [2, 2]
        config.allow_recompute = recompute
        config.configure_ipu_system()

    change(False)
    first = Waiting(repeated)
    first.give(0.0, 1.0)
    for _, result in zip(range(2), first.outfeed.stream(DEADLOCK_S), strict=False):
        assert result.numpy() in (10.0, 20.0)
    change(True)
    change(False)
    second = Waiting(repeated, 1)
    second.give(*range(6))
    assert len(second.end()) == 6
    change(True)
    for _ in range(2):  # the device's compiler is new, and the old one has gone
        third = Waiting(functools.partial(repeated, added=5.0, repeat_count=1), 1)
        third.give(0.0, 1.0)
        assert third.end() == [50.0, 60.0]
    del second
    gc.collect()
    first.give(2.0, 3.0, 4.0, 5.0)

    results = first.end()
    assert first.error is None, str(first.error)
    assert results == [30.0, 40.0, 50.0, 60.0]


def test_runs_of_a_session_do_not_wait_for_each_other():
    """Each has a thread of the session's device, however many wait."""
    configure(2)
    sources = [queue.SimpleQueue() for _ in range(4)]
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        programs, results = [], []
        for source in sources:
            dataset = tf.data.Dataset.from_generator(
                lambda source=source: iter(source.get, None),
                output_signature=tf.TensorSpec([], tf.float32),
            )
            feeds = IPUInfeedQueue(dataset), IPUOutfeedQueue()
            with ipu_scope("/device:IPU:0"):
                build = functools.partial(replicas, *feeds)
                programs.append(compiler.compile(build, []))
            session.run(feeds[0].initializer)
            results.append(feeds[1].dequeue())
        threads = [threading.Thread(target=session.run, args=[p]) for p in programs]
        for thread in threads:
            thread.start()
        try:
            for number in reversed(range(len(sources))):
                for _ in range(2):
                    sources[number].put(float(number))
                threads[number].join(DEADLOCK_S)
                assert not threads[number].is_alive()
                sums = session.run(results[number]).reshape(-1).tolist()
                assert sums == [2.0 * number] * 2
        finally:
            for source in sources:
                source.put(None)
            for thread in threads:
                thread.join(DEADLOCK_S)
