"""Checks of the arguments of users' operations."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import tensorflow as tf

from ipufeed.checks import as_int
from ipufeed.tf_types import DType, Shape, Tensor, TensorLike

_OUTS = '{"output_types": [...], "output_shapes": [...]}'


def check_texts(**texts: object) -> None:
    """Raises TypeError or ValueError unless all are str without a NUL character."""
    for name, value in texts.items():
        if not isinstance(value, str):
            raise TypeError(
                f"`{name}` must be a str, got {type(value).__name__} {value!r}."
            )
        if "\0" in value:
            raise ValueError(
                f"`{name}` must not contain a NUL character, got {value!r}."
            )


def check_attributes(attributes: object, gradient_attributes: object) -> None:
    """Raises ValueError, as Graphcore's, unless both are str or None."""
    for which, value in (
        ("attributes", attributes),
        ("gradient_attributes", gradient_attributes),
    ):
        if value is None:
            continue
        if not isinstance(value, str):
            raise ValueError(
                f"Expected {which} to be a 'str' type, but was {type(value)}."
            )
        check_texts(**{which: value})


def as_inputs(inputs: Iterable[TensorLike]) -> list[Tensor]:
    """Converts the inputs to tensors of numbers or bools.

    Raises:
        TypeError: They are not in a list or tuple, or of another dtype.
    """
    if not isinstance(inputs, (list, tuple)):
        raise TypeError(
            f"`inputs` must be a list of tensors, got {type(inputs).__name__}: put a "
            "single tensor into a list."
        )
    tensors = [tf.convert_to_tensor(each) for each in inputs]
    for number, each in enumerate(tensors):
        _check_dtype(f"inputs[{number}]", each.dtype)
    return tensors


def as_numbers(inputs: list[Tensor], chosen: Iterable[int] | None) -> list[int]:
    """Returns the numbers of the inputs that have a gradient. None: all.

    Raises:
        TypeError: They are not ints in a list.
        ValueError: An input is not defined, or is given twice.
    """
    if chosen is None:
        return list(range(len(inputs)))
    name = "inputs_with_gradients"
    if not isinstance(chosen, (list, tuple, range)):
        raise TypeError(
            f"`{name}` must be a list of the inputs' numbers, or None, got "
            f"{type(chosen).__name__} {chosen!r}."
        )
    numbers = [as_int(f"{name}[{place}]", each) for place, each in enumerate(chosen)]
    if len(set(numbers)) < len(numbers) or not set(numbers) <= set(range(len(inputs))):
        raise ValueError(
            f"`{name}` must have different numbers from 0 to {len(inputs) - 1}, of the "
            f"{len(inputs)} inputs, got {numbers}."
        )
    return numbers


def as_signature(
    outs: dict[str, Any] | None, *, defined: bool
) -> tuple[list[DType], list[Shape]]:
    """Returns the dtypes and the shapes of the outputs.

    Args:
        outs: As the operations take it.
        defined: Whether the shapes must be fully defined.

    Raises:
        TypeError: It is not a dict of lists, or an element is not a dtype or a shape.
        ValueError: It lacks a list, or has lists of different lengths, or a shape is not
            fully defined.
    """
    if outs is None:
        return [], []
    if not isinstance(outs, dict):
        raise TypeError(
            f"`outs` must be {_OUTS} or None, got {type(outs).__name__} {outs!r}."
        )
    lists = []
    for key in ("output_types", "output_shapes"):
        if key not in outs:
            raise ValueError(f"`outs` must be {_OUTS}, got no {key!r}: {outs!r}.")
        if not isinstance(outs[key], (list, tuple)):
            raise TypeError(
                f"outs[{key!r}] must be a list with an element for each output, got "
                f"{type(outs[key]).__name__} {outs[key]!r}."
            )
        lists.append(outs[key])
    types = [_as_dtype(number, each) for number, each in enumerate(lists[0])]
    shapes = [_as_shape(number, each, defined) for number, each in enumerate(lists[1])]
    if len(types) != len(shapes):
        raise ValueError(
            "`outs` must have as many output_shapes as output_types, got "
            f"{len(shapes)} and {len(types)}."
        )
    return types, shapes


def _as_dtype(number: int, dtype: DType) -> DType:
    name = f"outs['output_types'][{number}]"
    try:
        found = tf.as_dtype(dtype)
    except TypeError:
        raise TypeError(
            f"{name} must be a dtype, got {type(dtype).__name__} {dtype!r}."
        ) from None
    _check_dtype(name, found)
    return found


def _check_dtype(name: str, dtype: DType) -> None:
    if not (dtype.is_floating or dtype.is_integer or dtype.is_complex or dtype.is_bool):
        raise TypeError(f"{name} must be of numbers or bools, got {dtype.name}.")


def _as_shape(number: int, shape: Shape, defined: bool) -> Shape:
    name = f"outs['output_shapes'][{number}]"
    try:
        found = tf.TensorShape(shape)
    except (TypeError, ValueError):
        raise TypeError(
            f"{name} must be a shape, got {type(shape).__name__} {shape!r}."
        ) from None
    if defined and not found.is_fully_defined():
        raise ValueError(
            f"{name} must be fully defined, since the library's function gets allocated "
            f"outputs, got {found}."
        )
    return found
