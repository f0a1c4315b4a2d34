"""TensorFlow code that replaces operations of users' Poplar libraries.

    # references.py, given to `python -m ipufeed.run --references references.py program.py`
    from ipufeed.ops import references

    def add(inputs, attributes, outs):
        return [inputs[0] + inputs[1]]

    references.register("libadd.so", "Build", forward=add)

A library of `precompiled_user_op` builds graphs of Poplar, which do not run on a simulated
IPU. It is never opened: its file name and the operation's name select the reference.

Threads: any.
"""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass

from ipufeed.process_state import STATE
from ipufeed.tf_types import NestFunction

ANY = "*"


@dataclass(frozen=True)
class Reference:
    """The replacement of an operation of a library."""

    forward: NestFunction
    gradient: NestFunction | None


_lock = threading.Lock()
_references: dict[tuple[str, str], Reference] = {}


@STATE.part("references")
def _forget() -> None:
    with _lock:
        _references.clear()


def register(
    library: str,
    op_name: str = "Build",
    *,
    forward: NestFunction,
    gradient: NestFunction | None = None,
) -> None:
    """Replaces an operation by TensorFlow code; the last registration counts.

    Args:
        library: The library's file name, or a path to it, or "*" for all libraries.
        op_name: The operation's name in it. Default: "Build".
        forward: `f(inputs, attributes, outs)` -> a list of tensors. It is compiled like
            other code.
        gradient: `g(gradients, outputs, inputs, attributes, index)` -> a list with a
            gradient for each input; with separate_gradients it is called for each input,
            whose number is `index` (else None), and returns its gradient in a list.
            Default: the gradient of `forward`'s operations.

    Raises:
        TypeError: `forward` or `gradient` cannot be called.
    """
    for name, function in (("forward", forward), ("gradient", gradient)):
        if not callable(function) and not (name == "gradient" and function is None):
            raise TypeError(
                f"`{name}` must be a function, got {type(function).__name__}."
            )
    with _lock:
        _references[_file_name(library), op_name] = Reference(forward, gradient)


def unregister(library: str, op_name: str = "Build") -> None:
    """Removes a reference, if it exists."""
    with _lock:
        _references.pop((_file_name(library), op_name), None)


def find(library: str, op_name: str) -> Reference | None:
    """Returns the reference of an operation: the library's, else that of "*"."""
    with _lock:
        own = _references.get((_file_name(library), op_name))
        return own or _references.get((ANY, op_name))


def _file_name(library: str) -> str:
    return os.path.basename(os.fspath(library))
