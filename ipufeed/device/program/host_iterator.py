"""Iterators that stay on the host inside the scope of an IPUStrategy.

Keras without the IPU extensions gets a dataset from its strategy, reads the first element
in eager mode, and the others in functions that run op by op. Its iterator, and the ops that
read from it, must be on the CPU, also in functions of an IPU.
"""

from __future__ import annotations

from collections.abc import Iterator

import tensorflow as tf
from tensorflow.python.data.ops.iterator_ops import OwnedIterator
from tensorflow.python.framework import composite_tensor, type_spec

from ipufeed.tf_types import Dataset, Nest, Spec, Tensor

CPU = "/device:CPU:0"


class HostDataset:
    """A dataset whose iterators stay on the host.

    Args:
        dataset: A tf.data.Dataset.
    """

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset

    @property
    def element_spec(self) -> Spec:
        """The structure of an element."""
        return self._dataset.element_spec

    def cardinality(self) -> Tensor:
        """See tf.data.Dataset."""
        return self._dataset.cardinality()

    def __iter__(self) -> Iterator[Nest]:
        with tf.device(CPU):
            return _HostIterator(OwnedIterator(self._dataset))


class _HostIteratorSpec(type_spec.TypeSpec):  # type: ignore[misc]
    """The type spec of a _HostIterator, which wraps the inner iterator's."""

    __slots__ = ["_inner"]

    def __init__(self, inner: Spec) -> None:
        self._inner = inner

    @property
    def value_type(self) -> type:
        """The class of the values of this type."""
        return _HostIterator

    @property
    def _component_specs(self) -> Spec:
        return self._inner

    def _serialize(self) -> tuple[Spec]:
        return (self._inner,)

    def _to_components(self, value: _HostIterator) -> OwnedIterator:
        return value._iterator

    def _from_components(self, components: OwnedIterator) -> _HostIterator:
        return _HostIterator(components)


class _HostIterator(composite_tensor.CompositeTensor):  # type: ignore[misc]
    """An iterator whose ops are on the CPU, also in functions of an IPU.

    Args:
        iterator: TensorFlow's iterator.
    """

    def __init__(self, iterator: OwnedIterator) -> None:
        self._iterator = iterator

    @property
    def element_spec(self) -> Spec:
        """The structure of an element."""
        return self._iterator.element_spec

    @property
    def _type_spec(self) -> _HostIteratorSpec:
        return _HostIteratorSpec(self._iterator._type_spec)

    def __iter__(self) -> _HostIterator:
        return self

    def __next__(self) -> Nest:
        with tf.device(CPU):
            return next(self._iterator)

    def get_next(self) -> Nest:
        """Returns the next element.

        Raises:
            tf.errors.OutOfRangeError: There is none.
        """
        with tf.device(CPU):
            return self._iterator.get_next()

    def get_next_as_optional(self) -> Tensor:
        """Returns the next element, or none, as a tf.experimental.Optional."""
        with tf.device(CPU):
            return self._iterator.get_next_as_optional()
