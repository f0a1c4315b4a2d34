"""Keeps TensorFlow's chatter about GPUs off stderr while it is imported."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

LEVEL = "TF_CPP_MIN_LOG_LEVEL"


@contextmanager
def hushed(level: str) -> Iterator[None]:
    """Within it nothing goes to stderr; if it ends with an error, all of it does.

    After Ctrl-C nothing does. If TF_CPP_MIN_LOG_LEVEL is set, its messages are wanted,
    so then nothing is kept back.

    Args:
        level: What TensorFlow's native code may log afterwards: "1" for warnings, "2" for
            errors, "3" for nothing. It reads the variable once, at its first message, so
            it is unset again at the end.

    Threads: the main one, while no other writes to stderr.
    """
    if LEVEL in os.environ:
        yield
        return
    os.environ[LEVEL] = level
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
