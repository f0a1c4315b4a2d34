"""Shows the progress of a measurement on stderr: a bar if stderr is a terminal."""

from __future__ import annotations

import contextlib
import sys
import time
from typing import TYPE_CHECKING

from ipufeed.benchmark.measuring.run import Progress
from ipufeed.benchmark.result.settings import Settings

if TYPE_CHECKING:
    from tqdm import tqdm

# Without a bar, a first element that takes longer is logged.
LOG_AFTER_S = 10.0


class ProgressBar:
    """Shows a measurement's progress with tqdm; call it with each Progress.

    It counts elements if their number is fixed, else seconds.
    """

    def __init__(self, settings: Settings, quiet: bool) -> None:
        self._settings = settings
        self._bar: tqdm[None] | None = None
        self._silent = quiet  # or has logged its line
        self._requested = time.monotonic()
        if quiet or not sys.stderr.isatty():
            return
        from tqdm import tqdm

        total: float | None = settings.requested_elements
        self._in_seconds = total is None
        if total is None:
            total = settings.time_limit or settings.epochs
        self._bar = tqdm(
            total=total,
            desc="waiting for the first element",
            bar_format="{desc} {bar}| {elapsed}{postfix}",
            leave=False,
            file=sys.stderr,
        )

    def __call__(self, progress: Progress) -> None:
        """Updates the bar, or logs a slow first element."""
        if self._bar is None:
            self._log_slow_start(progress)
            return
        if progress.first_ns == 0:
            self._bar.refresh()
            return
        seconds = max(1e-3, time.monotonic() - progress.first_ns / 1e9)
        done = seconds if self._in_seconds else progress.elements
        total = self._bar.total
        self._bar.n = done if total is None else min(done, total)
        self._bar.set_description_str("measuring", refresh=False)
        self._bar.set_postfix_str(
            f"{progress.elements:,} elements, {progress.elements / seconds:,.0f}/s",
            refresh=False,
        )
        self._bar.refresh()

    def _log_slow_start(self, progress: Progress) -> None:
        waited = time.monotonic() - self._requested
        if self._silent or progress.first_ns != 0 or waited < LOG_AFTER_S:
            return
        self._silent = True
        with contextlib.suppress(OSError):
            sys.stderr.write(
                f"no element after {waited:.0f} s: waiting for the first one (Ctrl-C "
                "ends it)\n"
            )
            sys.stderr.flush()

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()
