"""What is used of TensorFlow's objects, as protocols: TensorFlow ships no types.

A checker then knows at the seams between packages what may be asked of a dataset. Private
names are those that TensorFlow's own readers of a dataset's graph use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol


class Dataset(Protocol):
    """A tf.data.Dataset, of TensorFlow 1 or 2."""

    @property
    def element_spec(self) -> Any:
        """The nest of the elements' specs."""

    @property
    def _variant_tensor(self) -> Any:
        """The tensor that stands for the dataset in its graph."""

    @property
    def _dataset(self) -> Dataset:
        """The dataset in an adapter of TensorFlow 1."""

    @property
    def _options_attr(self) -> Any:
        """The options that were set on it."""

    def __iter__(self) -> Iterator[Any]:
        """Starts the dataset."""

    def _inputs(self) -> list[Any]:
        """The datasets that it reads."""

    def _as_serialized_graph(self, **options: Any) -> Any:
        """Its graph, with what it captures."""

    def _apply_debug_options(self) -> Dataset:
        """With the options of debug mode."""

    def apply(self, transformation: Callable[[Any], Any]) -> Dataset:
        """What a function makes of it."""

    def batch(self, size: int, *, drop_remainder: bool = False) -> Dataset:
        """Batches of elements."""

    def cardinality(self) -> Any:
        """How many elements, or one of two negative numbers."""

    def map(self, function: Callable[..., Any], **options: Any) -> Dataset:
        """What a function gives for each element."""

    def options(self) -> Any:
        """Its tf.data.Options."""

    def prefetch(self, size: int) -> Dataset:
        """A buffer of elements."""

    def repeat(self, count: int | None = None) -> Dataset:
        """Its elements several times, or without an end."""

    def take(self, count: int) -> Dataset:
        """Its first elements."""

    def with_options(self, options: Any) -> Dataset:
        """The same with other options."""
