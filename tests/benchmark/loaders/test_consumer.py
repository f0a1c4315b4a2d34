"""The loop that takes a loader's elements: counts, limits, epochs, ends."""

import contextlib
import itertools
import threading
import time

import numpy as np
import pytest

from ipufeed.benchmark.loaders import consume as consumes
from ipufeed.benchmark.loaders import consumer as consumers
from ipufeed.benchmark.loaders.calibration import calibrate
from ipufeed.benchmark.loaders.consume import consume
from ipufeed.benchmark.loaders.consumer import Consumer, Limits
from ipufeed.sources.loaders.failure import place_of

ELEMENT = (np.zeros((4, 3), np.float32), np.zeros(4, np.int32))  # 64 bytes, 4 samples


def run(source, **limits):
    """The counts of a consumer that ran on this thread."""
    consumer = Consumer(
        lambda: contextlib.nullcontext(iter(source)), Limits(**{"copy": True, **limits})
    )
    consumer.run()
    consumer.finish()
    return consumer.counts


def test_each_element_is_counted_and_stamped():
    counts = run([ELEMENT] * 5)

    assert counts.ended
    assert (counts.elements, counts.bytes) == (5, 5 * 64)
    assert len(counts.stamps) == 5
    assert counts.stamps == sorted(counts.stamps)
    assert counts.requested_ns <= counts.created_ns <= counts.first_ns
    assert counts.stamps[0] == counts.first_ns
    assert counts.stamps[-1] == counts.last_ns <= counts.finished_ns
    assert [row[:3] for row in counts.epochs] == [[5, 5 * 64, 20]]
    assert counts.same_leading_dimension
    assert counts.marks[0][:3] == (counts.first_ns, 1, 64)
    assert counts.marks[-1][:3] == (counts.finished_ns, 5, 5 * 64)


def test_the_sample_is_a_whole_batch_of_the_last_pass():
    whole, part = np.zeros((4, 2), np.float32), np.zeros((1, 2), np.float32)

    assert run([part, whole, part]).sample is whole
    assert run([part, whole.copy(), whole]).sample is whole
    assert run(["", None]).sample is None  # of those without bytes, the last


@pytest.mark.parametrize(
    ("limits", "elements", "epochs"),
    [
        ({"epochs": 3, "elements_per_epoch": 4}, 12, [4, 4, 4]),
        ({"elements_per_epoch": 8}, 20, [8, 8, 4]),
        ({"epochs": 1, "elements_per_epoch": 1}, 1, [1]),
        ({"passes": 2, "epoch_per_pass": True}, 40, [20, 20]),
    ],
)
def test_limits_and_epochs(limits, elements, epochs):
    counts = run([ELEMENT] * 20, **limits)

    assert counts.elements == elements
    assert [row[0] for row in counts.epochs] == epochs
    ends = [row[4] for row in counts.epochs]
    starts = [row[3] for row in counts.epochs]
    assert starts == [counts.requested_ns, *ends[:-1]]  # without a gap


def test_too_many_epochs_are_merged(monkeypatch):
    monkeypatch.setattr(consumers, "MOST_ENTRIES", 4)
    counts = run([ELEMENT] * 21, elements_per_epoch=1)

    assert counts.epochs_per_entry == 8
    assert [row[0] for row in counts.epochs] == [8, 8, 5]
    assert sum(row[1] for row in counts.epochs) == counts.bytes


def test_marks_stay_within_their_bound(monkeypatch):
    monkeypatch.setattr(consumers, "MOST_MARKS", 4)
    monkeypatch.setattr(consumers, "MARK_NS", 1)
    counts = run([ELEMENT] * 40)

    assert 2 <= len(counts.marks) <= 6
    assert counts.marks[0][1] == 1
    assert counts.marks[-1][1] == 40
    assert [mark[0] for mark in counts.marks] == sorted(
        mark[0] for mark in counts.marks
    )


def test_only_the_first_elements_have_stamps(monkeypatch):
    monkeypatch.setattr(consumers, "MOST_STAMPS", 3)
    counts = run([ELEMENT] * 5)

    assert (len(counts.stamps), counts.elements) == (3, 5)


