"""Finds a worker process that a signal has ended while its loader still waits for it.

torch looks for such workers every five seconds outside of the main thread, and a run may
end before: it would show a loader that became slow, and not one that is broken.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator

from ipufeed.render.units import duration

# A worker that ended more recently may be one that the loader is about to replace.
SILENCE_S = 0.5


def error_of_workers(silence_ns: int) -> RuntimeError | None:
    """Returns the error of a loader that waits for a child that a signal has ended.

    Args:
        silence_ns: The time since its last element.

    Returns:
        None if there is none, or if the loader has waited for less than SILENCE_S.
    """
    if silence_ns < SILENCE_S * 1e9:
        return None
    for pid in _ended_children():
        with contextlib.suppress(ChildProcessError):
            found = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if found is not None and found.si_code in (os.CLD_KILLED, os.CLD_DUMPED):
                name = signal.Signals(found.si_status).name
                return RuntimeError(
                    f"The loader's worker process {pid} was ended by {name}, and no "
                    f"element came in the {duration(silence_ns / 1e9)} since the last one"
                )
    return None


def _ended_children() -> Iterator[int]:
    """Yields the children of this process that have ended and were not waited for."""
    own = os.getpid()
    for entry in os.listdir("/proc"):
        if not entry.isdecimal():
            continue
        with contextlib.suppress(OSError), open(f"/proc/{entry}/stat") as file:
            # The name, in parentheses, may contain anything.
            state, parent = file.read().rpartition(")")[2].split()[:2]
            if state == "Z" and int(parent) == own:
                yield int(entry)
