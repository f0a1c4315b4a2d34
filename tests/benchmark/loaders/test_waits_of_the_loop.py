"""The loop's waits: all of the time in which the loader gave nothing, by a stated clock."""

import contextlib
import threading

import pytest

from ipufeed.benchmark.loaders import consumer as consumers
from ipufeed.benchmark.loaders.consumer import Consumer, Limits
from ipufeed.benchmark.loaders.extents import Extents


class Loader:
    """Takes stated times, of a clock that stands still otherwise.

    Args:
        waits: Before each element.
        end: Before the end of a pass.
        close: To end a pass.
        open_: To begin a pass.
    """

    def __init__(self, monkeypatch, waits, end=0, close=0, open_=0):
        self.now = 1000
        self.waits, self.end, self.close, self.open_ = waits, end, close, open_
        self.failure = None
        monkeypatch.setattr(consumers, "_clock", lambda: self.now)

    @contextlib.contextmanager
    def one_pass(self):
        self.now += self.open_
        yield self.elements()
        self.now += self.close

    def elements(self):
        for wait in self.waits:
            self.now += wait
            yield wait
        self.now += self.end
        if self.failure is not None:
            raise self.failure

    def counts(self, passes=1, **limits):
        consumer = Consumer(self.one_pass, Limits(passes=passes, **limits))
        consumer.run()
        consumer.finish()
        return consumer.counts


def test_a_silence_at_the_end_is_a_wait(monkeypatch):
    counts = Loader(monkeypatch, [10, 20, 30], end=500).counts()

    assert counts.finished_ns - counts.first_ns == 20 + 30 + 500
    assert counts.starved_ns == 20 + 30 + 500
    assert counts.marks[-1][3] == counts.starved_ns


def test_so_is_one_before_a_failure(monkeypatch):
    loader = Loader(monkeypatch, [10, 20], end=500)
    loader.failure = ValueError("damaged")
    counts = loader.counts()

    assert counts.failure is loader.failure
    assert counts.starved_ns == counts.finished_ns - counts.first_ns == 20 + 500


def test_a_first_element_that_is_not_counted_leaves_no_wait(monkeypatch):
    def fail(extents, element, leaves):
        raise RecursionError

    monkeypatch.setattr(Extents, "of", fail)
    counts = Loader(monkeypatch, [10, 20]).counts()

    assert isinstance(counts.failure, RecursionError)
    assert counts.elements == counts.starved_ns == 0


def test_to_end_a_pass_and_to_begin_the_next_one_are_waits(monkeypatch):
    loader = Loader(monkeypatch, [10, 20], end=100, close=2000, open_=30_000)
    counts = loader.counts(passes=2)

    between = 100 + 2000 + 30_000
    assert counts.starved_ns == 20 + between + 10 + 20 + 100
    assert counts.starved_ns == counts.finished_ns - counts.first_ns


@pytest.mark.parametrize("passes", [1, 3])
def test_waits_and_work_are_all_of_the_time(monkeypatch, passes):
    loader = Loader(monkeypatch, [10, 20, 30], end=5, close=7)

    def measure(extents, element, leaves):
        loader.now += 4
        return 8, 1

    monkeypatch.setattr(Extents, "of", measure)
    counts = loader.counts(passes)

    taken = 3 * passes - 1  # the first one's work is a part of the start-up
    assert counts.blocked_ns == 4 * taken
    assert counts.starved_ns + counts.blocked_ns == (
        counts.finished_ns - counts.steady_ns
    )


@pytest.mark.parametrize("mark_ns", [1, 35, 10**9])
@pytest.mark.parametrize("seconds_ns", [0, 75, 10**9])
def test_an_epoch_ends_at_the_first_element_after_its_time(
    monkeypatch, mark_ns, seconds_ns
):
    monkeypatch.setattr(consumers, "MARK_NS", mark_ns)
    loader = Loader(monkeypatch, [10] * 21)
    counts = loader.counts(epoch_ns=25, seconds_ns=seconds_ns)

    taken = 8 if seconds_ns == 75 else 21
    last = 10 * (taken - 1)
    assert counts.elements == taken
    ends = [row[4] - counts.first_ns for row in counts.epochs]
    assert ends == [end for end in (30, 50, 80, 100, 130, 150, 180) if end < last] + [
        last
    ]


@pytest.mark.parametrize("epoch_ns", [25, 10**9])
def test_marks_stand_at_least_their_interval_apart(monkeypatch, epoch_ns):
    monkeypatch.setattr(consumers, "MARK_NS", 35)
    counts = Loader(monkeypatch, [10] * 14).counts(epoch_ns=epoch_ns)

    marked = [mark[:2] for mark in counts.marks]
    assert [at - counts.first_ns for at, _ in marked] == [0, 40, 80, 120, 130]
    assert [elements for _, elements in marked] == [1, 5, 9, 13, 14]


@pytest.mark.parametrize("seconds_ns", [55, 60])
@pytest.mark.parametrize("elements_per_epoch", [0, 3])
def test_an_element_after_the_deadline_is_not_taken(
    monkeypatch, seconds_ns, elements_per_epoch
):
    loader = Loader(monkeypatch, [10] * 20)
    counts = loader.counts(seconds_ns=seconds_ns, elements_per_epoch=elements_per_epoch)

    assert counts.elements == 1 + seconds_ns // 10
    assert not counts.ended


def test_cpu_time_is_known_while_the_loader_has_not_returned():
    waits, goes_on = threading.Event(), threading.Event()

    def elements():
        yield from range(1000)
        waits.set()
        goes_on.wait()

    consumer = Consumer(lambda: contextlib.nullcontext(elements()), Limits())
    thread = threading.Thread(target=consumer.run)
    thread.start()
    try:
        waits.wait()
        consumer.stop()
        consumer.finish()

        assert consumer.counts.elements == 1000
        assert consumer.counts.consumer_cpu_ns > 0
    finally:
        goes_on.set()
        thread.join()
