"""Cuts a run of stamps into epochs while it goes on."""

from __future__ import annotations

from typing import Any

import numpy as np

from ipufeed.benchmark.measuring.run import Progress
from ipufeed.benchmark.result.settings import EPOCH_SECONDS, Settings

# 256 MiB, as in ipufeed/cc/measure/measurement.h; counting goes on after it.
MOST_STAMPS = 1 << 25

Stamps = np.ndarray[Any, np.dtype[np.int64]]


class EpochTable:
    """Epochs of a fixed number of elements, of a pass, or of about a second.

    An epoch ends with an element, where the next one begins; the first contains the
    start-up. What comes after the last epoch, or the last second, that was asked for is
    not counted.

    Attributes:
        elements: Elements counted so far.
        first_ns: When the first one was there, 0 before; last_ns: the last one.
        complete: Whether all that was asked for is there.

    Threads: one adds; any reads the attributes.
    """

    def __init__(self, settings: Settings) -> None:
        self._epochs = settings.epochs
        self._per_epoch = settings.elements
        self._by_pass = settings.passes is not None
        limit = settings.time_limit
        self._limit_ns = None if limit is None else round(limit * 1e9)
        self._chunks: list[Stamps] = []
        self._rows: list[tuple[int, int, int]] = []  # elements, start, end
        self._stamped = 0
        self._count = 0  # elements of the epoch that is open
        self._start_ns = 0
        self.elements = 0
        self.first_ns = 0
        self.last_ns = 0
        self.complete = False

    def add(self, stamps: Stamps, requested_ns: int) -> None:
        """Takes stamps in order, at least one; requested_ns: where epoch 0 begins."""
        if self.complete:
            return
        if self.elements == 0:
            self.first_ns = int(stamps[0])
            self._start_ns = requested_ns
        if self._limit_ns is not None:
            kept = np.searchsorted(stamps, self.first_ns + self._limit_ns, "right")
            self.complete = bool(kept < len(stamps))
            stamps = stamps[:kept]
        while len(stamps) and not self._is_full():
            taken = self._part_of_epoch(stamps)
            self._keep(stamps[:taken])
            stamps = stamps[taken:]
        self.complete = self.complete or self._is_full()

    def end_pass(self) -> None:
        """The dataset has come to its end, and starts again."""
        if self._by_pass:
            self._close()

    def finish(self) -> None:
        """Nothing more comes: what is open is the last epoch."""
        self._close()

    def rows(self, bytes_per_element: int, samples_per_element: int) -> Stamps:
        """int64 [epochs, 5]: elements, bytes, samples, start, end."""
        table = [
            (count, count * bytes_per_element, count * samples_per_element, start, end)
            for count, start, end in self._rows
        ]
        return np.array(table, np.int64).reshape(-1, 5)

    def stamps(self) -> Stamps:
        """All stamps that were kept, in order."""
        return np.concatenate([np.empty(0, np.int64), *self._chunks])

    def progress(self) -> Progress:
        """How far it is; the bytes are not known here."""
        return Progress(self.elements, 0, len(self._rows), self.first_ns)

    def _is_full(self) -> bool:
        return self._epochs is not None and len(self._rows) >= self._epochs

    def _part_of_epoch(self, stamps: Stamps) -> int:
        """How many of them belong to the epoch that is open, at least one."""
        if self._by_pass:
            return len(stamps)
        if self._per_epoch is not None:
            return min(len(stamps), self._per_epoch - self._count)
        # From the first element on, so that start-up makes no epoch short.
        begin = self._start_ns if self._rows else self.first_ns
        end = begin + round(EPOCH_SECONDS * 1e9)
        return int(np.searchsorted(stamps, end, "left")) + 1

    def _keep(self, stamps: Stamps) -> None:
        if self._stamped < MOST_STAMPS:
            self._chunks.append(stamps[: MOST_STAMPS - self._stamped])
            self._stamped += len(self._chunks[-1])
        self.elements += len(stamps)
        self._count += len(stamps)
        self.last_ns = int(stamps[-1])
        if self._by_pass:
            return
        if self._per_epoch is not None:
            if self._count >= self._per_epoch:
                self._close()
            return
        begin = self._start_ns if self._rows else self.first_ns
        if self.last_ns - begin >= EPOCH_SECONDS * 1e9:
            self._close()

    def _close(self) -> None:
        if self._count == 0:
            return
        self._rows.append((self._count, self._start_ns, self.last_ns))
        self._start_ns = self.last_ns
        self._count = 0
