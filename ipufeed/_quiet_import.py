"""Suppresses TensorFlow's messages about GPUs on stderr while it is imported."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

LEVEL = "TF_CPP_MIN_LOG_LEVEL"


@contextmanager
def quiet_stderr(level: str) -> Iterator[None]:
    """Withholds stderr within the block, and writes it out if the block raises.

    After Ctrl-C it is dropped. With TF_CPP_MIN_LOG_LEVEL set nothing is withheld: the
    user has chosen a level.

    Args:
        level: What TensorFlow's native code logs afterwards: "1" for warnings, "2" for
            errors, "3" for nothing. It reads the variable once, at its first message, so
            it is unset when the block ends.

    Threads: the main thread, while no other thread writes to stderr.
    """
    if LEVEL in os.environ:
        yield
        return
    os.environ[LEVEL] = level
    sys.stderr.flush()
    with tempfile.TemporaryFile() as withheld:
        stderr = os.dup(2)
        os.dup2(withheld.fileno(), 2)
        try:
            yield
        except Exception:
            sys.stderr.flush()
            withheld.seek(0)
            os.write(stderr, withheld.read())
            raise
        finally:
            sys.stderr.flush()
            os.dup2(stderr, 2)
            os.close(stderr)
            os.environ.pop(LEVEL, None)
