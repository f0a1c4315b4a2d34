"""Log lines and the progress bar of compiling and loading a program.

    POPLAR_LOG_LEVEL=INFO   "Starting phase: ...", "Ending phase: ... (duration ...)"
    TF_POPLAR_VLOG_LEVEL=1  what was looked up, found, compiled and stored; 2: sizes
    TF_CPP_MIN_VLOG_LEVEL=1 the same
    TF_CPP_VMODULE='poplar_compiler=1,poplar_executable=1'
                            a level for the lines of one module
    --show_progress_bar     a progress bar

Users' programs search stderr for these lines and count them. All figures are measured.

Source: names and texts of the phases are those of Graphcore's Poplar library.
"""

from __future__ import annotations

import datetime
import fnmatch
import os
import sys
import threading
import time

from ipufeed.device.flags import environment, flags

COMPILING = "graphConstruction"
LOADING = "Loading executable"


def _log_line(text: str) -> None:
    """Writes a line to stderr, in one piece."""
    try:
        sys.stderr.write(text + "\n")
        sys.stderr.flush()
    except (OSError, ValueError, AttributeError):
        pass  # stderr is closed


def logs_phases() -> bool:
    """Whether POPLAR_LOG_LEVEL is INFO or more verbose."""
    return environment.poplar_log_level() in ("TRACE", "DEBUG", "INFO")


def _phase_line(text: str) -> None:
    """Writes a line in Poplar's format: time, process and thread, level."""
    now = datetime.datetime.now(datetime.timezone.utc).isoformat(
        timespec="microseconds"
    )
    now = now.replace("+00:00", "Z")
    _log_line(f"{now} PL:POPLAR {os.getpid()}.{threading.get_native_id()} I: {text}")


def phase_begins(name: str) -> None:
    """Logs the start of a phase, if phases are logged."""
    if logs_phases():
        _phase_line(f"Starting phase: {name}")


def phase_ends(name: str, duration_s: float, rss_bytes: int) -> None:
    """Logs the end of a phase, in Poplar's text: its `MB` are MiB."""
    if logs_phases():
        _phase_line(
            f"Ending phase: {name} (duration {duration_s * 1e3:.0f} ms; "
            f"diff RSS: {rss_bytes / 2**20:g} MB)"
        )


def _vlog_level(module: str) -> int:
    """Returns the highest verbosity that is set for a module.

    TensorFlow 2.21 renamed TF_CPP_MIN_VLOG_LEVEL to TF_CPP_MAX_VLOG_LEVEL.
    """
    levels = [
        os.environ.get(f"TF_{each}_VLOG_LEVEL", "0")
        for each in ("POPLAR", "CPP_MIN", "CPP_MAX")
    ]
    for item in os.environ.get("TF_CPP_VMODULE", "").split(","):
        pattern, _, level = item.partition("=")
        if fnmatch.fnmatchcase(module, pattern):
            levels.append(level)
    return max((int(level) for level in levels if level.isdecimal()), default=0)


def log_compiler(level: int, text: str) -> None:
    """Logs a line about a compilation, if the verbosity is at least `level`."""
    _vlog("poplar_compiler", level, text)


def log_executable(level: int, text: str) -> None:
    """Logs a line about a program on a device, likewise."""
    _vlog("poplar_executable", level, text)


def _vlog(module: str, level: int, text: str) -> None:
    if _vlog_level(module) >= level:
        _log_line(f"{time.strftime('%Y-%m-%d %H:%M:%S')}: V {module}] {text}")


def _shows_progress() -> bool:
    """Whether --show_progress_bar is set; `auto` means: on a terminal."""
    wanted = flags.get_flags().show_progress_bar.lower()
    if wanted in ("true", "1"):
        return True
    if wanted in ("false", "0"):
        return False
    return sys.stderr is not None and sys.stderr.isatty()


class ProgressBar:
    """The progress bar of a compilation: 0 and 100 %, as XLA compiles in one call.

    It is not tqdm's, since programs read the text that Graphcore's bar writes. A thread
    redraws the elapsed time until the block ends.
    """

    WIDTH = 20

    def __init__(self, name: str) -> None:
        self._name = name
        self._done = threading.Event()
        self._thread: threading.Thread | None = None
        self._start = 0.0

    def __enter__(self) -> ProgressBar:
        if _shows_progress():
            self._start = time.monotonic()
            _log_line(f"Compiling module {self._name}:")
            self._draw(0, "Graph Compilation")
            self._thread = threading.Thread(target=self._follow, daemon=True)
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close("Compilation Finished")

    def close(self, step: str) -> None:
        """Ends the bar with `step` as its last text."""
        if self._thread is None:
            return
        self._done.set()
        self._thread.join()
        self._thread = None
        self._draw(100, step)
        _log_line("")

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
