"""Checks of public arguments, whose errors name the argument, the rule and the value.

Imports nothing slow: commands check their options with it before TensorFlow is imported.
"""

from __future__ import annotations

import enum
import functools
import inspect
import math
import numbers
import operator
import os
import reprlib
from collections.abc import Callable
from typing import Any, SupportsIndex, TypeGuard, TypeVar, cast

Function = TypeVar("Function", bound=Callable[..., Any])
Member = TypeVar("Member", bound=enum.Enum)

MOST_DIMENSIONS = 254  # of a tensor in TensorFlow


def is_flag(value: object) -> bool:
    """Whether a value is a Python or NumPy bool; 0 and 1 are not."""
    return isinstance(value, bool) or type(value).__name__ in ("bool", "bool_")


def check_flag(name: str, value: object, or_none: bool = False) -> None:
    """Raises TypeError unless an argument is a bool; or None, with `or_none`."""
    if is_flag(value) or (or_none and value is None):
        return
    raise TypeError(
        f"{name} must be a bool{' or None' * or_none}, got {type(value).__name__} "
        f"{value!r}."
    )


def check_flags(**flags: object) -> None:
    """Raises TypeError unless all arguments are bools."""
    for name, value in flags.items():
        check_flag(name, value)


def flags_checked(function: Function) -> Function:
    """Decorates a function: raises TypeError for a bool argument that is not a bool.

    Checks the arguments annotated as `bool` or `bool | None`, before the function runs.
    """
    code = cast(Any, function).__code__
    flags = [
        (position, name, "None" in annotation)
        for position, name in enumerate(code.co_varnames)
        for annotation in [str(function.__annotations__.get(name))]
        if annotation in ("bool", "bool | None")
    ]

    @functools.wraps(function)
    def checked(*arguments: Any, **keywords: Any) -> Any:
        for position, name, or_none in flags:
            if name in keywords:
                check_flag(name, keywords[name], or_none)
            elif position < min(len(arguments), code.co_argcount):
                check_flag(name, arguments[position], or_none)
        return function(*arguments, **keywords)

    return cast(Function, checked)


def is_int(value: object) -> TypeGuard[int]:
    """Whether as_int() accepts a value: a Python or NumPy integer; a bool is not."""
    try:
        as_int("", value)
    except TypeError:
        return False
    return True


def as_int(name: str, value: object, or_else: str = "") -> int:
    """Returns a Python or NumPy integer as an int.

    Args:
        name: The argument's name, for the error.
        value: The argument.
        or_else: What else the argument may be, for the error: " or None".

    Raises:
        TypeError: The value is not an integer, or is a bool: True is not a count of 1.
    """
    if not isinstance(value, bool):
        try:
            return operator.index(cast(SupportsIndex, value))
        except (AttributeError, TypeError):  # the first for a tensor of text
            pass
    raise TypeError(
        f"`{name}` must be an int{or_else}, got {type(value).__name__} {value!r}."
    )


def as_count(name: str, value: object, least: int = 1) -> int:
    """Returns an integer of at least `least` as an int.

    Raises:
        TypeError: See as_int.
        ValueError: It is less.
    """
    count = as_int(name, value)
    if count < least:
        raise ValueError(f"`{name}` must be at least {least}, got {count}.")
    return count


def check_function(name: str, value: object) -> None:
    """Raises TypeError unless an argument can be called."""
    if not callable(value):
        raise TypeError(
            f"`{name}` must be a function, got {type(value).__name__} {value!r}."
        )


def own_signature(function: Callable[..., object]) -> inspect.Signature | None:
    """Returns what a function takes; None if that is not known, as of some in C.

    It is not that of a function which this one wraps: decorators may add arguments.
    """
    try:
        return inspect.signature(function, follow_wrapped=False)
    except (TypeError, ValueError):
        return None


def check_takes(name: str, function: Callable[..., object], inputs: list[Any]) -> None:
    """Raises TypeError unless a function takes each of `inputs` as an argument."""
    signature = own_signature(function)
    if signature is None:
        return
    try:
        signature.bind(*inputs)
    except TypeError as error:
        raise TypeError(
            f"`{name}` must take one argument for each of `inputs`, which are "
            f"{len(inputs)}: {error}."
        ) from None


def as_path(name: str, value: object) -> str:
    """Returns the path of a file or folder as a str.

    Raises:
        TypeError: It is not a path.
    """
    if not isinstance(value, (str, os.PathLike)):
        raise TypeError(
            f"`{name}` must be a path, got {type(value).__name__} {value!r}."
        )
    return os.fspath(value)


def check_text(name: str, value: object, or_else: str = "") -> None:
    """Raises TypeError unless an argument is a str; or None, with `or_else`."""
    if not isinstance(value, str) and (value is not None or not or_else):
        raise TypeError(
            f"`{name}` must be a str{or_else}, got {type(value).__name__} {value!r}."
        )


def check_name(value: object) -> None:
    """Raises TypeError unless the argument `name` is a str or None."""
    check_text("name", value, " or None")


def as_member(kinds: type[Member], value: object) -> Member:
    """Returns a member of an enumeration, given as it is or by its name in any case.

    Raises:
        ValueError: It is neither.
    """
    if isinstance(value, kinds):
        return value
    if isinstance(value, str) and value.upper() in kinds.__members__:
        return kinds[value.upper()]
    # Graphcore's text.
    raise ValueError(
        f"Cannot parse {value} as one of {kinds.__name__}. Valid values are: "
        f"{', '.join(kinds.__members__)}."
    )


def as_number(name: str, value: object) -> float:
    """Returns a number as a float; NaN and infinity are numbers.

    Raises:
        TypeError: The value is not a number, or is a bool.
    """
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(
            f"`{name}` must be a number, got {type(value).__name__} {value!r}."
        )
    return float(value)


