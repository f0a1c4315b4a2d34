"""A test that is tried again runs alone among the processes of its run.

    test:        share --run--> give back
    tried again: wait until nobody has a share, and let nobody have one --run--> give back

Times that a test measures are disturbed by the tests of the other processes most of all.
Two locks on files: who waits for all of `work` holds `door`, so that nobody enters
meanwhile. The kernel gives back the locks of a process that dies.
"""

import contextlib
import fcntl
import os
import time

PATIENCE_S = 60.0  # for tests of the others; then it runs beside them
LOOK_S = 0.05


class Shares:
    """The locks of one process, in a folder that the processes of its run share."""

    def __init__(self, folder):
        self._door = os.open(folder / "alone.door", os.O_CREAT | os.O_RDWR)
        self._work = os.open(folder / "alone.work", os.O_CREAT | os.O_RDWR)

    @contextlib.contextmanager
    def of_one(self):
        """Waits while another process has all."""
        fcntl.flock(self._door, fcntl.LOCK_SH)
        fcntl.flock(self._work, fcntl.LOCK_SH)
        fcntl.flock(self._door, fcntl.LOCK_UN)
        try:
            yield
        finally:
            fcntl.flock(self._work, fcntl.LOCK_UN)

    @contextlib.contextmanager
    def of_all(self):
        """Waits for the shares of the others; after PATIENCE_S it does without."""
        deadline = time.monotonic() + PATIENCE_S
        try:
            for file in (self._door, self._work):
                while not has_all(file) and time.monotonic() < deadline:
                    time.sleep(LOOK_S)
            yield
        finally:
            for file in (self._work, self._door):
                fcntl.flock(file, fcntl.LOCK_UN)


def has_all(file):
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
