"""What the device says while it works, such as the line of an attached IPU.

Programs look for those lines on stderr, so they must be there without any set-up, and
once only: a handler of our own writes them unless one of the root logger's does.
`logging.getLogger("ipufeed").setLevel(logging.WARNING)` silences them.
"""

from __future__ import annotations

import logging
import sys
from typing import TextIO

LOGGER = logging.getLogger("ipufeed")


def _writes_to_stderr(handler: logging.Handler, level: int) -> bool:
    """Whether a handler would put a record of this level on stderr."""
    # absl wraps the handler that has the stream; `absl.app.run` installs it.
    inner = getattr(handler, "python_handler", handler)
    return handler.level <= level and getattr(inner, "stream", None) is sys.stderr


class StderrHandler(logging.StreamHandler[TextIO]):
    """Writes to what sys.stderr is now, if nobody else does."""

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
