"""Recompilations are noticed: a warning, an error in `no_recompile`, both with the cause.

Threads: `no_recompile` holds for the whole process while its block runs: programs are
compiled on TensorFlow's threads.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from ipufeed.device.log import LOGGER
from ipufeed.errors import RecompileError
from ipufeed.executable.program import Program

# The first compilation of a program is none; with the third the pattern is clear.
WARN_AT = 3


class History:
    """The programs that this process has compiled, or read from the cache. Any thread.

    The text of programs is kept up to `MAX_BYTES`; of older ones only the number remains.
    """

    MAX_BYTES = 256 << 20

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._programs: list[Program] = []
        self._compiles: dict[str, int] = {}

    def add(self, program: Program, *, compiled: bool) -> None:
        """Remembers a program, and warns when it has been compiled too often."""
        with self._lock:
            last = self._last(program.name)
            self._programs.append(program)
            total = sum(len(each.hlo) for each in self._programs)
            while total > self.MAX_BYTES and len(self._programs) > 1:
                total -= len(self._programs.pop(0).hlo)
            if not compiled:
                return
            count = self._compiles.get(program.name, 0)
            self._compiles[program.name] = count + 1
        if (
            count >= WARN_AT
            and last is not None
            and is_power_of_two(count - WARN_AT + 1)
        ):
            LOGGER.warning(
                "Program %s has been compiled %d times by this process. The last time: "
                "%s. See `python -m ipufeed.executable explain`, and the page "
                '"Compile once" of the documentation.',
                program.name,
                count + 1,
                cause(last, program),
            )

    def last(self, name: str) -> Program | None:
        """The program of that name that came last, or None."""
        with self._lock:
            return self._last(name)

    def _last(self, name: str) -> Program | None:
        return next((p for p in reversed(self._programs) if p.name == name), None)

    def programs(self) -> list[Program]:
        """All that are remembered, the oldest first."""
        with self._lock:
            return list(self._programs)


def is_power_of_two(number: int) -> bool:
    """1, 2, 4, ...: warnings become rarer."""
    return number > 0 and number & (number - 1) == 0


def cause(before: Program, after: Program) -> str:
    """Why `after` is not `before`, in a sentence."""
    from ipufeed.executable.explain import explain_programs

    return "; ".join(map(str, explain_programs(before, after)[:3]))


_guards = 0
_refused: RecompileError | None = None
_lock = threading.Lock()


def check(program: Program, history: History) -> None:
    """Refuses to compile a program while `no_recompile` is on.

    Raises:
        RecompileError: It is.
    """
    global _refused
    with _lock:
        if not _guards:
            return
    last = history.last(program.name)
    if last is None:
        why = "this process has not compiled it before: run it once before the block"
    else:
        why = cause(last, program)
    error = RecompileError(
        f"Program {program.name} would have to be compiled within no_recompile(): {why}."
    )
    with _lock:
        _refused = error
    raise error


@contextmanager
def no_recompile() -> Iterator[None]:
    """Within the block no program is compiled: what would be raises, and says why.

        train(steps=1)                      # compiles
        with ipufeed.no_recompile():
            train(steps=1000)               # is measured

    A program that this process or the executable cache has is none.

    Raises:
        RecompileError: From the block, in place of TensorFlow's error.
    """
    global _guards, _refused
    with _lock:
        _guards += 1
    try:
        yield
    except Exception as error:
        with _lock:
            refused = _refused
        if refused is not None and str(refused) in str(error):
            raise refused from error
        raise
    finally:
        with _lock:
            _guards -= 1
            if not _guards:
                _refused = None
