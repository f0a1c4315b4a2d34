"""Tensors of 8-bit floats, and products and convolutions of them.

    value = code x 2**scale, the code of F143 (float8_e4m3fnuz) or F152 (float8_e5m2fnuz)

A byte of metadata, which may be a tensor, has the format and the scale. Products are
computed in float32 and returned as float16.

Source: Graphcore's functions of these names.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from ipufeed.checks import as_int, as_numbers, as_tensor, dtype_or_none, is_int
from ipufeed.ops.quarter import codes
from ipufeed.tf_types import DType, NestFunction, Shape, Tensor, TensorLike

MOST_METADATA = 255  # a byte


class Format(enum.IntEnum):
    """F143: 3 bits of mantissa, at most 240. F152: 2 bits, at most 57344."""

    F143 = 0
    F152 = 1


def create_metadata(fmt: Format, scale: int = 0) -> np.uint8:
    """Returns the byte of a format and a scale, as np.uint8.

    Args:
        fmt: A Format.
        scale: The exponent, -32 to 31: numbers are codes times 2**scale.

    Raises:
        ValueError: Another format or scale.
        TypeError: The scale is not an integer.
    """
    scale = as_int("scale", scale)
    if not -32 <= scale <= 31:
        raise ValueError(f"`scale` must be in [-32, 31], got {scale}.")
    if not is_int(fmt) or fmt not in list(Format):
        raise ValueError(f"`fmt` must be Format.F143 or Format.F152, got {fmt!r}.")
    is_f143 = Format(fmt) is Format.F143
    return np.uint8((codes.IS_F143 if is_f143 else 0) | (scale & codes.SCALE_BITS))


class QuarterTensor:
    """Codes and their metadata.

    Args:
        data: uint8, of any shape: a tensor, an array or a variable.
        metadata: uint8, a scalar.

    Raises:
        TypeError: Another dtype.
    """

    def __init__(self, data: TensorLike, metadata: TensorLike) -> None:
        self.data = _bytes(data, "data")
        self.metadata = _bytes(metadata, "metadata")

    @property
    def shape(self) -> Shape:
        """The shape of the codes."""
        return self.data.shape

    @property
    def dtype(self) -> DType:
        """The dtype of the codes, tf.uint8."""
        return self.data.dtype

    def numpy(self) -> list[np.ndarray]:
        """Returns codes and metadata as arrays."""
        return [np.asarray(self.data), np.asarray(self.metadata)]

    def assign(self, values: Iterable[TensorLike]) -> None:
        """Assigns [data, metadata] to its variables.

        Raises:
            TypeError: It does not consist of variables.
        """
        for own, value in zip(self, values, strict=True):
            if not isinstance(own, tf.Variable):
                raise TypeError("QuarterTensor.assign needs one of variables.")
            own.assign(value)

    def __iter__(self) -> Iterator[Tensor]:
        return iter((self.data, self.metadata))

    def __len__(self) -> int:
        return int(self.data.shape[0])

    def __getitem__(self, index: Any) -> QuarterTensor:
        return QuarterTensor(self.data[index], self.metadata)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, QuarterTensor):
            return NotImplemented
        same = zip(self.numpy(), other.numpy(), strict=True)
        return all(np.array_equal(a, b) for a, b in same)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"QuarterTensor(data={self.data!r}, metadata={self.metadata!r})"


def _bytes(value: Tensor, name: str) -> Tensor:
    if not hasattr(value, "dtype"):
        value = np.asarray(value)
    if tf.as_dtype(value.dtype) != tf.uint8:
        raise TypeError(f"`{name}` must be of uint8, got {value.dtype}.")
    return value


def convert_to_f8(
    values: TensorLike, metadata: TensorLike, name: str | None = None
) -> QuarterTensor:
    """Returns the codes of numbers, which are cast to float16 first.

    Args:
        values: Floats; too large ones saturate, NaN becomes the code 0x80.
        metadata: See create_metadata; it may be a tensor.
        name: The op's name.

    Raises:
        TypeError: The values are a QuarterTensor already, or text.
        ValueError: The metadata are not a scalar, or not a byte.
    """
    if isinstance(values, QuarterTensor):
        raise TypeError(
            "`values` must be numbers, got a QuarterTensor, which holds codes: give it to "
            "convert_from_f8 first."
        )
    if is_int(metadata) and not 0 <= metadata <= MOST_METADATA:
        # A conversion would give another scale.
        raise ValueError(
            f"`metadata` must be in [0, {MOST_METADATA}], got {metadata}: use "
            "create_metadata."
        )
    metadata = as_tensor("metadata", metadata, tf.uint8)
    values = as_numbers("values", values)
    if metadata.shape.rank:
        raise ValueError(
            f"`metadata` must be a scalar of uint8, got the shape {metadata.shape}: use "
            "create_metadata."
        )
    with tf.name_scope(name or "convert_to_f8"):
        half = tf.cast(tf.cast(values, tf.float16), tf.float32)
        return QuarterTensor(codes.encode(half, metadata), metadata)


def convert_from_f8(
    packed_input: QuarterTensor, dtype: DType = tf.float16, name: str | None = None
) -> Tensor:
    """Returns the values of codes.

    Args:
        packed_input: A QuarterTensor, or a list of codes and metadata.
        dtype: The result's dtype.
        name: The op's name.

    Raises:
        TypeError: It is neither, or `dtype` is not a dtype.
    """
    to = dtype_or_none(dtype)
    if to is None:
        raise TypeError(
            f"`dtype` must be a tf.DType or its name, got {type(dtype).__name__} {dtype!r}."
        )
    is_pair = isinstance(packed_input, (list, tuple)) and len(packed_input) == 2
    if not is_pair and not isinstance(packed_input, QuarterTensor):
        raise TypeError(
            "`packed_input` must be a QuarterTensor or a list of codes and metadata, got "
            f"{type(packed_input).__name__}: use convert_to_f8."
        )
    data, metadata = packed_input
    with tf.name_scope(name or "convert_from_f8"):
        return tf.cast(codes.decode(data, metadata), to)


def canonicalise_input(
    inp: TensorLike, expected_rank: int = 3, name: str | None = None
) -> list[Tensor]:
    """Returns data and metadata of an operand; a matrix gets an outer axis of groups.

    Args:
        inp: A QuarterTensor, or a tensor, whose metadata are 0.
        expected_rank: The data's rank; one less is expanded.
        name: The operand's name, for errors.

    Raises:
        ValueError: Another rank.
    """
    data, metadata = inp if isinstance(inp, QuarterTensor) else (inp, np.uint8(0))
    data = tf.convert_to_tensor(data)
    if data.shape.rank == expected_rank - 1:
        data = tf.expand_dims(data, 0)
    if data.shape.rank != expected_rank:
        raise ValueError(
            f"{name or 'The input'} must have {expected_rank} dimensions, or "
            f"{expected_rank - 1}, got the shape {data.shape}."
        )
    return [data, metadata]


def canonicalise_output(output: TensorLike, lhs: TensorLike) -> Tensor:
    """Returns the result without the axis of groups that a matrix `lhs` got."""
    rank = lhs.shape.rank if hasattr(lhs.shape, "rank") else len(lhs.shape)
    return tf.squeeze(output, 0) if rank == 2 else output


def _numbers(operand: Tensor) -> Tensor:
    """Returns a QuarterTensor or a tensor as float32 numbers."""
    if isinstance(operand, QuarterTensor):
        return convert_from_f8(operand, tf.float32)
    return tf.cast(operand, tf.float32)


def f8_matmul(lhs: TensorLike, rhs: TensorLike, name: str = "f8_matmul") -> Tensor:
    """Returns the product of matrices, or of groups of them, in float16.

    Args:
        lhs: [(groups,) n, k], a QuarterTensor or a tensor.
        rhs: [(groups,) k, m].
        name: The op's name.

    Raises:
        ValueError: Another rank.
    """
    lhs, rhs = (
        each if isinstance(each, QuarterTensor) else as_tensor(which, each)
        for each, which in ((lhs, "lhs"), (rhs, "rhs"))
    )
    for operand, which in ((lhs, "lhs"), (rhs, "rhs")):
        if len(operand.shape) not in (2, 3):
            raise ValueError(
                f"`{which}` of f8_matmul must have 2 or 3 dimensions, got the shape "
                f"{tuple(operand.shape)}."
            )
    with tf.name_scope(name):
        return tf.cast(tf.matmul(_numbers(lhs), _numbers(rhs)), tf.float16)


def _convolution(
    function: NestFunction,
    inputs: Tensor,
    filters: Tensor,
    strides: Any,
    padding: Any,
    data_format: str,
    dilations: Any,
    name: str,
) -> Tensor:
    if data_format is not None and not isinstance(data_format, str):
        raise TypeError(
            f"`data_format` must be a str, got {type(data_format).__name__} "
            f"{data_format!r}."
        )
    with tf.name_scope(name):
        result = function(
            _numbers(inputs),
            _numbers(filters),
            _steps("strides", strides),
            padding,
            data_format=data_format,
            dilations=None if dilations is None else _steps("dilations", dilations),
        )
        return tf.cast(result, tf.float16)


def _steps(name: str, value: object) -> int | list[int]:
    """Returns strides or dilations: TensorFlow takes 1.5 for 1, and a text's bytes."""
    if isinstance(value, (list, tuple, np.ndarray)):
        return [as_int(name, each) for each in value]
    return as_int(name, value, " or a list of them")


