"""The command's stdin, stdout and stderr: stdout is for the JSON alone."""

from __future__ import annotations

import os
import sys

from ipufeed.render.terminal import wrap


def open_missing_streams() -> None:
    """Opens /dev/null for each standard stream that the process was started without.

    Otherwise the next file that is opened, perhaps of the dataset, would get its number.
    """
    for descriptor, name in ((0, "stdin"), (1, "stdout"), (2, "stderr")):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free descriptor
        if getattr(sys, name) is None:
            mode = "r" if descriptor == 0 else "w"
            setattr(sys, name, os.fdopen(descriptor, mode, closefd=False))


def take_stdout() -> int:
    """Sends stdout to stderr and returns the descriptor of the real stdout, for the JSON.

    At the level of file descriptors, since datasets also print from C code and from
    child processes.
    """
    sys.stdout.flush()
    stdout = os.dup(1)
    os.dup2(2, 1)
    return stdout


def print_message(message: str, command: str = "ipufeed.benchmark") -> None:
    """Prints each line of a command's message on stderr, wrapped to the terminal."""
    for line in f"{command}: {message}".splitlines():
        print("\n".join(wrap(line)), file=sys.stderr, flush=True)
