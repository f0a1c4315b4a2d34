"""Adds the name of the file to a dataset's errors, which tf.data's do not have."""

from __future__ import annotations

from typing import Any

from ipufeed.tf_types import Dataset, Tensor


def name_errors(dataset: Dataset, names: Tensor) -> Any:
    """Returns the dataset with the k-th name before the error of its k-th element.

    Args:
        dataset: It has an element for each name, in their order.
        names: tf.string [n]; or [], the name for all elements.
    """
    from tensorflow.python.data.ops import dataset_ops

    from ipufeed import _native

    class NameErrorsDataset(dataset_ops.UnaryUnchangedStructureDataset):  # type: ignore[misc]
        """See ipufeed/cc/data/name_errors_op.cc."""

        def __init__(self, source: Any) -> None:
            variant = _native.load().ipufeed_name_errors_dataset(
                source._variant_tensor,
                names,
                output_types=source._flat_types,
                output_shapes=source._flat_shapes,
            )
            super().__init__(source, variant)

    return NameErrorsDataset(dataset)
