"""data.ops.dataset_ops: a dataset that is read in whole groups of elements."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from ipufeed.tf_types import Dataset, Spec


class BufferDataset(tf.data.Dataset):  # type: ignore[misc]
    """The elements of a dataset, read in groups; an incomplete last group is dropped.

    The first element of a group is output when the whole group has been read.

    Args:
        input_dataset: The dataset.
        buffer_size: The elements of a group, at least 1.

    Raises:
        TypeError: `input_dataset` is not a dataset, or `buffer_size` not an integer.
        tf.errors.InvalidArgumentError: `buffer_size` is less than 1.

    Source: Graphcore's dataset of this name.
    """

    def __init__(self, input_dataset: Dataset, buffer_size: int) -> None:
        if not isinstance(input_dataset, tf.data.Dataset):
            raise TypeError(
                "`input_dataset` must be a tf.data.Dataset, got "
                f"{type(input_dataset).__name__}."
            )
        if isinstance(buffer_size, bool) or not hasattr(buffer_size, "__index__"):
            raise TypeError(
                f"`buffer_size` must be an int, got {type(buffer_size).__name__}."
            )
        size = int(buffer_size.__index__())
        if size < 1:
            raise tf.errors.InvalidArgumentError(
                None, None, f"Buffer size must be greater than zero. Got {size}."
            )

        def group(*windows: Any) -> Any:
            # A dataset for each component, in the element's structure.
            structure = windows if len(windows) > 1 else windows[0]
            if isinstance(structure, tf.data.Dataset):
                return structure
            return tf.data.Dataset.zip(structure)

        grouped = input_dataset.window(size, drop_remainder=True).flat_map(group)
        # Their number, where it is known while this is built: not in a graph.
        number = tf.get_static_value(input_dataset.cardinality())
        if number is not None and number != tf.data.UNKNOWN_CARDINALITY:
            whole = int(number) if number < 0 else int(number) // size * size
            grouped = grouped.apply(tf.data.experimental.assert_cardinality(whole))
        self._grouped = grouped
        self._input_dataset = input_dataset
        super().__init__(self._grouped._variant_tensor)

    def _inputs(self) -> list[Dataset]:
        return [self._input_dataset]

    @property
    def element_spec(self) -> Spec:
        """The dataset's element_spec."""
        return self._input_dataset.element_spec
