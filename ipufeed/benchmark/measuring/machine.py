"""What a result was measured on, and what else was using it."""

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


def fingerprint() -> MachineSection:
    """CPU, memory and versions; nothing that names the machine or its user."""
    import numpy as np
    import tensorflow as tf

    return {
        "cpu": cpu_model(),
        "cpus": os.cpu_count(),
        "usable_cpus": int(_native.entry().ipufeed_usable_cpus()),
        "governor": read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        "memory_bytes": memory("MemTotal"),
        "memory_available_bytes": memory("MemAvailable"),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "tensorflow": tf.__version__,
        "numpy": np.__version__,
        "ipufeed": __version__,
    }


def cpu_model() -> str:
    """The model's name, or the architecture where the kernel does not report it."""
    for line in (read("/proc/cpuinfo") or "").splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def at_time(monotonic_ns: int) -> str:
    """A moment of the monotonic clock as date and time, ISO 8601 in UTC."""
    seconds = time.time() - (time.monotonic_ns() - monotonic_ns) / 1e9
    return datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc).isoformat()


def read(path: str) -> str | None:
    """A small file's text without the white space around it, or None."""
    try:
        return Path(path).read_text().strip()
    except OSError:
        return None


def memory(field: str) -> int | None:
    """A field of /proc/meminfo in bytes."""
    for line in (read("/proc/meminfo") or "").splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    return None


@dataclass(frozen=True)
class Activity:
    """A moment's counters of the machine's and of this process's CPU time."""

    wall_s: float
    machine_busy_s: float | None
    process_s: float
    load_average: float | None

    @classmethod
    def now(cls) -> Activity:
        """Reads the counters."""
        try:
            load: float | None = os.getloadavg()[0]
        except OSError:
            load = None
        return cls(time.monotonic(), machine_busy_s(), time.process_time(), load)

    def others_since(self, before: Activity) -> float | None:
        """CPUs that everything but this process kept busy since `before`, on average.

        Close to 0 on a quiet machine. Close to the number of CPUs: the measurement
        shared every one of them, and its rates are too low.
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
    """CPU seconds spent on anything but idling, by all CPUs, stolen time included."""
    line = (read("/proc/stat") or "").splitlines()[:1]
    if not line:
        return None
    ticks = [int(field) for field in line[0].split()[1:9]]
    idle = ticks[3] + ticks[4]
    return (sum(ticks) - idle) / CLOCK_TICKS


def peak_rss_bytes() -> int:
    """The most memory that this process has held, TensorFlow's own included."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def threads() -> int:
    """Threads of this process, now."""
    return len(os.listdir("/proc/self/task"))


def usable_cpus() -> int:
    """See `ipufeed/cc/core/cpus.h`."""
    from ipufeed import _native

    return int(_native.entry().ipufeed_usable_cpus())
