"""Ends the command's process, whatever a dataset or a loader has left running.

leave(code)   atexit functions, other threads, child processes: waited for
after LEAVE_GRACE_S   the process ends without threads, and ends its children
after EXIT_GRACE_S    it ends without an atexit function that still runs
a signal later than PATIENCE_S (interrupts.py)   it ends at once
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

from ipufeed.benchmark.process.interrupts import PATIENCE_S, SIGNALLED
from ipufeed.benchmark.process.streams import print_message

if TYPE_CHECKING:
    from multiprocessing.process import BaseProcess

# For a feeder that is still producing an element when the measurement is over.
FEEDER_GRACE_NS = 2_000_000_000
# For the loader's threads and processes that Python waits for at its exit.
LEAVE_GRACE_S = 5.0
# For the functions that Python calls at its exit; that of multiprocessing waits for pools.
EXIT_GRACE_S = 30.0


def leave(code: int) -> NoReturn:
    """Ends the process without waiting for Python code that runs inside a dataset.

    After Ctrl-C a function of the dataset may still be running, and an ordinary exit would
    finalise the interpreter under it. So only the rest of an exit is done: the atexit
    functions that the dataset file registered, and flushing.
    """
    _end_at_a_late_signal(code)
    _limit_children()
    for timer in (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF):
        # Python's exit removes the handlers first: then a timer would end the process.
        signal.setitimer(timer, 0)
    if "tensorflow" in sys.modules:
        from ipufeed import _native

        grace_ns = 0 if code > SIGNALLED else FEEDER_GRACE_NS
        if _native.is_loaded() and _native.entry().ipufeed_stop_all(grace_ns):
            _end_after_exit_functions(code)
    threading.Thread(target=_end_without, args=(code,), daemon=True).start()
    sys.exit(code)


def _end_at_a_late_signal(code: int) -> None:
    """Lets Ctrl-C and SIGTERM end an exit that takes longer than PATIENCE_S."""
    begun = time.monotonic()

    def end(number: int, frame: FrameType | None) -> None:
        if time.monotonic() - begun > PATIENCE_S:
            _kill_children()
            os._exit(code)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, end)


def _end_without(code: int) -> None:
    """Ends the process if Python's exit, on the main thread, does not.

    The exit joins the other threads, then calls the functions that are registered with
    atexit. Idle threads of executors end when it begins, before their names are read here.
    """
    time.sleep(LEAVE_GRACE_S)
    main = threading.main_thread()
    executors = sys.modules.get("concurrent.futures.thread")
    joined = getattr(executors, "_threads_queues", {})  # daemons or not
    names = [
        each.name
        for each in threading.enumerate()
        if each is not main and (not each.daemon or each in joined)
    ]
    if not names:
        _end_in(EXIT_GRACE_S - LEAVE_GRACE_S, code, main.ident or 0)
    print_message(
        f"the result is complete; the process ends without {len(names)} thread(s) that "
        f"the loader has started and not ended: {', '.join(names)}. The loader should end "
        "them."
    )
    _end_after_exit_functions(code)


def _end_after_exit_functions(code: int) -> NoReturn:
    """Calls the functions that are registered with atexit, and ends the process."""
    arguments = (EXIT_GRACE_S, code, threading.get_ident())
    threading.Thread(target=_end_in, args=arguments, daemon=True).start()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _end_in(seconds: float, code: int, thread: int) -> NoReturn:
    """Ends the process in some seconds, unless the functions of its exit return before.

    Args:
        seconds: How long to wait.
        code: The exit code.
        thread: The number of the thread that calls the functions.
    """
    time.sleep(seconds)
    place = sys._current_frames().get(thread, sys._getframe()).f_code
    print_message(
        f"the result is complete; the process ends without a function of its exit that "
        f"has taken {EXIT_GRACE_S:g} s: it waits in {place.co_name} of "
        f"{place.co_filename}. The loader should close and join its pools of processes."
    )
    _kill_children()
    os._exit(code)


def _kill_children() -> None:
    """Ends the processes of multiprocessing, which would outlive this one."""
    multiprocessing = sys.modules.get("multiprocessing")
    for child in multiprocessing.active_children() if multiprocessing else ():
        child.kill()


def _limit_children() -> None:
    """Names the processes of multiprocessing that Python waits for, and limits the wait.

    A loader may leave some that never end; those that are daemons are ended by Python.
    """
    multiprocessing = sys.modules.get("multiprocessing")
    if multiprocessing is None:
        return
    children = [each for each in multiprocessing.active_children() if not each.daemon]
    if children:
        print_message(
            f"the result is complete; {len(children)} process(es) that the loader has "
            f"started and not ended ({', '.join(str(each.pid) for each in children)}) "
            f"are ended in {LEAVE_GRACE_S:g} s. The loader should end them, or start "
            "them with daemon=True."
        )
        threading.Thread(target=_end_children, args=(children,), daemon=True).start()


def _end_children(children: Sequence[BaseProcess]) -> None:
    """Ends processes after LEAVE_GRACE_S, while the main thread waits for them."""
    time.sleep(LEAVE_GRACE_S)
    for end in ("terminate", "kill"):  # nothing happens to one that has ended
        for child in children:
            getattr(child, end)()
        time.sleep(1)
