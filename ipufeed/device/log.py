"""The logger `ipufeed` of the device and the native core.

Programs read its lines, such as that of an attached IPU, on stderr. So they must be there
without any set-up, and once: a handler here writes them unless one of the root logger does.
`logging.getLogger("ipufeed").setLevel(logging.WARNING)` silences them.

A thread logs the messages of the native core, such as stall reports (cc/base/messages.h):
they do not depend on TF_CPP_MIN_LOG_LEVEL, and logging can silence or redirect them.
"""

from __future__ import annotations

import ctypes
import logging
import sys
import threading
from typing import TYPE_CHECKING, TextIO

from ipufeed import _native
from ipufeed.once import once

LOGGER = logging.getLogger("ipufeed")
MOST_BYTES = 4096


def _writes_to_stderr(handler: logging.Handler, level: int) -> bool:
    """Returns whether a handler writes a record of this level to stderr."""
    # absl wraps the handler that has the stream; `absl.app.run` installs it.
    inner = getattr(handler, "python_handler", handler)
    return handler.level <= level and getattr(inner, "stream", None) is sys.stderr


if TYPE_CHECKING:
    _Handler = logging.StreamHandler[TextIO]
else:
    _Handler = logging.StreamHandler  # not generic in Python 3.10


class _StderrHandler(_Handler):
    """Writes to the current sys.stderr, unless another handler does."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)
        self.setFormatter(
            logging.Formatter("%(asctime)s: %(levelname).1s %(name)s] %(message)s")
        )

    @property
    def stream(self) -> TextIO:  # type: ignore[override]
        """The current sys.stderr, which a test or a notebook may have replaced."""
        return sys.stderr

    def filter(self, record: logging.LogRecord) -> bool:
        """Drops records that a handler of the root logger writes to stderr."""
        others = logging.getLogger().handlers if LOGGER.propagate else []
        if any(_writes_to_stderr(other, record.levelno) for other in others):
            return False
        return super().filter(record)


if LOGGER.level == logging.NOTSET:
    LOGGER.setLevel(logging.INFO)
LOGGER.addHandler(_StderrHandler())


@once
def log_native_messages() -> threading.Thread:
    """Starts the thread that logs the native core's messages, once per process."""
    thread = threading.Thread(target=_log_messages, name="ipufeed_log", daemon=True)
    thread.start()
    return thread


def _log_messages() -> None:
    entry = _native.entry()
    line = ctypes.create_string_buffer(MOST_BYTES)
    while True:
        try:
            entry.ipufeed_next_line(line, MOST_BYTES)
        except Exception as error:  # no memory for one line; later ones may be shorter
            LOGGER.warning("a message of the native core was lost: %s", error)
            continue
        LOGGER.warning("%s", line.value.decode("utf-8", "replace"))
