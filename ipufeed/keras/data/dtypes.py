"""Casts data to dtypes that infeeds carry, and packs results for outfeeds.

Data: a wider or narrower dtype becomes int32 or float32, with which IPUs compute.
Results: int64 and its like cross the outfeed as halves of int32, bit by bit, and the host
joins these: the caller receives what the model computed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from ipufeed import _native
from ipufeed.tf_types import Dataset, Nest, Tensor, TensorSpec

# What the data are cast to, by their dtype.
CASTS = {
    "float64": "float32",
    "bfloat16": "float32",
    "int64": "int32",
    "uint64": "int32",
    "uint32": "int32",
    "int16": "int32",
    "uint16": "int32",
}
EXACT = ("int16", "uint16", "bfloat16")  # whose values all fit
# Elements with a component of as many bytes are cast by several threads.
PARALLEL_BYTES = 1 << 20
HALVED = ("int64", "uint64", "float64")  # results that cross as two of int32


class Packing:
    """The conversion of one program's results for its outfeed, and back.

    Args:
        sums: Whether the outfeed adds the results up, so that bits would lose their
            meaning: integers become float32 then.
    """

    def __init__(self, sums: bool = False) -> None:
        self._sums = sums
        self._dtypes: list[Any] = []
        self._differs = False

    def pack(self, results: Nest) -> Nest:
        """Builds the conversion of a step's results, and records their dtypes."""
        flat = [tf.convert_to_tensor(each) for each in tf.nest.flatten(results)]
        self._dtypes = [each.dtype for each in flat]
        packed = [self._packed(each) for each in flat]
        pairs = zip(flat, packed, strict=True)
        self._differs = any(own is not result for own, result in pairs)
        return tf.nest.pack_sequence_as(results, packed)

    def unpack(self, results: Nest) -> Nest:
        """Converts results that were read back; they may have more dimensions in front."""
        if self._sums or not self._differs:
            return results
        flat = tf.nest.flatten(results)
        unpacked = [
            _unpacked(each, dtype)
            for each, dtype in zip(flat, self._dtypes, strict=True)
        ]
        return tf.nest.pack_sequence_as(results, unpacked)

    def _packed(self, x: Tensor) -> Tensor:
        name = x.dtype.name
        if name in CASTS and self._sums:
            return tf.cast(x, tf.float32)
        if name in HALVED or name == "uint32":
            return tf.bitcast(x, tf.int32)
        if name in EXACT:
            return tf.cast(x, CASTS[name])
        if name == "complex64":
            return tf.stack([tf.math.real(x), tf.math.imag(x)], axis=-1)
        return x


def _unpacked(x: Tensor, dtype: Any) -> Tensor:
    if dtype.name in HALVED or dtype.name == "uint32":
        return tf.bitcast(x, dtype)
    if dtype.name in EXACT:
        return tf.cast(x, dtype)
    if dtype.name == "complex64":
        return tf.complex(x[..., 0], x[..., 1])
    return x


def narrow(dataset: Dataset) -> Dataset:
    """Casts a dataset's components as CASTS says.

    Small elements are cast by the thread that iterates, large ones by a parallel map; then
    a prefetch at the dataset's end is repeated after it. An integer that does not fit is
    an InvalidArgumentError of the dataset.

    Raises:
        ValueError: A component has a dtype that has no such cast.
    """
    specs = tf.nest.flatten(dataset.element_spec)
    dtypes = [getattr(spec, "dtype", None) for spec in specs]
    _check_dtypes(dtypes)
    if not any(each is not None and each.name in CASTS for each in dtypes):
        return dataset
    if not all(isinstance(spec, tf.TensorSpec) for spec in specs):
        return dataset  # the infeed raises for what it cannot carry
    if max(map(_bytes_to_cast, specs)) < PARALLEL_BYTES:
        return _narrowed_natively(dataset, specs)

    def cast(*element: Nest) -> Any:
        whole = element if isinstance(dataset.element_spec, tuple) else element[0]
        flat = [
            _narrowed(each, _component(i))
            for i, each in enumerate(tf.nest.flatten(whole))
        ]
        return tf.nest.pack_sequence_as(whole, flat)

    narrowed = dataset.map(cast, num_parallel_calls=tf.data.AUTOTUNE)
    if type(dataset).__name__ != "_PrefetchDataset":
        return narrowed
    buffered: Any = dataset  # only a prefetch has the size
    return narrowed.prefetch(int(tf.get_static_value(buffered._buffer_size)))


