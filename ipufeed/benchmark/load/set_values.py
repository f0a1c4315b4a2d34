"""What the text of `--set NAME=TEXT` means to the parameter that it is for.

    annotated as bool        true, yes, on, 1 or false, no, off, 0, in any case
    annotated as int, float  a number of that kind
    any of these or None     `none` as well
    annotated as str         the text, as it was typed
    anything else            a Python literal, else the text

Without an annotation the default's type decides whether it is text, and for a bool that
the words above are meant: `false` as text would be true.
"""

from __future__ import annotations

import ast
import inspect
import types
import typing
from collections.abc import Callable
from typing import Any

from ipufeed.errors import DatasetFileError

WORDS = {
    **dict.fromkeys(("true", "yes", "on", "1"), True),
    **dict.fromkeys(("false", "no", "off", "0"), False),
}
# For annotations that are text which could not be evaluated.
NAMES: dict[str, Any] = {"bool": bool, "int": int, "float": float, "str": str}


def value_for(name: str, text: str, parameter: inspect.Parameter | None) -> Any:
    """The value of a text for a parameter, or for none that is known.

    Raises:
        DatasetFileError: The parameter's annotation asks for another type.
    """
    if parameter is None:
        return literal(text)
    kinds = kinds_of(parameter.annotation)
    if kinds == {str} or isinstance(parameter.default, str):
        return text
    if kinds and kinds <= {bool, int, float, type(None)}:
        return number_for(name, text, kinds)
    unannotated = parameter.annotation is inspect.Parameter.empty
    if unannotated and isinstance(parameter.default, bool) and not text.isdigit():
        return WORDS.get(text.strip().lower(), literal(text))
    return literal(text)


def kinds_of(annotation: Any) -> set[Any]:
    """The types that an annotation allows: itself, or the members of a union."""
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        return set(typing.get_args(annotation))
    if isinstance(annotation, str):
        return {NAMES.get(annotation, annotation)}
    return {annotation}


def number_for(name: str, text: str, kinds: set[Any]) -> Any:
    """A bool, an int, a float or None, whichever of `kinds` comes first and fits."""
    typed = text.strip().lower()
    if type(None) in kinds and typed == "none":
        return None
    if bool in kinds and typed in WORDS and not (typed.isdigit() and int in kinds):
        return WORDS[typed]
    readers: list[tuple[type, Callable[[str], Any]]] = [
        (int, int),
        (int, lambda text: int(text, 0)),  # 0x10
        (float, float),
    ]
    for kind, read in readers:
        if kind in kinds:
            try:
                return read(text)
            except ValueError:
                continue
    wanted = [
        word
        for kind, word in (
            (bool, "a bool (true or false, yes or no, on or off, 1 or 0)"),
            (int, "an int"),
            (float, "a float"),
            (type(None), "none"),
        )
        if kind in kinds
    ]
    got = literal(text)
    raise DatasetFileError(
        f"`{name}` must be {' or '.join(wanted)}, got {type(got).__name__} {got!r}."
    )


def literal(text: str) -> Any:
    """A Python literal, else the text itself."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text
