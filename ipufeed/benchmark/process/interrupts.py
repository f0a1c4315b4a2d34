"""Ctrl-C and SIGTERM end a measurement; neither loses its result."""

from __future__ import annotations

import os
import signal
import time
from types import FrameType

PATIENCE_S = 3.0


class Interruption(KeyboardInterrupt):
    """A KeyboardInterrupt that CPython does not take for an uncaught one.

    One of exactly that class which has left the exec() of a text, as in the body of
    namedtuple() or dataclass(), makes the interpreter end by SIGINT, whatever became of
    it: TensorFlow's import is full of these.
    """


class Interrupts:
    """Turns the first signal into an Interruption on the main thread.

    A user that presses Ctrl-C twice wants out, not to lose what was measured: that takes
    a moment, and a second signal changes nothing. After PATIENCE_S another one ends the
    process where it stands.

    Attributes:
        code: The exit code that the signal asks for, 128 + its number as in a shell:
            130 for Ctrl-C, 143 for SIGTERM.
        held: Whether the first signal is only noted: what is left to do takes a moment.
    """

    def __init__(self) -> None:
        self.code = 128 + signal.SIGINT
        self.held = False
        self._owner = os.getpid()
        self._since: float | None = None

    def catch(self) -> None:
        """From now on; a signal that the parent process ignores stays ignored."""
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, self._on_signal)
        if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            signal.signal(signal.SIGTERM, self._on_signal)

    @property
    def came(self) -> bool:
        """Whether there was a signal."""
        return self._since is not None

    def raise_again(self) -> None:
        """If there was a signal: what ran meanwhile has made something else of it."""
        if self.came:
            raise Interruption

    def ignore(self) -> None:
        """All is printed, and the process about to end."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if os.getpid() != self._owner:
            # A process that the dataset has forked: the signal means that one alone.
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
            return
        now = time.monotonic()
        if self._since is None:
            self._since = now
            self.code = 128 + number
            if not self.held:
                raise Interruption
            return
        if now - self._since > PATIENCE_S:
            os._exit(self.code)
