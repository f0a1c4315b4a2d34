"""Converts the text of `--set NAME=TEXT` to the type of the factory's parameter.

    annotated as bool        true, yes, on, 1 or false, no, off, 0, in any case
    annotated as int, float  a number of that kind
    annotated as str, Path   the text, as typed; a Path of it
    a Literal, an Enum       the choice with that text; the member of that name or value
    any of these or None     `none` as well
    anything else            a Python literal, else the text

Without an annotation the type of the default decides: a str takes the text, a bool the
words above, since the text `false` would be true; a Path and an Enum as if annotated.
"""

from __future__ import annotations

import ast
import enum
import inspect
import pathlib
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
    default, annotation = parameter.default, parameter.annotation
    unannotated = annotation is inspect.Parameter.empty
    if unannotated and isinstance(default, (pathlib.PurePath, enum.Enum)):
        annotation = type(default)
    kinds = _kinds_of(annotation)
    others = [kind for kind in kinds if kind is not type(None)]
    optional = len(others) < len(kinds)
    if optional and others and text.strip().lower() == "none":
        return None
    if others == [str] or isinstance(default, str):
        return text
    if others and all(kind in (bool, int, float) for kind in others):
        return _number_for(name, text, set(kinds))
    if len(others) == 1:
        if _is_a(others[0], pathlib.PurePath):
            return pathlib.Path(text)
        choices = _choices_of(others[0])
        if choices:
            return _choice_for(name, text, choices, optional)
    if unannotated and isinstance(default, bool) and not text.isdigit():
        return WORDS.get(text.strip().lower(), _literal(text))
    return _literal(text)


def _kinds_of(annotation: object) -> list[object]:
    """Returns the annotation's alternatives; a list, since an annotation can be a dict."""
    origin = typing.get_origin(annotation)
    if origin is typing.Annotated:
        return _kinds_of(typing.get_args(annotation)[0])
    if origin in (typing.Union, types.UnionType):
        return [
            kind for each in typing.get_args(annotation) for kind in _kinds_of(each)
        ]
    if isinstance(annotation, str):
        return [NAMES.get(annotation, annotation)]
    return [annotation]


def _is_a(kind: object, base: type) -> bool:
    return isinstance(kind, type) and issubclass(kind, base)


def _choices_of(kind: object) -> dict[str, object]:
    """Returns the values of a Literal or an Enum by their texts; empty for others."""
    if typing.get_origin(kind) is typing.Literal:
        return {str(value): value for value in typing.get_args(kind)}
    if isinstance(kind, enum.EnumMeta):
        return dict(kind.__members__)
    return {}


def _choice_for(
    name: str, text: str, choices: dict[str, object], optional: bool
) -> object:
    """Returns the choice of that text, or the Enum's member of that value."""
    if text in choices:
        return choices[text]
    for value in choices.values():
        if isinstance(value, enum.Enum) and text == str(value.value):
            return value
    wanted = [*choices, *(["none"] if optional else [])]
    raise DatasetFileError(f"`{name}` must be {' or '.join(wanted)}, got {text!r}.")


def _number_for(name: str, text: str, kinds: set[object]) -> float:
    """Returns the first of bool, int and float that is in `kinds` and fits."""
    typed = text.strip().lower()
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
