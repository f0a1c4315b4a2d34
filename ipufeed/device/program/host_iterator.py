"""Iterators that stay on the host inside the scope of an IPUStrategy.

Stock Keras asks its strategy for a dataset to iterate over, reads the first element in
eager mode, and the others in functions that run op by op. Its iterator, and the ops that
read from it, belong on the CPU, wherever the functions are.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import tensorflow as tf
from tensorflow.python.data.ops.iterator_ops import OwnedIterator
from tensorflow.python.framework import composite_tensor, type_spec

from ipufeed.tf_types import Dataset

CPU = "/device:CPU:0"


class HostDataset:
    """A dataset whose iterators are of the host.

    Args:
        dataset: A tf.data.Dataset.
    """

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset

    @property
    def element_spec(self) -> Any:
        """The structure of an element."""
        return self._dataset.element_spec

    def cardinality(self) -> Any:
        """See tf.data.Dataset."""
        return self._dataset.cardinality()

    def __iter__(self) -> Iterator[Any]:
        with tf.device(CPU):
            return HostIterator(OwnedIterator(self._dataset))


class HostIteratorSpec(type_spec.TypeSpec):  # type: ignore[misc]
    """The type of a HostIterator: that of the iterator inside."""

    __slots__ = ["_inner"]

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    @property
    def value_type(self) -> type:
        """The class of the values of this type."""
        return HostIterator

    @property
    def _component_specs(self) -> Any:
        return self._inner

    def _serialize(self) -> tuple[Any, ...]:
        return (self._inner,)

    def _to_components(self, value: Any) -> Any:
        return value._iterator

    def _from_components(self, components: Any) -> Any:
        return HostIterator(components)


class HostIterator(composite_tensor.CompositeTensor):  # type: ignore[misc]
    """An iterator whose ops are on the CPU, in functions of an IPU, too.

    Args:
        iterator: TensorFlow's.
    """

    def __init__(self, iterator: Any) -> None:
        self._iterator = iterator

    @property
    def element_spec(self) -> Any:
        """The structure of an element."""
        return self._iterator.element_spec

    @property
    def _type_spec(self) -> Any:
        return HostIteratorSpec(self._iterator._type_spec)

    def __iter__(self) -> HostIterator:
        return self

    def __next__(self) -> Any:
        with tf.device(CPU):
            return next(self._iterator)

    def get_next(self) -> Any:
        """The next element.

        Raises:
            tf.errors.OutOfRangeError: There is none.
        """
        with tf.device(CPU):
            return self._iterator.get_next()

    def get_next_as_optional(self) -> Any:
        """The next element, or none, as a tf.experimental.Optional."""
        with tf.device(CPU):
            return self._iterator.get_next_as_optional()
