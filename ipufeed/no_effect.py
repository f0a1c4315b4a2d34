"""Warnings about options of programs for IPUs that change nothing on a simulated one.

Each option works, or is refused, or is here: accepted, with one warning that says why it
changes nothing.
"""

from __future__ import annotations

import logging
import threading

from ipufeed.process_state import STATE

LOGGER = logging.getLogger("ipufeed")

_lock = threading.Lock()
_warned: set[str] = set()


def no_effect(name: str, why: str) -> None:
    """Logs, once a process for each name, that an option changes nothing here.

    To be called where a value is given that is not the default.

    Args:
        name: The option's, as the user writes it.
        why: What the simulated IPU has in its place, or lacks; the end of a sentence.

    Threads: any.
    """
    warn_once(name, "`%s` has no effect on a simulated IPU: %s.", name, why)


def warn_once(key: str, message: str, *values: object) -> None:
    """Logs a warning, once a process for each key.

    Args:
        key: Of the warning.
        message: Of it, with a place for each of the values as in `logging`.
        *values: The values.

    Threads: any.
    """
    with _lock:
        if key in _warned:
            return
        _warned.add(key)
    LOGGER.warning(message, *values)


@STATE.part("warnings")
def forget() -> None:
    """Makes all options warn again, as in a new process."""
    with _lock:
        _warned.clear()
