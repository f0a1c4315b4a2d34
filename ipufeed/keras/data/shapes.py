"""The shapes of a call's data, which a compiled program fixes."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from ipufeed.keras.checks.batches import BatchCheck
from ipufeed.keras.data.partial_batch import PartialBatch
from ipufeed.tf_types import Dataset, Nest, Spec


def with_shapes(
    dataset: Dataset, batch: Nest, last: Nest = None, check: BatchCheck | None = None
) -> tuple[Dataset, PartialBatch | None]:
    """Sets the shapes of a generator's dataset to those of its first batch.

    Args:
        dataset: The dataset, whose elements have unknown dimensions.
        batch: The first batch, as arrays.
        last: The last batch, if it is known without reading all.
        check: Checks the batches; needed with `last`.

    Returns:
        The dataset; and its last batch if that is smaller.
    """
    spec = dataset.element_spec
    specs = tf.nest.flatten(spec)
    first = [np.shape(each) for each in tf.nest.flatten(batch) if each is not None]
    dense = all(isinstance(each, tf.TensorSpec) for each in specs)
    if not dense or len(first) != len(specs):
        return dataset, None  # the infeed raises for what it cannot carry
    if last is not None and check is not None and check.is_smaller(last):
        return dataset, PartialBatch(int(first[0][0]), _rows(last))

    def fixed(*element: Nest) -> Any:
        whole = element if isinstance(spec, tuple) else element[0]
        flat = [
            tf.ensure_shape(each, shape)
            for each, shape in zip(tf.nest.flatten(whole), first, strict=True)
        ]
        return tf.nest.pack_sequence_as(spec, flat)

    return dataset.map(fixed), None


def _rows(batch: Nest) -> int:
    return next(
        int(np.shape(each)[0]) for each in tf.nest.flatten(batch) if each is not None
    )


def zeros_of(dataset: Dataset) -> Nest:
    """Returns an element of zeros, on the host."""
    with tf.device("/device:CPU:0"):
        return tf.nest.map_structure(
            lambda spec: tf.zeros(spec.shape, spec.dtype), dataset.element_spec
        )


def check_shapes(element_spec: Spec) -> None:
    """Raises ValueError if a component is not dense, or has an unknown dimension."""
    for i, spec in enumerate(tf.nest.flatten(element_spec)):
        shape = getattr(spec, "shape", None)
        if isinstance(spec, tf.RaggedTensorSpec):
            raise ValueError(
                f"Component {i} of the data is a RaggedTensor of shape {shape}: a "
                "compiled program takes dense tensors of fixed shapes. Pad its rows to "
                "one length with `x.to_tensor(shape=[batch_size, length])`, in a map() "
                "of the dataset."
            )
        if isinstance(spec, tf.SparseTensorSpec):
            raise ValueError(
                f"Component {i} of the data is a SparseTensor of shape {shape}: a "
                "compiled program takes dense tensors of fixed shapes. Convert it with "
                "tf.sparse.to_dense: before the call, or batch by batch in a map() of "
                "the dataset."
            )
        if shape is not None and not shape.is_fully_defined():
            raise ValueError(
                f"The provided set of data contains a shape {shape} which is not fully "
                "defined. Executing on IPU requires all dataset elements to have fully "
                "defined shapes. If using batch() make sure to set `drop_remainder=True`. "
                "Where a later map() loses the shape, set it again with tf.ensure_shape()."
            )
