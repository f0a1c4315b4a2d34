"""The command's stdin, stdout and stderr: stdout is for the JSON alone."""

from __future__ import annotations

import os
import sys


def open_missing_streams() -> None:
    """Gives a process that was started with a closed stdout or stderr an empty one.

    Else the next file that is opened, a dataset's perhaps, would get its number.
    """
    for descriptor, name in ((0, "stdin"), (1, "stdout"), (2, "stderr")):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest number that is free
        if getattr(sys, name) is None:
            mode = "r" if descriptor == 0 else "w"
            setattr(sys, name, os.fdopen(descriptor, mode, closefd=False))


def take_stdout() -> int:
    """Keeps stdout for the JSON: whatever else is printed goes to stderr.

    On the level of file descriptors, since dataset files print from C code and from
    other processes, too.
    """
    sys.stdout.flush()
    stdout = os.dup(1)
    os.dup2(2, 1)
    return stdout
