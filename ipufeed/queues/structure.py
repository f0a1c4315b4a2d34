"""Structures of tensors: checks of a feed's elements, and arguments of a loop's body."""

from __future__ import annotations

import tensorflow as tf

from ipufeed.errors import UnsupportedElementError
from ipufeed.tf_types import DType, Nest, Shape, Spec, Tensor, TensorSpec

# The dtypes of the hardware's streams.
FEED_DTYPES = ("int32", "float32", "float16", "bool", "int8", "uint8")
# A tensor has at most 254 dimensions; a dequeue adds those of the results and the replicas.
MOST_RANK = 252


def check_spec(spec: Spec) -> list[TensorSpec]:
    """Returns the flat tf.TensorSpecs of a dataset's elements.

    Raises:
        UnsupportedElementError: (a ValueError) A component is ragged, sparse, a nested
            dataset, a string or a variant.
        ValueError: A shape is not fully defined.
    """
    flat: list[TensorSpec] = tf.nest.flatten(spec)
    for index, component in enumerate(flat):
        if not isinstance(component, tf.TensorSpec):
            raise UnsupportedElementError(
                f"Component {index} of the dataset is a {type(component).__name__}; an "
                "infeed queue carries dense tensors. Convert it with tf.data.Dataset.map "
                "(to_tensor, tf.sparse.to_dense)."
            )
        if component.dtype in (tf.string, tf.resource, tf.variant):
            raise UnsupportedElementError(
                f"Component {index} of the dataset is of type {component.dtype.name}, "
                f"which an infeed queue does not carry. It carries: "
                f"{', '.join(FEED_DTYPES)}. Use a tf.data.Dataset.map to decode it."
            )
    for component in flat:
        if not component.shape.is_fully_defined():
            raise ValueError(
                f"Output shape {component.shape} is not fully defined. If using "
                "tf.Dataset.batch, set `drop_remainder=True`."
            )
    return flat


def flat_structure(spec: Spec) -> dict[str, list[DType | Shape]]:
    """Returns the dtypes and shapes of an element's tensors, under Graphcore's names."""
    flat = tf.nest.flatten(spec)
    return {
        "output_types": [component.dtype for component in flat],
        "output_shapes": [component.shape for component in flat],
    }


def body_arguments(element: Nest) -> tuple[list[Nest], dict[str, Nest]]:
    """Returns an element as positional and keyword arguments of a loop's body.

    A tuple or list is unpacked; a single dict whose keys are all strings, also alone in a
    tuple, becomes keyword arguments; another value is one argument.
    """
    if isinstance(element, (tuple, list)) and not hasattr(element, "_fields"):
        if len(element) == 1 and _is_keywords(element[0]):
            return [], dict(element[0])
        return list(element), {}
    if hasattr(element, "_fields"):
        return list(element), {}
    if _is_keywords(element):
        return [], dict(element)
    return [element], {}


def _is_keywords(value: Nest) -> bool:
    return isinstance(value, dict) and all(isinstance(key, str) for key in value)


def check_results(flat: list[Tensor], name: str) -> None:
    """Raises for dtypes that feeds do not carry, and for too many dimensions.

    A dimension of size 0 is an error of the program's run, as in Graphcore's: see
    cc/feeds/outfeed.cc.
    """
    for index, tensor in enumerate(flat):
        if tensor.dtype.name not in FEED_DTYPES:
            raise tf.errors.FailedPreconditionError(
                None,
                None,
                f"Unsupported datatype {tensor.dtype.name} on index {index} of feed "
                f"operation with feed id '{name}'. Cast it with tf.cast to one of "
                f"({', '.join(FEED_DTYPES)}).",
            )
        if (tensor.shape.rank or 0) > MOST_RANK:
            raise tf.errors.InvalidArgumentError(
                None,
                None,
                f"Outfeed queue '{name}' takes tensors of at most {MOST_RANK} dimensions, "
                f"and tensor {index} has {tensor.shape.rank}. Reshape it first.",
            )


def as_tensors(values: Nest, queue: str) -> Nest:
    """Converts a structure of values to one of tensors.

    Args:
        values: Tensors, or values that can be converted, in any structure.
        queue: The queue's name in the error.

    Raises:
        TypeError: A value cannot be converted; or ValueError, where TensorFlow raises it.
    """
    try:
        return tf.nest.map_structure(tf.convert_to_tensor, values)
    except (TypeError, ValueError) as error:
        raise type(error)(
            f"{queue} takes tensors, or values that convert to them, got {values!r}: "
            f"{error}"
        ) from error
