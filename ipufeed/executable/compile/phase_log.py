"""The log lines while a program is compiled and loaded.

    POPLAR_LOG_LEVEL=INFO   "Starting phase: ...", "Ending phase: ... (duration ...)"
    TF_POPLAR_VLOG_LEVEL=1  what was looked for, found, compiled and stored; 2: of how
                            many operations it is, and how large
    TF_CPP_MIN_VLOG_LEVEL=1 the same
    TF_CPP_VMODULE='poplar_compiler=1,poplar_executable=1'
                            the lines of one of the two units, with a level of its own
    --show_progress_bar     a bar on a terminal

Programs look for these lines on stderr and count them. All figures are measured.

Source: names and texts of the phases are those of Graphcore's Poplar library.
"""

from __future__ import annotations

import datetime
import fnmatch
import os
import sys
import threading
import time
from types import TracebackType

from ipufeed.device.flags import environment, flags

COMPILING = "graphConstruction"
LOADING = "Loading executable"


def log_line(text: str) -> None:
    """One line on stderr, in one piece."""
    try:
        sys.stderr.write(text + "\n")
        sys.stderr.flush()
    except (OSError, ValueError, AttributeError):
        pass  # stderr is closed: the log has no reader


def logs_phases() -> bool:
    """Whether POPLAR_LOG_LEVEL is INFO or more."""
    return environment.poplar_log_level() in ("TRACE", "DEBUG", "INFO")


def phase_line(text: str) -> None:
    """A line as the Poplar library writes them: time, process and thread, level."""
    now = datetime.datetime.now(datetime.timezone.utc).isoformat(
        timespec="microseconds"
    )
    now = now.replace("+00:00", "Z")
    log_line(f"{now} PL:POPLAR {os.getpid()}.{threading.get_native_id()} I: {text}")


def phase_begins(name: str) -> None:
    """Says that a phase begins, if that is asked for."""
    if logs_phases():
        phase_line(f"Starting phase: {name}")


def phase_ends(name: str, duration_s: float, rss_bytes: int) -> None:
    """Says that it has ended, how long it took and by how much the process grew."""
    if logs_phases():
        phase_line(
            f"Ending phase: {name} (duration {duration_s * 1e3:.0f} ms; "
            f"diff RSS: {rss_bytes / 2**20:g} MB)"
        )


def vlog_level(unit: str) -> int:
    """The highest level of a unit's lines that is asked for.

    TF_CPP_MAX_VLOG_LEVEL is what TensorFlow 2.21 calls TF_CPP_MIN_VLOG_LEVEL.
    """
    levels = [
        os.environ.get(f"TF_{each}_VLOG_LEVEL", "0")
        for each in ("POPLAR", "CPP_MIN", "CPP_MAX")
    ]
    for item in os.environ.get("TF_CPP_VMODULE", "").split(","):
        pattern, _, level = item.partition("=")
        if fnmatch.fnmatchcase(unit, pattern):
            levels.append(level)
    return max((int(level) for level in levels if level.isdecimal()), default=0)


def log_compiler(level: int, text: str) -> None:
    """Writes a line about what is compiled, if its level is asked for."""
    _vlog("poplar_compiler", level, text)


def log_executable(level: int, text: str) -> None:
    """Writes a line about a program on a device, if its level is asked for."""
    _vlog("poplar_executable", level, text)


def _vlog(unit: str, level: int, text: str) -> None:
    if vlog_level(unit) >= level:
        log_line(f"{time.strftime('%Y-%m-%d %H:%M:%S')}: V {unit}] {text}")


def shows_progress() -> bool:
    """--show_progress_bar; `auto` is on a terminal."""
    wanted = flags.get_flags().show_progress_bar.lower()
    if wanted in ("true", "1"):
        return True
    if wanted in ("false", "0"):
        return False
    return sys.stderr is not None and sys.stderr.isatty()


class ProgressBar:
    """The bar of a compilation: XLA compiles in one call, so that it knows two points.

    A thread redraws the time that has passed; it ends with the block.
    """

    WIDTH = 20

    def __init__(self, name: str) -> None:
        self._name = name
        self._done = threading.Event()
        self._thread: threading.Thread | None = None
        self._start = 0.0

    def __enter__(self) -> ProgressBar:
        if shows_progress():
            self._start = time.monotonic()
            log_line(f"Compiling module {self._name}:")
            self._draw(0, "Graph Compilation")
            self._thread = threading.Thread(target=self._follow, daemon=True)
            self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close("Compilation Finished")

    def close(self, step: str) -> None:
        """Ends the bar; `step` is its last text."""
        if self._thread is None:
            return
        self._done.set()
        self._thread.join()
        self._thread = None
        self._draw(100, step)
        log_line("")

    def _follow(self) -> None:
        while not self._done.wait(0.1):
            self._draw(0, "Graph Compilation")

    def _draw(self, percent: int, step: str) -> None:
        passed = time.monotonic() - self._start
        hours, rest = divmod(passed, 3600)
        minutes, seconds = divmod(rest, 60)
        full = self.WIDTH * percent // 100
        bar = "#" * full + " " * (self.WIDTH - full)
        try:
            sys.stderr.write(
                f"\r[{bar}] {percent:3d}% {step:22s} "
                f"[Elapsed: {hours:02.0f}:{minutes:02.0f}:{seconds:04.1f}]"
            )
            sys.stderr.flush()
        except (OSError, ValueError):
            self._done.set()
