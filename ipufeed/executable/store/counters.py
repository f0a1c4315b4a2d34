"""Counters of compilations, cache hits and loads of programs."""

from __future__ import annotations

import ctypes
import dataclasses
import threading
from dataclasses import dataclass

from ipufeed import _native
from ipufeed.process_state import STATE


@dataclass(frozen=True)
class ExecutableStats:
    """Counters of this process since its start or the last reset.

    In a long training `compiles` and `switches` should not grow after the first steps.

    Attributes:
        compiles: Programs compiled.
        compile_seconds: Time of these compilations in XLA, without tracing and lowering.
        memory_hits: Programs that this process had already compiled, for another
            function, session or IPU.
        disk_hits: Programs read from --executable_cache_path.
        read_seconds: Time of reading them.
        saved: Files written.
        refused: Files that were not used, as they are damaged or untrusted. Their programs
            were compiled again.
        loads: Loads of a program onto a device that did not hold it.
        switches: Loads that replaced another program.
        load_seconds: Time of the loads, including that of reading files.
        key_seconds: Time of computing keys.
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
        """Programs found in memory or on disk."""
        return self.memory_hits + self.disk_hits


class _Counters:
    """The counters behind `stats()`. Threads: any."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values = ExecutableStats()

    def add(self, **amounts: float) -> None:
        """Adds to the named counters."""
        with self._lock:
            values = dataclasses.asdict(self._values)
            for name, amount in amounts.items():
                values[name] += amount
            self._values = ExecutableStats(**values)

    def _take_op_loads(self) -> None:
        """Adds the native core's counts for ops that run one by one."""
        if not _native.is_loaded():
            return
        counts = (ctypes.c_int64 * 2)()
        _native.entry().ipufeed_take_op_loads(counts)
        self.add(loads=counts[0], switches=counts[1])

    def read(self) -> ExecutableStats:
        """Returns all counters, as of one moment."""
        self._take_op_loads()
        with self._lock:
            return self._values

    def reset(self) -> None:
        """Sets all counters to 0."""
        self._take_op_loads()
        with self._lock:
            self._values = ExecutableStats()


COUNTERS = _Counters()


def stats() -> ExecutableStats:
    """Returns the counters of this process. Threads: any."""
    return COUNTERS.read()


@STATE.part("counters")
def reset_stats() -> None:
    """Sets the counters of `stats()` to 0. Threads: any."""
    COUNTERS.reset()
