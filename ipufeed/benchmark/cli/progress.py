"""How far a measurement is, on stderr: a bar where that is a terminal."""

from __future__ import annotations

import contextlib
import sys
import time
from types import TracebackType
from typing import Any

from ipufeed.benchmark.measuring.run import Progress
from ipufeed.benchmark.result.settings import Settings

# A first element that takes longer is worth a word in a log.
SAY_AFTER_S = 10.0


class ProgressBar:
    """Follows a measurement with tqdm; call it with each Progress.

    It counts elements where their number is fixed, else seconds.
    """

    def __init__(self, settings: Settings, quiet: bool) -> None:
        self._settings = settings
        self._bar: Any = None
        self._silent = quiet  # or has logged its line
        self._asked = time.monotonic()
        if quiet or not sys.stderr.isatty():
            return
        from tqdm import tqdm

        total: float | None = settings.asked_elements
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
        """Shows how far the measurement is."""
        if self._bar is None:
            self._say_who_is_waited_for(progress)
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

    def _say_who_is_waited_for(self, progress: Progress) -> None:
        """A line, once, where no bar shows it: a first element may never come."""
        waited = time.monotonic() - self._asked
        if self._silent or progress.first_ns != 0 or waited < SAY_AFTER_S:
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

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.close()