def f8_conv_1d(
    inputs: TensorLike,
    filters: TensorLike,
    strides: Any,
    padding: Any,
    data_format: str = "NWC",
    dilations: Any = 1,
    name: str = "f8_conv_1d",
) -> Tensor:
    """Computes tf.nn.conv1d of QuarterTensors or tensors, in float16."""
    return _convolution(
        tf.nn.conv1d, inputs, filters, strides, padding, data_format, dilations, name
    )


def f8_conv_2d(
    inputs: TensorLike,
    filters: TensorLike,
    strides: Any,
    padding: Any,
    data_format: str = "NHWC",
    dilations: Any = (1, 1, 1, 1),
    name: str = "f8_conv_2d",
) -> Tensor:
    """Computes tf.nn.conv2d of QuarterTensors or tensors, in float16."""
    return _convolution(
        tf.nn.conv2d, inputs, filters, strides, padding, data_format, dilations, name
    )


def f8_conv_3d(
    inputs: TensorLike,
    filters: TensorLike,
    strides: Any,
    padding: Any,
    data_format: str = "NDHWC",
    dilations: Any = (1, 1, 1, 1, 1),
    name: str = "f8_conv_3d",
) -> Tensor:
    """Computes tf.nn.conv3d of QuarterTensors or tensors, in float16."""
    return _convolution(
        tf.nn.conv3d, inputs, filters, strides, padding, data_format, dilations, name
    )
