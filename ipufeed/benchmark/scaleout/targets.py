"""What --service names: a number of workers of its own, or a service that is there."""

from __future__ import annotations

import re

MOST_PROCESSES = 64


def workers_of(service: str) -> int | None:
    """N of `local:N`; None for anything else, a number out of range included."""
    found = re.fullmatch(r"local:(\d{1,4})", service)
    count = int(found[1]) if found else 0
    return count if 1 <= count <= MOST_PROCESSES else None
