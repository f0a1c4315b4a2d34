"""Faults of timing: each wait, and how it ends. In threads; signals are next door.

program waits --(no peer | stop | close | error)--> an end, or a report; nothing lost
"""

import os
import sys
import threading
import time

import children
import helpers
import numpy as np
import pytest
import seeds
import tensorflow as tf
from feeding import (
    IPU,
    Feeding,
    InThread,
    feeding,
    numbers,
    silent,
    stop_programs,
    until,
)
from helpers import DEADLOCK_S, live_feeders, threads

from ipufeed import _native
from ipufeed.device.program import compiler, loops
from ipufeed.device.program.scopes import ipu_scope
from ipufeed.queues import (
    IPUInfeedQueue,
    IPUOutfeedQueue,
    set_outfeed_limit,
    set_stall_report,
)

v1 = tf.compat.v1


@pytest.fixture
def no_store():
    """Outfeeds that keep nothing behind their ring."""
    set_outfeed_limit(0)
    yield
    set_outfeed_limit(4 << 30)


@pytest.fixture
def release():
    """Lets a silent dataset go."""
    event = threading.Event()
    yield event
    event.set()


def blocked_on(side, release, jit):
    """A Feeding whose program will wait for that side, and for how many iterations."""
    if side == "infeed":
        return Feeding(silent(release), jit), 3
    feeds = Feeding(numbers(), jit)
    feeds.infeed.read_ahead()  # the program will not wait for it
    until(lambda: feeds.infeed.stats().filled == 4)
    return feeds, 1000


SIDES = pytest.mark.parametrize("side", ["infeed", "outfeed"])
MODES = pytest.mark.parametrize("jit", [True, False], ids=["xla", "executor"])


@SIDES
@MODES
def test_a_blocked_program_can_be_stopped(side, jit, release, no_store):
    """Rows 7 and 20: its error says why; nothing is lost, and the device is usable."""
    feeds, n = blocked_on(side, release, jit)
    run = InThread(feeds.run, n)
    feeds.waits()
    assert stop_programs() >= 1
    error = run.end()
    assert isinstance(error, tf.errors.CancelledError)
    assert "stopped by a test" in str(error)
    assert side in str(error)

    if side == "infeed":
        assert feeds.results() == []
        release.set()
        feeds.run(3)
        assert feeds.results() == [0, 1, 2]
    else:
        # The element that did not fit was taken from the infeed, and is in no queue.
        before = feeds.results()
        assert before == list(range(len(before)))
        feeds.run(2)
        after = feeds.results()
        assert after == [len(before) + 1, len(before) + 2]
    feeds.close()


@MODES
def test_a_failing_body_frees_the_feeder_that_waits(jit):
    """Rows 7 and 8: an error of the device keeps the results until then, and every queue.

    The infeed's feeder waits on a full ring until then, and goes on with the next run.
    """
    with feeding(numbers()) as feeds:
        other = IPUInfeedQueue(numbers(3))
        _ = other.initializer

        @tf.function(jit_compile=jit)
        def program(n):
            loops.repeat(
                n,
                lambda x: feeds.outfeed.enqueue(x + 0 * other._dequeue()),
                infeed_queue=feeds.infeed,
            )

        feeds.infeed.read_ahead()
        until(lambda: feeds.infeed.stats().filled == 4)
        with tf.device(IPU), pytest.raises(tf.errors.OutOfRangeError):
            program(tf.constant(10))
        assert feeds.results() == [0, 1, 2]
        feeds.run(2)
        assert feeds.results() == [4, 5]
        _ = other.deleter


def test_a_time_out_of_a_stream_loses_nothing(release):
    """Row 14: DeadlineExceeded, and a later stream has everything."""
    with feeding(silent(release)) as feeds:
        run = InThread(feeds.run, 3)
        feeds.waits()
        for timeout_s in (0, 0.05):
            with pytest.raises(tf.errors.DeadlineExceededError, match="got no result"):
                next(feeds.outfeed.stream(timeout_s=timeout_s))
        release.set()
        results = feeds.outfeed.stream(timeout_s=DEADLOCK_S)
        assert [float(x) for x in results] == [0, 1, 2]
        assert run.end() is None


