"""The machine: its description, and the CPU time of this process and of others."""

from __future__ import annotations

import datetime
import os
import platform
import resource
import time
from dataclasses import dataclass
from pathlib import Path

from ipufeed import _native
from ipufeed._version import __version__
from ipufeed.benchmark.result.sections import MachineSection

CLOCK_TICKS = os.sysconf("SC_CLK_TCK")
PROC = "/proc"


def fingerprint() -> MachineSection:
    """Returns CPU, memory and versions; nothing that names the machine or its user."""
    import numpy as np
    import tensorflow as tf

    return {
        "cpu": _cpu_model(),
        "cpus": os.cpu_count(),
        "usable_cpus": usable_cpus(),
        "governor": _read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        "memory_bytes": memory("MemTotal"),
        "memory_available_bytes": memory("MemAvailable"),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "tensorflow": tf.__version__,
        "numpy": np.__version__,
        "ipufeed": __version__,
    }


def _cpu_model() -> str:
    for line in (_read("/proc/cpuinfo") or "").splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def at_time(monotonic_ns: int) -> str:
    """Converts a time of the monotonic clock to ISO 8601 in UTC."""
    seconds = time.time() - (time.monotonic_ns() - monotonic_ns) / 1e9
    return datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc).isoformat()


def _read(path: str) -> str | None:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return None


def memory(field: str) -> int | None:
    """Returns a field of /proc/meminfo in bytes."""
    for line in (_read("/proc/meminfo") or "").splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    return None


@dataclass(frozen=True)
class Activity:
    """CPU time of the machine and of this process up to one moment.

    `process_s` includes the processes that read the dataset for this one.
    """

    wall_s: float
    machine_busy_s: float | None
    process_s: float
    load_average: float | None

    @classmethod
    def now(cls, helpers_s: float = 0.0) -> Activity:
        """Reads the counters.

        Args:
            helpers_s: CPU seconds of processes that are a part of what is measured.
        """
        try:
            load: float | None = os.getloadavg()[0]
        except OSError:
            load = None
        own_s = time.process_time() + helpers_s
        return cls(time.monotonic(), machine_busy_s(), own_s, load)

    def others_since(self, before: Activity) -> float | None:
        """Returns the mean number of CPUs that other processes kept busy since `before`.

        Close to 0 on a quiet machine. Close to the number of CPUs: the measurement had to
        share all of them, and its rates are too low.
        """
        if self.machine_busy_s is None or before.machine_busy_s is None:
            return None
        wall = self.wall_s - before.wall_s
        if wall <= 0:
            return None
        machine = self.machine_busy_s - before.machine_busy_s
        own = self.process_s - before.process_s
        return max(0.0, (machine - own) / wall)


def machine_busy_s() -> float | None:
    """Returns the CPU seconds that all CPUs were not idle, stolen time included."""
    line = (_read("/proc/stat") or "").splitlines()[:1]
    if not line:
        return None
    ticks = [int(field) for field in line[0].split()[1:9]]
    idle = ticks[3] + ticks[4]
    return (sum(ticks) - idle) / CLOCK_TICKS


def peak_rss_bytes() -> int:
    """Returns this process's peak memory, TensorFlow's own included."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def threads() -> int:
    """Returns the current number of this process's threads."""
    return len(os.listdir("/proc/self/task"))


def usable_cpus() -> int:
    """Returns the CPUs that this process may use: see `ipufeed/cc/core/cpus.h`."""
    return int(_native.entry().ipufeed_usable_cpus())


def descendants_cpu_ns() -> int:
    """Returns the CPU time of this process's descendants, in ns.

    Reading it takes some milliseconds of this process itself.
    In ticks of the kernel, 10 ms each. The time of a process that ended and was not waited
    for by its parent is missing.
    """
    times = os.times()
    waited_for = round((times.children_user + times.children_system) * 1e9)
    return waited_for + sum(children_ns(os.getpid(), _process_table()))


def _process_table() -> dict[int, list[tuple[int, int]]]:
    """By parent: process and CPU time in ns, with that of its ended children."""
    found: dict[int, list[tuple[int, int]]] = {}
    try:
        names = os.listdir(PROC)
    except OSError:
        return found
    for name in names:
        if not name.isdecimal():
            continue
        try:
            with open(f"{PROC}/{name}/stat", "rb") as file:
                # A command's name may hold spaces and parentheses.
                fields = file.read().rpartition(b")")[2].split()
        except OSError:
            continue  # the process has ended
        parent, ticks = int(fields[1]), sum(int(field) for field in fields[11:15])
        found.setdefault(parent, []).append(
            (int(name), ticks * (1_000_000_000 // CLOCK_TICKS))
        )
    return found


def children_ns(process: int, by_parent: dict[int, list[tuple[int, int]]]) -> list[int]:
    """Returns the CPU time of each descendant of a process."""
    times: list[int] = []
    parents = [process]
    while parents:
        for child, ns in by_parent.get(parents.pop(), []):
            times.append(ns)
            parents.append(child)
    return times
