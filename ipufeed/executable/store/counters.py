"""Counters: how often programs were compiled, found and put on a device."""

from __future__ import annotations

import ctypes
import dataclasses
import threading
from dataclasses import dataclass

from ipufeed import _native
from ipufeed.process_state import STATE


@dataclass(frozen=True)
class ExecutableStats:
    """What this process has done with programs since it started, or was reset.

    A program that is trained for hours wants `compiles` and `switches` to stand still
    after its first steps.

    Attributes:
        compiles: Programs compiled.
        compile_seconds: Time of that, by XLA; without tracing and lowering.
        memory_hits: Programs that this process had compiled already, for another
            function, session or IPU.
        disk_hits: Programs read from --executable_cache_path.
        read_seconds: Time of that.
        saved: Files written.
        refused: Files that could not be used: damaged, or written by others. The programs
            were compiled again.
        loads: Times that a device got a program that it did not hold.
        switches: How many of these replaced another program.
        load_seconds: Time of the loads, that of reading files included.
        key_seconds: Time to work out keys.
    """

    compiles: int = 0
    compile_seconds: float = 0.0
    memory_hits: int = 0
    disk_hits: int = 0
    read_seconds: float = 0.0
    saved: int = 0
    refused: int = 0
    loads: int = 0
    switches: int = 0
    load_seconds: float = 0.0
    key_seconds: float = 0.0

    @property
    def cache_hits(self) -> int:
        """Programs that did not have to be compiled."""
        return self.memory_hits + self.disk_hits


class Counters:
    """The numbers behind `stats()`. Any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values = ExecutableStats()

    def add(self, **amounts: float) -> None:
        """Adds to some of them."""
        with self._lock:
            values = dataclasses.asdict(self._values)
            for name, amount in amounts.items():
                values[name] += amount
            self._values = ExecutableStats(**values)

    def _take_op_loads(self) -> None:
        """The native core counts by itself what ops do that run one by one."""
        if not _native.is_loaded():
            return
        counts = (ctypes.c_int64 * 2)()
        _native.entry().ipufeed_take_op_loads(counts)
        self.add(loads=counts[0], switches=counts[1])

    def read(self) -> ExecutableStats:
        """All of them, as of one moment."""
        self._take_op_loads()
        with self._lock:
            return self._values

    def reset(self) -> None:
        """Starts again from 0."""
        self._take_op_loads()
        with self._lock:
            self._values = ExecutableStats()


COUNTERS = Counters()


def stats() -> ExecutableStats:
    """What this process has done with programs so far. Any thread."""
    return COUNTERS.read()


@STATE.part("counters")
def reset_stats() -> None:
    """Starts the counters of `stats()` again from 0. Any thread."""
    COUNTERS.reset()
