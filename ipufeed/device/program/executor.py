"""How the simulated device runs programs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from ipufeed import _native
from ipufeed.process_state import STATE

_EXECUTORS = ("xla", "tensorflow")
_executor = "xla"


def executor() -> str:
    """`xla`, or `tensorflow`: see set_executor."""
    return _executor


def set_executor(name: str) -> None:
    """Chooses what runs a program, for programs that are built from now on.

    Graphs without `ipu_compiler.compile` and functions without `jit_compile` are built when
    they first run: a session's by its first run with the same feeds and fetches.

    Args:
        name: `xla`, the default: the whole loop is one compiled program. `tensorflow`:
            TensorFlow's executor runs it op by op: convolutions are about twice as fast
            (oneDNN), small bodies ten times slower, and errors name the Python line. After
            an error inside a loop the variables are as before the program with `xla`, and
            keep the iterations that were done with `tensorflow`.

    Raises:
        ValueError: Another name.
    """
    global _executor
    if name not in _EXECUTORS:
        raise ValueError(
            f"The executor must be one of {', '.join(_EXECUTORS)}, got {name!r}."
        )
    _executor = name
    _native.entry().ipufeed_set_compiles_graphs(int(name == "xla"))


@STATE.part("executor")
def _reset_executor() -> None:
    set_executor(_EXECUTORS[0])


@contextlib.contextmanager
def executor_scope(name: str) -> Iterator[None]:
    """set_executor, and back at the end of the block."""
    before = _executor
    set_executor(name)
    try:
        yield
    finally:
        set_executor(before)
