"""A progress bar on stderr, where that is a terminal."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Any

from ipufeed.benchmark.run import Progress
from ipufeed.benchmark.settings import Settings


class ProgressBar:
    """Follows a measurement with tqdm; call it with each Progress.

    It counts elements where their number is fixed, else seconds.
    """

    def __init__(self, settings: Settings, quiet: bool) -> None:
        self._settings = settings
        self._bar: Any = None
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
