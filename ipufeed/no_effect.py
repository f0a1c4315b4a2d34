"""Warnings about options for IPUs that have no effect on a simulated IPU.

Each option works, is refused, or is accepted with one warning that explains why it has no
effect.
"""

from __future__ import annotations

import logging
import threading

from ipufeed.process_state import STATE

LOGGER = logging.getLogger("ipufeed")

_lock = threading.Lock()
_warned: set[str] = set()


def no_effect(name: str, why: str) -> None:
    """Warns, once per process and name, that an option has no effect.

    Call it when a value other than the default is set.

    Args:
        name: The option, as the user writes it.
        why: The reason; the end of a sentence.

    Threads: any.
    """
    warn_once(name, "`%s` has no effect on a simulated IPU: %s.", name, why)


def warn_once(key: str, message: str, *values: object) -> None:
    """Logs a warning, once per process and key.

    Args:
        key: Identifies the warning.
        message: The text, with placeholders for the values as in `logging`.
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
    """Makes all warnings appear again, as in a new process."""
    with _lock:
        _warned.clear()


def without_options(kind: str, **options: object) -> None:
    """Warns that options of Poplar's libraries have no effect, unless they are empty.

    Args:
        kind: The name of the layer's class.
        **options: The arguments, by their names.

    Raises:
        TypeError: One is neither a dict nor None.
    """
    for name, value in options.items():
        if value is not None and not isinstance(value, dict):
            raise TypeError(
                f"`{name}` must be a dict of options or None, got "
                f"{type(value).__name__} {value!r}."
            )
        if value:
            no_effect(f"{kind}({name}=)", "there are none of Poplar's libraries")
