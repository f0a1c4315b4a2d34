"""A program as XLA writes it: as text, and as a graph in Graphviz's language."""

from __future__ import annotations

import ctypes

from ipufeed import _native

TAKE_BYTES = ctypes.CFUNCTYPE(
    None, ctypes.c_int, ctypes.POINTER(ctypes.c_char), ctypes.c_int64
)


def bytes_of(function: str, *arguments: bytes | int) -> bytes:
    """Calls an entry point that passes its result, or an error, to a callback.

    Raises:
        ValueError: The entry point's error.
    """
    results: list[tuple[int, bytes]] = []

    @TAKE_BYTES  # type: ignore[untyped-decorator]
    def take(ok: int, data: object, size: int) -> None:
        results.append((ok, ctypes.string_at(data, size)))  # type: ignore[arg-type]

    getattr(_native.entry(), function)(*arguments, take)
    ((ok, data),) = results
    if not ok:
        raise ValueError(data.decode("utf-8", "replace"))
    return data


def hlo_text(program: bytes) -> str:
    """Returns the text of a serialised HloModuleProto.

    Raises:
        ValueError: XLA cannot read the program.
    """
    return _written(program, as_dot=False)


def hlo_dot(program: bytes) -> str:
    """Returns the graph for Graphviz's `dot`; raises what hlo_text() raises."""
    return _written(program, as_dot=True)


def _written(program: bytes, as_dot: bool) -> str:
    try:
        data = bytes_of("ipufeed_hlo_text", program, len(program), int(as_dot))
    except ValueError as error:
        raise ValueError(f"XLA cannot read the program: {error}") from None
    return data.decode("utf-8", "replace")
