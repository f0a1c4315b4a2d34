"""What the device and the native core log, such as the line of an attached IPU.

Programs look for those lines on stderr, so they must be there without any set-up, and
once only: a handler of our own writes them unless one of the root logger's does.
`logging.getLogger("ipufeed").setLevel(logging.WARNING)` silences them.

A thread passes on what the native core logs, such as that a program has waited long
(cc/base/messages.h): so it is seen whatever TF_CPP_MIN_LOG_LEVEL is, and can be silenced or
sent elsewhere.
"""

from __future__ import annotations

import ctypes
import functools
import logging
import sys
import threading
from typing import TYPE_CHECKING, TextIO

from ipufeed import _native

LOGGER = logging.getLogger("ipufeed")


MOST_BYTES = 4096


def _writes_to_stderr(handler: logging.Handler, level: int) -> bool:
    """Whether a handler would put a record of this level on stderr."""
    # absl wraps the handler that has the stream; `absl.app.run` installs it.
    inner = getattr(handler, "python_handler", handler)
    return handler.level <= level and getattr(inner, "stream", None) is sys.stderr


if TYPE_CHECKING:
    _Handler = logging.StreamHandler[TextIO]
else:
    _Handler = logging.StreamHandler  # Python 3.10 takes no type there


class StderrHandler(_Handler):
    """Writes to what sys.stderr is now, if no other handler does."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)
        self.setFormatter(
            logging.Formatter("%(asctime)s: %(levelname).1s %(name)s] %(message)s")
        )

    @property
    def stream(self) -> TextIO:  # type: ignore[override]
        """What sys.stderr is now, which a test or a notebook may have replaced."""
        return sys.stderr

    def filter(self, record: logging.LogRecord) -> bool:
        """Drops what a handler of the root logger writes to stderr anyway."""
        others = logging.getLogger().handlers if LOGGER.propagate else []
        if any(_writes_to_stderr(other, record.levelno) for other in others):
            return False
        return super().filter(record)


if LOGGER.level == logging.NOTSET:
    LOGGER.setLevel(logging.INFO)
LOGGER.addHandler(StderrHandler())


@functools.cache
def listen() -> threading.Thread:
    """Starts the thread, once per process; it sleeps until there is something."""
    thread = threading.Thread(target=pass_on, name="ipufeed_log", daemon=True)
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