def as_epsilon(value: object) -> float:
    """Returns the argument `epsilon` of a normalisation as a float.

    Raises:
        TypeError: It is not a number.
        ValueError: It is negative, infinite or NaN: so would be the results.
    """
    epsilon = as_number("epsilon", value)
    if not 0 <= epsilon < math.inf:
        raise ValueError(f"`epsilon` must be finite and at least 0, got {epsilon}.")
    return epsilon


def dtype_or_none(value: object) -> Any:
    """Returns a tf.DType for one, a dtype or type of NumPy, or a name; None for others.

    `tf.as_dtype` takes more: True is its float32, and an array gives its own dtype.
    """
    import numpy as np
    import tensorflow as tf

    if not isinstance(value, tf.DType | np.dtype | type | str):
        return None
    try:
        return tf.as_dtype(value)
    except TypeError:
        return None


def as_partials_dtype(value: object, or_else: str = "") -> Any:
    """Returns the dtype of partial sums; raises TypeError or ValueError for others."""
    import tensorflow as tf

    name = "`partials_dtype` must be"
    dtype = dtype_or_none(value)
    if dtype is None:
        raise TypeError(
            f"{name} a dtype such as tf.float32{or_else}, got "
            f"{type(value).__name__} {value!r}."
        )
    if dtype not in (tf.float16, tf.float32):
        raise ValueError(f"{name} tf.float16 or tf.float32, got {dtype!r}.")
    return dtype


def as_tensor(name: str, value: object, dtype: Any = None) -> Any:
    """Converts an argument to a tensor.

    Args:
        name: The argument's name, for the error.
        value: The argument.
        dtype: A tf.DType. Default: the value's own.

    Raises:
        TypeError: TensorFlow cannot convert it; or ValueError, where it raises that.
    """
    import tensorflow as tf

    try:
        return tf.convert_to_tensor(value, dtype)
    except (TypeError, ValueError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(
            f"`{name}` must be a tensor, or a value that converts to one, got "
            f"{type(value).__name__} {reprlib.repr(value)}: {error}"
        ) from error


def as_shape(must_be: str, value: object) -> Any:
    """Converts an argument to a tf.TensorShape.

    Args:
        must_be: The beginning of the error: what must be what.
        value: The argument.

    Raises:
        TypeError: TensorFlow cannot convert it; or ValueError, where it raises that.
    """
    import tensorflow as tf

    try:
        return tf.TensorShape(value)
    except (TypeError, ValueError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"{must_be}, got {type(value).__name__} {value!r}.") from error


def as_numbers(name: str, value: object) -> Any:
    """Converts an argument to a tensor of numbers or bools.

    Raises:
        TypeError: It is of text, which an IPU does not compute with.
        ValueError: See as_tensor.
    """
    import tensorflow as tf

    tensor = as_tensor(name, value)
    if tensor.dtype in (tf.string, tf.resource, tf.variant):
        raise TypeError(
            f"`{name}` must be of numbers or bools, got a tensor of {tensor.dtype.name}, "
            "of which an IPU has none: leave it out, or give a number for it."
        )
    return tensor


def numbers_in(name: str, nest: Any) -> Any:
    """Converts what is in a structure by `as_numbers`, parts of sparse tensors too."""
    import tensorflow as tf

    def convert(each: object) -> Any:
        return as_numbers(name, each)

    return tf.nest.map_structure(convert, nest, expand_composites=True)


def as_int32(name: str, value: object) -> Any:
    """Converts integers to int32; those that it cannot hold to its nearest number.

    A cast would wrap them: 2^32 would become 0, a valid number of rows.

    Raises:
        TypeError: They are not integers.
    """
    import tensorflow as tf

    tensor = as_tensor(name, value)
    if not tensor.dtype.is_integer or tensor.dtype.is_quantized:
        raise TypeError(
            f"`{name}` must be integers, got a tensor of {tensor.dtype.name}. Cast it "
            "with tf.cast."
        )
    return tf.saturate_cast(tensor, tf.int32)


def as_floats(name: str, value: object) -> Any:
    """Converts an argument to a tensor of floats.

    Raises:
        TypeError: It is not of floats: TensorFlow would compute with integers that are
            rounded down.
        ValueError: See as_tensor.
    """
    tensor = as_tensor(name, value)
    if not tensor.dtype.is_floating:
        raise TypeError(
            f"`{name}` must be floats, got {tensor.dtype.name}. Cast it with tf.cast."
        )
    return tensor


def shape_with_room(shape: list[int], name: str) -> list[int]:
    """Returns a shape that one more dimension fits: TensorFlow aborts at 255.

    Raises:
        ValueError: The shape has as many dimensions as a tensor can have.
    """
    if len(shape) >= MOST_DIMENSIONS:
        raise ValueError(
            f"`{name}` must have at most {MOST_DIMENSIONS - 1} dimensions, got "
            f"{len(shape)}. Reshape it first."
        )
    return shape


def arrays_of_rows(name: str, value: Any) -> Any:
    """Returns a nest of arrays as it is.

    Raises:
        TypeError: The nest is empty, or holds a scalar or another object than an array.
    """
    import tensorflow as tf

    leaves = tf.nest.flatten(value)
    if not leaves or not all(getattr(each, "shape", ()) for each in leaves):
        raise TypeError(
            f"`{name}` must be arrays of at least one dimension, in any nest, got "
            f"{value!r}."
        )
    return value


def is_within(value: float, low: float, high: float) -> bool:
    """Whether a number is finite and in [low, high]."""
    return math.isfinite(value) and low <= value <= high


def is_power_of_two(number: int) -> bool:
    """Whether a number is 1, 2, 4, ..."""
    return number > 0 and number & (number - 1) == 0
