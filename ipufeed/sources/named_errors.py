"""Errors of a dataset that begin with what they are about: tf.data's own name no file."""

from __future__ import annotations

from typing import Any

from ipufeed.tf_types import Dataset


def name_errors(dataset: Dataset, names: Any) -> Any:
    """The same dataset; the error of its k-th element begins with the k-th name.

    Args:
        dataset: One whose elements are one to one with the names, in their order.
        names: tf.string [n]; or [], a name that is that of all elements.
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