@pytest.mark.parametrize("timeout_s", [float("inf"), 1e300, None])
def test_times_without_a_bound_are_accepted(timeout_s):
    """Row 16; tests/queues/test_outfeed.py has what is refused."""
    with feeding(numbers()) as feeds:
        feeds.run(3)
        assert len(list(feeds.outfeed.stream(timeout_s=timeout_s))) == 3


def consume(stream):
    """Fails at the third."""
    for result in stream:
        1 / (float(result) - 2)


def test_a_stream_that_is_left_loses_nothing():
    """Row 24, as far as there are callbacks: an exception in the loop over a stream."""
    with feeding(numbers()) as feeds:
        feeds.run(10)
        with pytest.raises(ZeroDivisionError):
            consume(feeds.outfeed.stream())
        assert float(next(iter(feeds.outfeed))) == 3
        feeds.run(2)
        assert feeds.results() == list(range(4, 12))


@MODES
def test_a_session_may_time_out(jit, release):
    """Row 15: RunOptions' time ends the program, wherever it waits."""
    with tf.Graph().as_default():
        infeed, outfeed = IPUInfeedQueue(silent(release)), IPUOutfeedQueue()
        with ipu_scope(IPU):
            run = compiler.compile(
                lambda: loops.repeat(3, outfeed.enqueue, infeed_queue=infeed)
            )
        results = outfeed.dequeue()
        with v1.Session() as session:
            session.run(infeed.initializer)
            with pytest.raises(tf.errors.DeadlineExceededError):
                session.run(run, options=v1.RunOptions(timeout_in_ms=100))
            release.set()
            until(lambda: _native.entry().ipufeed_wait_idle(0, 10_000_000))
            session.run(run)
            assert session.run(results).tolist() == [0, 1, 2]
            session.run(infeed.deleter)


def test_a_session_may_close_on_a_blocked_program(release):
    """Row 20: from a third thread, twice; the program ends, the next session works."""
    with tf.Graph().as_default():
        infeed = IPUInfeedQueue(silent(release))
        with ipu_scope(IPU):
            run = compiler.compile(
                lambda: loops.repeat(3, lambda x: None, infeed_queue=infeed)
            )
        init = infeed.initializer
        session = v1.Session()
        session.run(init)
        blocked = InThread(session.run, run)
        until(lambda: infeed.stats().device_parks > 0)
        closing = [InThread(session.close) for _ in range(2)]
        for one in closing:
            assert one.end() is None
        assert isinstance(blocked.end(), tf.errors.CancelledError)
        release.set()
        with v1.Session() as another:
            another.run(init)
            another.run(run)
            another.run(infeed.deleter)


@SIDES
def test_a_program_that_waits_logs_it_and_uses_no_cpu(
    side, release, no_store, capfd, caplog
):
    """Rows 17 and 18: a report with both queues' fill, memory and CPU at rest.

    It is Python's logger that says it: TensorFlow's own log may be silent.
    """
    set_stall_report(0.05)
    try:
        feeds, n = blocked_on(side, release, jit=True)
        run = InThread(feeds.run, n)
        feeds.waits()
        until(lambda: "has waited for" in caplog.text)  # it must come by itself
        begin, cpu = time.monotonic(), time.process_time()
        time.sleep(0.5)
        share = (time.process_time() - cpu) / (time.monotonic() - begin)
        stop_programs()
        run.end()
        feeds.close()
    finally:
        set_stall_report(30)
    report = capfd.readouterr().err
    assert "A program on /device:IPU:0 has waited for" in report
    (record,) = [each for each in caplog.records if "has waited for" in each.message][
        :1
    ]
    assert (record.name, record.levelname) == ("ipufeed", "WARNING")
    assert (
        f"{side} queue '{feeds.infeed._id if side == 'infeed' else feeds.outfeed._id}'"
        in report
    )
    assert ("is empty" if side == "infeed" else "is full") in report
    assert "Its queues: infeed" in report
    assert share < 0.25, "far above a parked thread's, far below a spinning one's"


