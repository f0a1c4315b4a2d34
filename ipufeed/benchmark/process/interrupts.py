"""Ctrl-C and SIGTERM end a measurement without losing its result."""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import time
from types import FrameType

PATIENCE_S = 3.0
SIGNALLED = 128  # exit code of a signal: 128 + its number


class Interruption(KeyboardInterrupt):
    """A KeyboardInterrupt that CPython does not mistake for an uncaught one.

    If a KeyboardInterrupt of exactly that class leaves an exec() of source text, as
    namedtuple() and dataclass() use it, CPython later ends by SIGINT even if the exception
    was caught. TensorFlow's import runs many of these.
    """


class Interrupts:
    """Raises Interruption on the main thread at the first signal.

    A second signal within PATIENCE_S is ignored, so that pressing Ctrl-C twice does not
    lose the result; a later one ends the process at once.

    Attributes:
        code: The exit code, 128 + the signal's number as in a shell: 130 for Ctrl-C, 143
            for SIGTERM.
        held: Whether the first signal is recorded without raising, while the result is
            written.
    """

    def __init__(self) -> None:
        self.code = SIGNALLED + signal.SIGINT
        self.held = False
        self._owner = os.getpid()
        self._since: float | None = None

    def catch(self) -> None:
        """Installs the handlers; a signal that the parent process ignores stays ignored."""
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, self._on_signal)
        if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            signal.signal(signal.SIGTERM, self._on_signal)
        # Called last at the exit, since it is registered first. Python then restores the
        # default handlers, with which a signal would end the process with another code.
        atexit.register(self.ignore)

    def hold_errors_of_children(self) -> None:
        """Suppresses what a handler of the dataset's file for ended children raises.

        That of torch, installed by a DataLoader that the main thread has iterated, raises
        when a worker ends: then the result would be lost, also if Ctrl-C has ended the
        worker. The loader raises the same on the thread that iterates it.
        """
        handler = signal.getsignal(signal.SIGCHLD)
        if not callable(handler):
            return

        def call(number: int, frame: FrameType | None) -> None:
            with contextlib.suppress(Exception):
                handler(number, frame)

        signal.signal(signal.SIGCHLD, call)

    @property
    def arrived(self) -> bool:
        """Whether a signal arrived."""
        return self._since is not None

    def raise_again(self) -> None:
        """Raises Interruption if a signal arrived, even if other code swallowed it."""
        if self.arrived:
            raise Interruption

    def ignore(self) -> None:
        """Ignores further signals: the result is printed, the process about to end."""
        with contextlib.suppress(ValueError):  # of another thread that ends the process
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, signal.SIG_IGN)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if os.getpid() != self._owner:
            # A process that the dataset forked: the signal was sent to it alone.
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
            return
        now = time.monotonic()
        if self._since is None:
            self._since = now
            self.code = SIGNALLED + number
            if not self.held:
                raise Interruption
            return
        if now - self._since > PATIENCE_S:
            os._exit(self.code)
