"""no_recompile(): a block in which compiling a program is an error.

    program --in memory, on disk?--> runs
       |  else
    check() --within a block--> RecompileError, with the cause
       |  else
    compile

Threads: a block holds for the whole process, as programs are compiled on TensorFlow's
threads.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from ipufeed.errors import RecompileError
from ipufeed.executable.compile.history import History, cause
from ipufeed.executable.program.program import Program
from ipufeed.process_state import STATE

NEW = "this process has not compiled it before: run it once before the block"

_lock = threading.Lock()
# The errors raised within each open block, the outermost first; the lock guards them.
_blocks: list[list[RecompileError]] = []


@STATE.part("blocks")
def _leave_blocks() -> None:
    with _lock:
        _blocks.clear()


def check(program: Program, history: History) -> None:
    """Refuses to compile a program within a no_recompile() block.

    Raises:
        RecompileError: A block is open.
    """
    with _lock:
        if not _blocks:
            return
    last = history.last(program)
    why = NEW if last is None else cause(last, program)
    error = RecompileError(f"{_refusal(program)}: {why}.")
    with _lock:
        for refused in _blocks:
            refused.append(error)
    raise error


def _refusal(program: Program) -> str:
    """Returns the start of an error, which the key makes unique."""
    return (
        f"Program {program.name} ({program.key.hex}) would have to be compiled within "
        "no_recompile()"
    )


@contextmanager
def no_recompile() -> Iterator[None]:
    """Makes each compilation within the block an error that has the causes.

        train(steps=1)                      # compiles
        with ipufeed.no_recompile():
            train(steps=1000)               # is measured

    Programs that are in memory or in the executable cache run, and so do single ops.
    Blocks may be nested.

    Raises:
        RecompileError: In place of TensorFlow's error, which is its `__cause__`. Raised
            at the end of the block if the error was caught in it, or raised on another
            thread.

    Threads: the block holds for the whole process.
    """
    refused: list[RecompileError] = []
    with _lock:
        _blocks.append(refused)
    try:
        yield
    except RecompileError:
        raise
    except Exception as error:
        mine = _refusal_in(error, refused)
        if mine is None:
            raise
        raise _to_raise(mine) from error
    else:
        with _lock:
            lost = refused[0] if refused else None
        if lost is not None:
            raise _to_raise(lost)
    finally:
        with _lock:
            # By identity: two blocks that have refused nothing are equal.
            _blocks[:] = [each for each in _blocks if each is not refused]


def _refusal_in(
    error: Exception, refused: list[RecompileError]
) -> RecompileError | None:
    """Returns the refusal whose text TensorFlow's error contains, if any."""
    text = str(error)
    with _lock:
        return next((each for each in refused if _head(each) in text), None)


def _head(error: RecompileError) -> str:
    """Returns the start of an error's text, which TensorFlow does not truncate."""
    return str(error).partition(": ")[0]


def _to_raise(error: RecompileError) -> RecompileError:
    """Returns a refusal to raise, which the blocks around then need not raise."""
    with _lock:
        for refused in _blocks:
            refused[:] = [each for each in refused if each is not error]
    # Its traceback lies within this package, which does not help the user.
    return error.with_traceback(None)
