"""Messages of the command on stderr."""

from __future__ import annotations

import sys

from ipufeed.render.terminal import wrap


def print_message(message: str) -> None:
    """Prints a paragraph on stderr for each line of the message."""
    for line in f"ipufeed.benchmark: {message}".splitlines():
        print("\n".join(wrap(line)), file=sys.stderr, flush=True)


def drop_message(message: str) -> None:
    """Drops a note, as with --quiet."""
    del message