def _bytes_to_cast(spec: TensorSpec) -> int:
    """Returns the bytes of a component that is cast, 0 for others or unknown ones."""
    elements = spec.shape.num_elements() if spec.dtype.name in CASTS else 0
    return int(elements or 0) * int(spec.dtype.size)


def _narrowed_natively(dataset: Dataset, specs: list[TensorSpec]) -> Dataset:
    """Returns the dataset of ipufeed/cc/feeds/narrow_dataset_op.cc."""
    from tensorflow.python.data.ops import dataset_ops

    types = [CASTS.get(spec.dtype.name, spec.dtype.name) for spec in specs]
    narrowed = [
        tf.TensorSpec(spec.shape, dtype)
        for spec, dtype in zip(specs, types, strict=True)
    ]
    structure = tf.nest.pack_sequence_as(dataset.element_spec, narrowed)

    class NarrowDataset(dataset_ops.UnaryDataset):  # type: ignore[misc]
        """Its elements have the dtypes that infeeds carry."""

        element_spec = structure

        def __init__(self, source: Any) -> None:
            variant = _native.load().ipufeed_narrow_dataset(
                source._variant_tensor,
                misfits=[
                    _misfit(_component(i), spec.dtype.name)
                    for i, spec in enumerate(specs)
                ],
                output_types=types,
                output_shapes=[spec.shape for spec in specs],
            )
            super().__init__(source, variant)

    return NarrowDataset(dataset)


def _check_dtypes(dtypes: list[Any]) -> None:
    for i, dtype in enumerate(dtypes):
        if dtype is not None and dtype.is_complex:
            raise ValueError(
                f"Component {i} of the data has the dtype {dtype.name}, which infeeds do "
                "not carry. Feed the real and the imaginary part as two components, or "
                "along another dimension, and join them in the model with tf.complex."
            )


def _narrowed(x: Tensor, what: str) -> Tensor:
    """Casts a tensor; an integer that does not fit is an InvalidArgumentError."""
    narrower = CASTS.get(x.dtype.name)
    if narrower is None:
        return x
    result = tf.cast(x, narrower)
    if not x.dtype.is_integer or x.dtype.name in EXACT:
        return result
    # A large uint64 has a negative int32, which the cast back would make equal again.
    fits = tf.reduce_all(tf.equal(tf.cast(result, x.dtype), x))
    if x.dtype.is_unsigned:
        fits = tf.logical_and(fits, tf.reduce_all(result >= 0))
    text = _misfit(what, x.dtype.name)
    with tf.control_dependencies([tf.debugging.Assert(fits, [text])]):
        return tf.identity(result)


def _component(number: int) -> str:
    return f"Component {number} of the data"


def _misfit(what: str, dtype: str) -> str:
    return (
        f"{what}, of {dtype}, must have values that fit int32, which IPUs compute with, "
        "got larger ones. Make them smaller before the model, as with a hash, or feed "
        "float32."
    )


def narrow_arrays(arguments: Nest) -> Nest:
    """Casts arrays and tensors of a call's arguments as `narrow` does.

    Raises:
        ValueError: An integer of an array does not fit.
        tf.errors.InvalidArgumentError: One of a tensor.
    """

    def cast(each: Nest) -> Nest:
        if not isinstance(each, (np.ndarray, np.generic, tf.Tensor)):
            return each
        if isinstance(each, tf.Tensor):
            with tf.device("/device:CPU:0"):
                return _narrowed(each, "A tensor")
        narrower = CASTS.get(each.dtype.name)
        if narrower is None:
            return each
        result: Any = each.astype(narrower)
        if each.dtype.kind in "iu":
            limits, values = np.iinfo(result.dtype), np.asarray(each)
            if np.any(values < limits.min) or np.any(values > limits.max):
                raise ValueError(_misfit("An array", each.dtype.name))
        return result

    return tf.nest.map_structure(cast, arguments)
