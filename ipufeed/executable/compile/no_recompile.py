"""no_recompile(): a block in which no program is compiled.

    program --in memory, on disk?--> runs
       |  not
    check() --a block is open--> RecompileError, with the cause
       |  none
    compile

Threads: it holds for the whole process while its block runs, as programs are compiled on
TensorFlow's threads.
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
# What the blocks that are open have refused, the outermost first; the lock guards it.
_blocks: list[list[RecompileError]] = []


@STATE.part("blocks")
def _leave_blocks() -> None:
    with _lock:
        _blocks.clear()


def check(program: Program, history: History) -> None:
    """Refuses to compile a program while `no_recompile` is on.

    Raises:
        RecompileError: It is.
    """
    with _lock:
        if not _blocks:
            return
    last = history.last(program)
    why = NEW if last is None else cause(last, program)
    error = RecompileError(f"{refusal(program)}: {why}.")
    with _lock:
        for refused in _blocks:
            refused.append(error)
    raise error


def refusal(program: Program) -> str:
    """What an error begins with; the key distinguishes it from other programs' errors."""
    return (
        f"Program {program.name} ({program.key.hex}) would have to be compiled within "
        "no_recompile()"
    )


@contextmanager
def no_recompile() -> Iterator[None]:
    """Within the block no program is compiled: what would be raises, with the causes.

        train(steps=1)                      # compiles
        with ipufeed.no_recompile():
            train(steps=1000)               # is measured

    What this process has compiled, or the executable cache has, runs. So do ops that
    belong to no program. Blocks may be in each other.

    Raises:
        RecompileError: In place of TensorFlow's error, which is its `__cause__`. At the
            end of the block also for a program whose error did not come out of it: of
            another thread, or caught on the way.

    Threads: it holds for all of the process, from wherever it is opened.
    """
    refused: list[RecompileError] = []
    with _lock:
        _blocks.append(refused)
    try:
        yield
    except RecompileError:
        raise
    except Exception as error:
        mine = _of(error, refused)
        if mine is None:
            raise
        raise _delivered(mine) from error
    else:
        with _lock:
            lost = refused[0] if refused else None
        if lost is not None:
            raise _delivered(lost)
    finally:
        with _lock:
            # By identity: two blocks that have refused nothing are equal.
            _blocks[:] = [each for each in _blocks if each is not refused]


def _of(error: Exception, refused: list[RecompileError]) -> RecompileError | None:
    """The refusal that TensorFlow's error passes on, with text of its own around it."""
    text = str(error)
    with _lock:
        return next((each for each in refused if _head(each) in text), None)


def _head(error: RecompileError) -> str:
    """What TensorFlow keeps of a text in any case: it cuts long ones off."""
    return str(error).partition(": ")[0]


def _delivered(error: RecompileError) -> RecompileError:
    """A refusal that is raised; the blocks around need not raise it again."""
    with _lock:
        for refused in _blocks:
            refused[:] = [each for each in refused if each is not error]
    # Where it was raised first is within this package, and no help to a reader.
    return error.with_traceback(None)
