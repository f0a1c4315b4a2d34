"""The executor of the simulated device's programs: XLA's compiler, or TensorFlow's."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from ipufeed import _native
from ipufeed.process_state import STATE

_EXECUTORS = ("xla", "tensorflow")
_executor = "xla"


def executor() -> str:
    """Returns `xla` or `tensorflow`: see set_executor."""
    return _executor


def set_executor(name: str) -> None:
    """Chooses the executor of the programs that are built after the call.

    Graphs without `ipu_compiler.compile` and functions without `jit_compile` are built when
    they first run: a session's by its first run with the same feeds and fetches.

    Args:
        name: `xla`, the default: the whole loop is one compiled program. `tensorflow`:
            TensorFlow's executor runs it op by op: convolutions are about twice as fast
            (oneDNN), small bodies ten times slower, and errors name the Python line. After
            an error inside a loop, variables have their values from before the program
            with `xla`, and those of the last iteration with `tensorflow`.

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
    """Sets the executor within this context."""
    before = _executor
    set_executor(name)
    try:
        yield
    finally:
        set_executor(before)
