"""Messages of the command on stderr."""

from __future__ import annotations

import sys

from ipufeed.render.terminal import wrap


def complain(message: str) -> None:
    """A paragraph on stderr for each line of the message."""
    for line in f"ipufeed.benchmark: {message}".splitlines():
        print("\n".join(wrap(line)), file=sys.stderr, flush=True)


def say_nothing(message: str) -> None:
    """What --quiet makes of a note."""
    del message
