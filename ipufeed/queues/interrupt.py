"""Ctrl-C while a program runs.

Python's handler of SIGINT runs when the main thread is in Python. A main thread that runs
a program is inside TensorFlow, maybe for hours, and deaf. A hook in front of that handler
(ipufeed/cc/interrupt.h) therefore wakes a thread that stops the programs; the main thread
then comes back to Python, which raises KeyboardInterrupt.
"""

from __future__ import annotations

import functools
import signal
import threading

from ipufeed import _native


@functools.cache
def watch() -> threading.Thread:
    """Starts the thread, once per process; it sleeps until there is a SIGINT."""
    thread = threading.Thread(target=listen, name="ipufeed_interrupt", daemon=True)
    thread.start()
    return thread


def listen() -> None:
    """The thread's work."""
    entry = _native.entry()
    while True:
        entry.ipufeed_wait_for_interrupt()
        if ends_programs(signal.getsignal(signal.SIGINT)):
            entry.ipufeed_stop_programs(b"interrupted (Ctrl-C)")


def ends_programs(handler: object) -> bool:
    """Whether a handler of SIGINT means that the programs should end.

    A program's own handler may only note that it was pressed, and wait for the end of the
    run: it says that it wants the run to end with the attribute `stops_programs`.
    """
    return handler is signal.default_int_handler or bool(
        getattr(handler, "stops_programs", False)
    )
