"""A program as XLA writes it: as text, and as a graph in Graphviz's language."""

from __future__ import annotations

import ctypes

from ipufeed import _native

TAKE_TEXT = ctypes.CFUNCTYPE(
    None, ctypes.c_int, ctypes.POINTER(ctypes.c_char), ctypes.c_int64
)


def hlo_text(program: bytes) -> str:
    """The text of a serialised HloModuleProto.

    Raises:
        ValueError: XLA does not take it for a program.
    """
    return _written(program, as_dot=False)


def hlo_dot(program: bytes) -> str:
    """Its graph, for Graphviz's `dot`; raises the same."""
    return _written(program, as_dot=True)


def _written(program: bytes, as_dot: bool) -> str:
    answers: list[tuple[int, str]] = []

    @TAKE_TEXT  # type: ignore[untyped-decorator]
    def take(ok: int, text: object, size: int) -> None:
        data: bytes = ctypes.string_at(text, size)  # type: ignore[arg-type]
        answers.append((ok, data.decode("utf-8", "replace")))

    _native.entry().ipufeed_hlo_text(program, len(program), int(as_dot), take)
    ok, text = answers[0]
    if not ok:
        raise ValueError(f"XLA cannot read the program: {text}")
    return text
