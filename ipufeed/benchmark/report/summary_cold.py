"""What was dropped from the page cache, as a row of the summary."""

from __future__ import annotations

from typing import Any


def cold_rows(cold: dict[str, Any] | None) -> list[tuple[str, str | None]]:
    """Rows for the summary; none for a result of another kind."""
    if cold is None:
        return []
    from ipufeed.benchmark.measuring.warnings import counted
    from ipufeed.benchmark.report.summary import size  # which imports this module

    times = "once" if cold["drops"] == 1 else f"{cold['drops']} times"
    return [
        (
            "cold files",
            f"{counted(cold['files'], 'file')} of {size(cold['bytes'])} dropped {times}; "
            f"{size(cold['cached_bytes_before'])} of it had been in memory, "
            f"{size(cold['cached_bytes_left'])} stayed",
        )
    ]
