"""What the native core says, such as that a program has waited long (cc/base/messages.h).

A thread passes it on to the logger `ipufeed`, which the device's own lines go through: so
it is seen whatever TF_CPP_MIN_LOG_LEVEL says, and can be silenced or sent elsewhere.
"""

from __future__ import annotations

import ctypes
import functools
import logging
import threading

from ipufeed import _native

MOST_BYTES = 4096


@functools.cache
def listen() -> threading.Thread:
    """Starts the thread, once per process; it sleeps until there is something."""
    thread = threading.Thread(target=pass_on, name="ipufeed_said", daemon=True)
    thread.start()
    return thread


def pass_on() -> None:
    """The thread's work."""
    logger = logging.getLogger("ipufeed")
    entry = _native.entry()
    line = ctypes.create_string_buffer(MOST_BYTES)
    while True:
        try:
            entry.ipufeed_next_line(line, MOST_BYTES)
        except (
            Exception
        ) as error:  # without memory for one line there may be for others
            logger.warning("a message of the native core was lost: %s", error)
            continue
        logger.warning("%s", line.value.decode("utf-8", "replace"))