@pytest.mark.parametrize(
    ("element", "same"),
    [
        (ELEMENT, True),
        (np.zeros((4, 3)), True),
        ((np.zeros((4, 3)), np.zeros(3)), False),
        ((np.zeros((4, 3)), 1), False),
        (1, False),
    ],
)
def test_arrays_of_an_element_share_a_leading_dimension_or_not(element, same):
    assert run([element] * 2).same_leading_dimension == same


def test_what_has_no_bytes_is_counted_as_opaque():
    counts = run([(object(), ELEMENT)] * 3)

    assert (counts.opaque, counts.bytes) == (3, 3 * 64)


def test_a_failure_keeps_its_elements_and_names_its_place():
    def failing():
        yield ELEMENT
        raise OSError("the disk is gone")

    counts = run(failing())

    assert counts.elements == 1
    assert str(counts.failure) == "the disk is gone"
    assert not counts.ended
    assert "test_consumer.py:" in place_of(counts.failure)


def test_a_loader_that_cannot_be_started_is_a_failure():
    @contextlib.contextmanager
    def failing():
        raise ValueError("no files")
        yield

    consumer = Consumer(failing, Limits(copy=True))
    consumer.run()
    consumer.finish()

    assert str(consumer.counts.failure) == "no files"
    assert consumer.counts.elements == 0
    assert consumer.counts.epochs == []


def test_without_an_element_there_is_none():
    counts = run([])

    assert counts.ended
    assert (counts.elements, counts.epochs, counts.marks) == (0, [], [])


def test_a_pass_is_closed_when_a_limit_ends_it():
    closed = []

    def endless():
        try:
            while True:
                yield ELEMENT
        finally:
            closed.append(True)

    @contextlib.contextmanager
    def open_pass():
        with contextlib.closing(endless()) as elements:
            yield elements

    consumer = Consumer(open_pass, Limits(epochs=1, elements_per_epoch=3, copy=True))
    consumer.run()

    assert closed == [True]


@pytest.fixture
def clock(monkeypatch):
    """A consumer's clock that only moves when a test, or its loader, adds to it."""
    now = [0]
    monkeypatch.setattr(consumers, "_clock", lambda: now[0])
    return now


def slow(clock):
    """Opens a pass of four elements, of 1000 ns each."""

    def elements():
        for _ in range(4):
            clock[0] += 1000
            yield ELEMENT

    return contextlib.nullcontext(elements())


def test_waiting_is_the_time_within_next(monkeypatch, clock):
    consumer = Consumer(lambda: slow(clock), Limits(copy=True))
    real = consumer._copies.copy

    def copy(leaf):
        clock[0] += 10
        real(leaf)

    monkeypatch.setattr(consumer._copies, "copy", copy)
    consumer.run()
    consumer.finish()
    counts = consumer.counts

    assert counts.first_ns == 1000
    assert counts.starved_ns == 3 * 1000
    assert counts.blocked_ns == 3 * 20
    assert (counts.copy_ns, counts.first_copy_ns) == (80, 20)
    assert np.diff(counts.stamps).tolist() == [1020] * 3


def test_what_begins_at_the_first_element_is_in_no_figure(clock):
    """The count of the process tree's CPU time takes longer than a small element."""

    def begin():
        clock[0] += 7_000_000

    consumer = Consumer(lambda: slow(clock), Limits(copy=True))
    consumer.run(begin)
    consumer.finish()
    counts = consumer.counts

    assert counts.first_ns - counts.requested_ns == 1000
    assert np.diff(counts.stamps).tolist() == [1000] * 3
    assert counts.starved_ns == 3000
    assert counts.marks[0][0] == counts.first_ns
    assert [row[3:] for row in counts.epochs] == [[counts.requested_ns, counts.last_ns]]


def test_how_long_a_loader_takes_to_stop_is_not_a_part_of_the_run(clock):
    """Ctrl-C ends workers, too: the silence after it does not count as a stall."""

    def elements():
        yield ELEMENT
        clock[0] += 1000
        yield ELEMENT
        consumer.stop()
        consumer.stop()  # as often as it takes
        clock[0] += 500_000_000
        yield ELEMENT

    consumer = Consumer(lambda: contextlib.nullcontext(elements()), Limits(copy=True))
    consumer.run()
    consumer.finish()

    assert consumer.counts.elements == 2
    assert consumer.counts.finished_ns == consumer.counts.last_ns == 1000


