"""Takes a loader's elements in a Python loop, as training does, and counts them.

    begun ---- next() ---- came ---- leaves, copy ---- begun ---- next() ---- ...
          starved                 blocked: the loader is not called

To end a pass and to begin the next one is a part of that wait, and so is a silence at the
end of the run.

The loop is Python, like that of a program that trains with such a loader. It holds the GIL
while it counts, as do the loader's threads in this process: the loop's cost is measured
afterwards by repeating an element (calibration.py), and is in the result.

The loop runs on its own thread (consume.py).
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from ipufeed.benchmark.loaders.extents import Extents
from ipufeed.benchmark.loaders.rows import Rows
from ipufeed.sources.loaders.leaves import Copies, Element, Leaf, leaves_of

# As in the native consumer (cc/measure/measurement.h).
MOST_ENTRIES = 8192
MARK_NS = 10_000_000
MOST_MARKS = 4096
MOST_STAMPS = 1 << 25
# A loader's own end, as the `finally` block of a generator, may take this long.
END_S = 5.0
_clock = time.monotonic_ns


@dataclass(frozen=True)
class Limits:
    """Bounds of the run and length of an epoch; as the attributes of the native op.

    The defaults are one pass, all of it.

    Attributes:
        epochs: Stop after this many, 0 for no bound.
        elements_per_epoch: 0: an epoch is a pass (`epoch_per_pass`) or `epoch_ns` long.
        epoch_ns: Length of an epoch from the first element on.
        seconds_ns: Stop this long after the first element, 0 for no bound.
        passes: Over the loader.
        epoch_per_pass: Whether a pass is an epoch.
        copy: Whether elements are copied.
    """

    epochs: int = 0
    elements_per_epoch: int = 0
    epoch_ns: int = 10**9
    seconds_ns: int = 0
    passes: int = 1
    epoch_per_pass: bool = False
    copy: bool = False


@dataclass(slots=True)
class Counts:
    """The counts of the loop; times in monotonic nanoseconds.

    Threads: written by the consumer; others read it during the run for progress only.
    """

    requested_ns: int = 0
    created_ns: int = 0
    first_ns: int = 0
    steady_ns: int = 0
    last_ns: int = 0
    finished_ns: int = 0
    elements: int = 0
    bytes: int = 0
    samples: int = 0
    opaque: int = 0
    copy_ns: int = 0
    first_copy_ns: int = 0
    starved_ns: int = 0
    blocked_ns: int = 0
    consumer_cpu_ns: int = 0
    ended: bool = False
    same_leading_dimension: bool = True
    epochs_per_entry: int = 1
    finished_epochs: int = 0
    epochs: list[list[int]] = field(default_factory=list)
    stamps: list[int] = field(default_factory=list)
    marks: list[tuple[int, ...]] = field(default_factory=list)
    failure: BaseException | None = None
    sample: Element = None  # of a pass, the largest; a pass may end with a part of one


Open = Callable[[], contextlib.AbstractContextManager[Iterator[Element]]]


class Consumer:
    """One run over a loader.

    Attributes:
        counts: The counts so far.
        in_next: Whether the loader has been called, and has not returned.
        left: Whether run() has ended.

    Threads: `run` on the consumer's thread; the rest from any.
    """

    def __init__(
        self, open_pass: Open, limits: Limits, rows: Rows | None = None
    ) -> None:
        self.counts = Counts()
        self._extents = Extents(rows or Rows())
        self._open = open_pass
        self._limits = limits
        self._stop = False
        self.in_next = True
        self.left = False
        self._left_ns = self._stopped_ns = self._begun_ns = 0
        self._is_last = False  # no pass follows
        # Where the epoch began: elements, bytes, samples, time.
        self._epoch = (0, 0, 0, 0)
        self._next_epoch = 0
        # When, and after how many elements, there is more to do than to count.
        self._due_ns, self._due_elements = 0, limits.elements_per_epoch
        self._copies = Copies() if limits.copy else None
        self._mark_ns = MARK_NS
        self._own_cpu_ns = 0  # of on_first
        self._cpu_clock: int | None = None  # of the thread, and what it showed before
        self._cpu_before_ns = 0
        self._on_first: Callable[[], None] = lambda: None

    def stop(self) -> None:
        """Ends the loop after the element that it waits for, which is not counted."""
        self._stopped_ns = self._stopped_ns or _clock()
        self._stop = True

    def run(self, on_first: Callable[[], None] = lambda: None) -> None:
        """Iterates until the limits, the loader's end, its failure or stop().

        Args:
            on_first: Called once, after the first element.
        """
        self._on_first = on_first
        counts = self.counts
        self._cpu_before_ns = time.thread_time_ns()
        self._cpu_clock = time.pthread_getcpuclockid(threading.get_ident())
        counts.requested_ns = counts.last_ns = _clock()
        self._epoch = (0, 0, 0, counts.requested_ns)
        try:
            for number in range(1, self._limits.passes + 1):
                self._is_last = number == self._limits.passes
                ended = self._one_pass()
                if self._stop or not ended:
                    break
                if self._limits.epoch_per_pass and counts.elements > self._epoch[0]:
                    self._end_epoch()
            else:
                counts.ended = True
        except BaseException as error:
            if not self._stop:
                counts.failure = error
        finally:
            self._read_cpu_time()
            self.left = True

    def finish(self) -> None:
        """Ends the last epoch and adds the last marks; once, after the loop."""
        counts = self.counts
        if counts.finished_ns:
            return
        counts.opaque = self._extents.opaque
        counts.same_leading_dimension = self._extents.same_leading_dimension
        if not self.left:  # the loader has not returned
            self._read_cpu_time()
        ends = [each for each in (self._left_ns, self._stopped_ns) if each]
        # How long the loader takes to stop is not a part of the run.
        counts.finished_ns = max(counts.last_ns, min(ends, default=_clock()))
        silence_ns = max(0, counts.finished_ns - self._begun_ns)
        if counts.elements > self._epoch[0]:
            self._end_epoch()
        if counts.elements:
            if counts.marks[-1][1] < counts.elements:
                self._mark(counts.last_ns)
            counts.starved_ns += silence_ns
            self._mark(counts.finished_ns)

    @property
    def is_worth_a_wait(self) -> bool:
        """Whether it copies an element, or the loader has END_S to end its last pass."""
        if self.left or not self._left_ns:
            return not (self.left or self.in_next)
        return not self.hangs_at_the_end

    @property
    def hangs_at_the_end(self) -> bool:
        """Whether the loader takes longer than END_S to end its last pass."""
        left_ns = self._left_ns if self._is_last and not self.left else 0
        return left_ns > 0 and _clock() - left_ns > END_S * 1e9

    def _read_cpu_time(self) -> None:
        """Reads the loop's CPU time, from any thread."""
        if self._cpu_clock is None:
            return
        with contextlib.suppress(OSError):  # the thread has ended, and has read it
            now_ns = time.clock_gettime_ns(self._cpu_clock)
            used_ns = now_ns - self._cpu_before_ns - self._own_cpu_ns
            self.counts.consumer_cpu_ns = used_ns

    def _one_pass(self) -> bool:
        """Whether the loader ended, not a limit."""
        self._left_ns, self.in_next = 0, True
        with self._open() as iterator:
            if not self.counts.created_ns:
                self.counts.created_ns = _clock()
            try:
                ended = self._take_all(iterator)
                self._is_last = self._is_last or not ended
                return ended
            except BaseException:
                self._is_last = True
                raise
            finally:
                self._left_ns = _clock()  # stopping the loader is not part of the run

    def _take_all(self, iterator: Iterator[Element]) -> bool:
        """The loop over a pass; whether the loader ended, not a limit."""
        counts, stamps, extent_of = self.counts, self.counts.stamps, self._extents.of
        largest = 0
        while True:
            self.in_next = True
            try:
                element = next(iterator)
            except StopIteration:
                return not self._stop
            came = _clock()
            if self._stop:
                return False
            self.in_next = False
            if counts.elements:
                counts.starved_ns += came - self._begun_ns
            due = came >= self._due_ns
            enough = due and self._is_late(came)
            if not enough:
                leaves = self._copied(element) if self._copies else None
                size, samples = extent_of(element, leaves)
                if size >= largest:
                    largest, counts.sample = size, element
                counts.elements += 1
                counts.bytes += size
                counts.samples += samples
                counts.last_ns = came
                if len(stamps) < MOST_STAMPS:
                    stamps.append(came)
                if due or counts.elements == self._due_elements:
                    enough = self._account(came)
            begun = self._begun_ns = _clock()
            if counts.elements > 1:
                counts.blocked_ns += begun - came
            if enough:
                return False

    def _is_late(self, came: int) -> bool:
        """Whether an element came after the deadline, and is not a part of the run.

        As in the native consumer; the first one is never late.
        """
        if not self.counts.elements:
            return False
        return came - self.counts.first_ns > self._limits.seconds_ns > 0

    def _account(self, came: int) -> bool:
        """Adds what is due after an element; returns whether the limits are reached."""
        counts, limits = self.counts, self._limits
        if counts.elements == 1:
            self._first()
            came = counts.first_ns
        if came - counts.marks[-1][0] >= self._mark_ns:
            self._mark(came)
        times = [counts.marks[-1][0] + self._mark_ns]
        if limits.elements_per_epoch:
            if counts.elements == self._due_elements:
                self._end_epoch()
        elif not limits.epoch_per_pass:
            if came >= self._next_epoch:
                self._end_epoch()
            times.append(self._next_epoch)
        if limits.seconds_ns:
            times.append(counts.first_ns + limits.seconds_ns)
        self._due_ns = min(times)
        return 0 < limits.epochs <= counts.finished_epochs

    def _first(self) -> None:
        """Ends the start-up, of which the first element's copy is a part.

        The time of `on_first`, some milliseconds, is in no figure: what was before is
        moved to just before the second element is requested.
        """
        counts = self.counts
        begun, began = _clock(), time.thread_time_ns()
        self._on_first()
        own_ns, self._own_cpu_ns = _clock() - begun, time.thread_time_ns() - began
        counts.first_copy_ns = counts.copy_ns
        counts.requested_ns += own_ns
        counts.created_ns += own_ns
        counts.last_ns += own_ns
        self._epoch = (0, 0, 0, counts.requested_ns)
        counts.stamps[0] = counts.first_ns = counts.last_ns
        self._next_epoch = counts.first_ns + self._limits.epoch_ns
        self._mark(counts.first_ns)
        counts.steady_ns = _clock()

    def _copied(self, element: Element) -> list[Leaf]:
        """Copies an element's leaves, and returns them."""
        assert self._copies is not None
        leaves = leaves_of(element)
        begun = _clock()
        for leaf in leaves:
            self._copies.copy(leaf)
        self.counts.copy_ns += _clock() - begun
        return leaves

    def _mark(self, at_ns: int) -> None:
        counts = self.counts
        mark = (
            *(at_ns, counts.elements, counts.bytes),
            *(counts.starved_ns, counts.blocked_ns, 0, 0),
        )
        if counts.marks and counts.marks[-1][0] == at_ns:
            counts.marks[-1] = mark
            return
        if len(counts.marks) == MOST_MARKS:
            counts.marks[:] = counts.marks[::2]
            self._mark_ns *= 2
        counts.marks.append(mark)

    def _end_epoch(self) -> None:
        """Ends an epoch where the next one starts; too many are merged in pairs."""
        counts, limits = self.counts, self._limits
        elements, size, samples, start = self._epoch
        end, entries = counts.last_ns, counts.epochs
        epoch = [counts.elements - elements, counts.bytes - size]
        epoch += [counts.samples - samples, start, end]
        if counts.finished_epochs % counts.epochs_per_entry:
            _merge(entries[-1], epoch)
        else:
            if len(entries) == MOST_ENTRIES:
                for first, second in zip(entries[::2], entries[1::2], strict=True):
                    _merge(first, second)
                entries[:] = entries[::2]
                counts.epochs_per_entry *= 2
            entries.append(epoch)
        counts.finished_epochs += 1
        self._epoch = (counts.elements, counts.bytes, counts.samples, end)
        if limits.elements_per_epoch:
            self._due_elements = counts.elements + limits.elements_per_epoch
        step = limits.epoch_ns
        if self._next_epoch <= end:
            self._next_epoch += step * ((end - self._next_epoch) // step + 1)


def _merge(first: list[int], second: list[int]) -> None:
    for column in range(3):
        first[column] += second[column]
    first[4] = second[4]
