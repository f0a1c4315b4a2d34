"""Converts the text of `--set NAME=TEXT` to the type of the factory's parameter.

    annotated as bool        true, yes, on, 1 or false, no, off, 0, in any case
    annotated as int, float  a number of that kind
    any of these or None     `none` as well
    annotated as str         the text, as typed
    anything else            a Python literal, else the text

Without an annotation the type of the default decides: a str takes the text, a bool the
words above, since the text `false` would be true.
"""

from __future__ import annotations

import ast
import inspect
import types
import typing
from collections.abc import Callable

from ipufeed.errors import DatasetFileError

WORDS = {
    **dict.fromkeys(("true", "yes", "on", "1"), True),
    **dict.fromkeys(("false", "no", "off", "0"), False),
}
# For annotations whose text could not be evaluated.
NAMES: dict[str, type] = {"bool": bool, "int": int, "float": float, "str": str}


def value_for(name: str, text: str, parameter: inspect.Parameter | None) -> object:
    """Returns the value of a text for a parameter; None for a parameter of **kwargs.

    Raises:
        DatasetFileError: The text is not of the annotated type.
    """
    if parameter is None:
        return _literal(text)
    kinds = _kinds_of(parameter.annotation)
    if kinds == {str} or isinstance(parameter.default, str):
        return text
    if kinds and kinds <= {bool, int, float, type(None)}:
        return _number_for(name, text, kinds)
    unannotated = parameter.annotation is inspect.Parameter.empty
    if unannotated and isinstance(parameter.default, bool) and not text.isdigit():
        return WORDS.get(text.strip().lower(), _literal(text))
    return _literal(text)


def _kinds_of(annotation: object) -> set[object]:
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        return set(typing.get_args(annotation))
    if isinstance(annotation, str):
        return {NAMES.get(annotation, annotation)}
    return {annotation}


def _number_for(name: str, text: str, kinds: set[object]) -> float | None:
    """Returns the first of None, bool, int and float that is in `kinds` and fits."""
    typed = text.strip().lower()
    if type(None) in kinds and typed == "none":
        return None
    if bool in kinds and typed in WORDS and not (typed.isdigit() and int in kinds):
        return WORDS[typed]
    readers: list[tuple[type, Callable[[str], float]]] = [
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
    got = _literal(text)
    raise DatasetFileError(
        f"`{name}` must be {' or '.join(wanted)}, got {type(got).__name__} {got!r}."
    )


def _literal(text: str) -> object:
    try:
        found: object = ast.literal_eval(text)
        return found
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text
