"""The command's stdin, stdout and stderr: stdout is for the JSON alone."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

LEVEL = "TF_CPP_MIN_LOG_LEVEL"


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


@contextmanager
def hushed() -> Iterator[None]:
    """Keeps TensorFlow's chatter about GPUs off stderr while it is imported.

    Who has set TF_CPP_MIN_LOG_LEVEL wants to see it. If the import fails, all is shown;
    if it is interrupted, nothing is.
    """
    if LEVEL in os.environ:
        yield
        return
    # TensorFlow reads it once, at its first message, and then says no more about GPUs
    # when it looks for them at its first op.
    os.environ[LEVEL] = "3"
    sys.stderr.flush()
    with tempfile.TemporaryFile() as chatter:
        stderr = os.dup(2)
        os.dup2(chatter.fileno(), 2)
        try:
            yield
        except Exception:
            sys.stderr.flush()
            chatter.seek(0)
            os.write(stderr, chatter.read())
            raise
        finally:
            sys.stderr.flush()
            os.dup2(stderr, 2)
            os.close(stderr)
            os.environ.pop(LEVEL, None)