def test_a_pass_that_hangs_has_not_ended_with_the_one_before(clock):
    passes = itertools.count()

    def elements():
        number = next(passes)
        clock[0] += 1000
        yield ELEMENT
        if number == 1:
            clock[0] += 5000
            consumer.finish()  # by the caller's thread, at the deadline

    consumer = Consumer(
        lambda: contextlib.nullcontext(elements()), Limits(passes=2, copy=True)
    )
    consumer.run()

    assert consumer.counts.last_ns == 2000
    assert consumer.counts.finished_ns == 7000


def test_the_deadline_ends_a_loader_that_hangs():
    """Behind its first element; the thread is left behind, and counts nothing more."""
    free = threading.Event()

    def hanging():
        yield ELEMENT
        free.wait()
        yield ELEMENT

    looks = []
    consumer, interruption = consume(
        lambda: contextlib.nullcontext(hanging()),
        Limits(seconds_ns=20_000_000, copy=True),
        lambda: None,
        lambda counts: looks.append(counts.elements),
    )
    elements = consumer.counts.elements
    free.set()
    time.sleep(0.05)

    assert interruption is None
    assert looks
    assert (elements, consumer.counts.elements) == (1, 1)
    assert consumer.counts.finished_ns > consumer.counts.last_ns


class EndsSlowly:
    """An endless loader, whose last pass ends when `free` is set, or after a while."""

    def __init__(self, seconds):
        self.seconds, self.free, self.ended = seconds, threading.Event(), False

    @contextlib.contextmanager
    def __call__(self):
        try:
            yield itertools.repeat(ELEMENT)
        finally:
            self.free.wait(self.seconds)
            self.ended = True


@pytest.mark.parametrize(
    "limits",
    [Limits(epochs=1, elements_per_epoch=3), Limits(seconds_ns=1_000_000)],
    ids=["elements", "seconds"],
)
def test_the_end_of_a_pass_is_waited_for(limits):
    """Longer than for a loader that is in next(): it ends processes."""
    loader = EndsSlowly(consumes.LEAVE_S + 0.3)
    consumer, _ = consume(loader, limits, lambda: None, lambda counts: None)

    assert loader.ended
    assert consumer.left


@pytest.mark.parametrize(
    "limits",
    [Limits(epochs=1, elements_per_epoch=3), Limits(seconds_ns=1_000_000)],
    ids=["elements", "seconds"],
)
def test_a_loader_that_hangs_at_its_end_is_left_behind(limits, monkeypatch):
    monkeypatch.setattr(consumers, "END_S", 0.1)
    loader = EndsSlowly(30)
    consumer, interruption = consume(loader, limits, lambda: None, lambda counts: None)
    is_left_behind = not loader.ended
    loader.free.set()

    assert is_left_behind
    assert interruption is None
    assert consumer.counts.elements >= 3
    assert consumer.counts.failure is None


def test_an_interruption_keeps_what_was_counted():
    def interrupt(counts):
        if counts.elements:
            raise KeyboardInterrupt

    consumer, interruption = consume(
        lambda: contextlib.nullcontext(itertools.repeat(ELEMENT)),
        Limits(copy=True),
        lambda: None,
        interrupt,
    )

    assert isinstance(interruption, KeyboardInterrupt)
    counts = consumer.counts
    assert counts.elements == len(counts.stamps) == sum(row[0] for row in counts.epochs)
    assert not counts.ended


def test_the_loop_itself_is_measured_with_the_same_element(monkeypatch):
    """By a clock that a reading moves: one before each call, one after."""
    ticks = itertools.count(0, 1000)
    monkeypatch.setattr(consumers, "_clock", lambda: next(ticks))

    cost = calibrate(ELEMENT, False, 0.1, 0.02)

    assert cost.elements > 10
    assert cost.seconds == pytest.approx(2e-6, rel=0.01)
    assert cost.calling == pytest.approx(1e-6, rel=0.01)
