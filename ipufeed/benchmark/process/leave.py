"""Ends the process while a dataset's Python code may still be running."""

from __future__ import annotations

import atexit
import os
import sys
from typing import NoReturn

SIGNALLED = 128  # and the signal's number: see interrupts.py
# For a feeder that is in the middle of an element when the measurement is over.
FEEDER_GRACE_NS = 2_000_000_000


def leave(code: int) -> NoReturn:
    """Ends the process, without waiting for Python code that runs inside a dataset.

    After Ctrl-C the dataset's function may still be asleep. An ordinary exit would take
    the interpreter down under it, so that everything but that is done here: what the
    dataset file has registered with atexit, and the flushing.
    """
    if "tensorflow" in sys.modules:
        from ipufeed import _native

        grace_ns = 0 if code > SIGNALLED else FEEDER_GRACE_NS
        if _native.is_loaded() and _native.entry().ipufeed_stop_all(grace_ns):
            atexit._run_exitfuncs()
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    sys.exit(code)