def test_a_circle_of_waits_is_named_and_can_be_stopped(capfd):
    """Row 19: the dataset waits for the result of the element that it should give."""
    outfeed = IPUOutfeedQueue()

    def generate():
        yield np.float32(0)
        results = outfeed.stream(timeout_s=DEADLOCK_S)
        next(results)
        yield next(results).numpy()

    feeds = Feeding(
        tf.data.Dataset.from_generator(
            generate, output_signature=tf.TensorSpec([], tf.float32)
        )
    )
    feeds.outfeed = outfeed
    set_stall_report(0.05)
    try:
        run = InThread(feeds.run, 2)
        until(lambda: outfeed.stats().elements == 1)
        time.sleep(0.5)  # for the report, which must come by itself
        stop_programs()
        error = run.end()
    finally:
        set_stall_report(30)
    assert isinstance(error, tf.errors.CancelledError)
    report = capfd.readouterr().err
    assert f"infeed queue '{feeds.infeed._id}' is empty" in report
    assert f"outfeed '{outfeed._id}' holds 0 of 3" in report
    feeds.close()


def test_one_program_at_a_time_has_a_queue(release):
    """Row 30: another one is refused with a reason, and disturbs nothing."""
    with feeding(silent(release)) as feeds:
        run = InThread(feeds.run, 3)
        feeds.waits()
        with pytest.raises(
            tf.errors.FailedPreconditionError, match="in use by another"
        ):
            feeds.run(1)
        with pytest.raises(tf.errors.FailedPreconditionError, match="in use"):
            _ = feeds.infeed.deleter
        release.set()
        assert run.end() is None
        assert feeds.results() == [0, 1, 2]


@pytest.mark.long
@pytest.mark.parametrize("stops", [5, pytest.param(60, marks=pytest.mark.soak)])
def test_stops_at_random_moments_lose_nothing_that_was_given(stops):
    """Row 21: in order, without a gap but for the one element on its way."""
    generator = seeds.generator("stops")
    with feeding(numbers()) as feeds:
        feeds.run(1)
        found = feeds.results()
        for _ in range(stops):
            run = InThread(feeds.run, 100_000)
            time.sleep(generator.expovariate(1 / 0.003))
            stop_programs()
            run.end()
            found += feeds.results()
        gaps = np.diff(found)
        assert (gaps >= 1).all()
        assert (gaps - 1).sum() <= stops  # a stop takes one element at the most


@pytest.mark.long
def test_threads_and_files_are_back_after_faults(release):
    """All rows: a hundred failed and stopped programs leave nothing behind."""

    def files():
        return len(os.listdir("/proc/self/fd"))

    def fail():
        with feeding(numbers(2)) as feeds:
            run = InThread(feeds.run, 5)
            assert isinstance(run.end(), tf.errors.OutOfRangeError)

    for _ in range(3):
        fail()
    before = threads(), files(), live_feeders()
    for _ in range(30):
        fail()
    until(lambda: threads() <= before[0] + 1)  # TensorFlow's own may come and go
    # Less is what earlier tests of this process left.
    assert files() <= before[1]
    assert live_feeders() <= before[2]


@pytest.mark.long
@pytest.mark.process
def test_a_script_runs_on_one_cpu():
    """Row 49: no thread spins for what only the other thread on the CPU could give."""
    cpu = min(os.sched_getaffinity(0))
    code = (
        f"import os, sys; os.sched_setaffinity(0, [{cpu}])\n"
        f"sys.path.append({os.path.dirname(helpers.__file__)!r})\n"
        "from feeding import feeding, numbers\n"
        "with feeding(numbers()) as feeds:\n"
        "    feeds.run(20000)\n"
        "    print(len(feeds.results()))\n"
    )
    done = children.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=DEADLOCK_S,
        check=False,
        cwd=os.path.dirname(__file__),
    )
    assert done.stdout.strip() == "20000", done.stderr
