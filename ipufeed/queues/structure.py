"""Structures of tensors: what a feed carries, and how a loop's body gets it."""

from __future__ import annotations

from typing import Any

from ipufeed.errors import UnsupportedElementError

# What the hardware's streams carry.
FEED_DTYPES = ("int32", "float32", "float16", "bool", "int8", "uint8")
# A tensor has at most 254, and a dequeue's those of the results and the replicas.
MOST_RANK = 252


def check_spec(spec: Any) -> list[Any]:
    """The flat tf.TensorSpecs of a dataset's elements.

    Raises:
        UnsupportedElementError: (a ValueError) A component is ragged, sparse, a nested
            dataset, a string or a variant.
        ValueError: A shape is not fully defined.
    """
    import tensorflow as tf

    flat: list[Any] = tf.nest.flatten(spec)
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


def body_arguments(element: Any) -> tuple[list[Any], dict[str, Any]]:
    """How a loop's body gets an element: positional and keyword arguments.

    A tuple or list is spread; a single dict whose keys are all strings, also alone in a
    tuple, becomes keyword arguments; anything else is one argument.
    """
    if isinstance(element, (tuple, list)) and not hasattr(element, "_fields"):
        if len(element) == 1 and is_keywords(element[0]):
            return [], dict(element[0])
        return list(element), {}
    if hasattr(element, "_fields"):
        return list(element), {}
    if is_keywords(element):
        return [], dict(element)
    return [element], {}


def is_keywords(value: Any) -> bool:
    """A dict that can be passed as keyword arguments."""
    return isinstance(value, dict) and all(isinstance(key, str) for key in value)


def check_results(flat: list[Any], name: str) -> None:
    """Raises for dtypes that feeds do not carry, and shapes that results cannot have."""
    import tensorflow as tf

    for index, tensor in enumerate(flat):
        if tensor.dtype.name not in FEED_DTYPES:
            raise tf.errors.FailedPreconditionError(
                None,
                None,
                f"Unsupported datatype {tensor.dtype.name} on index {index} of feed "
                f"operation with feed id '{name}'. Cast it with tf.cast to one of "
                f"({', '.join(FEED_DTYPES)}).",
            )
        if 0 in (tensor.shape.as_list() if tensor.shape.rank is not None else []):
            raise tf.errors.InvalidArgumentError(
                None,
                None,
                "Detected an input tensor to an outfeed queue with a dimension of size "
                "0. Please remove it from the inputs.",
            )
        if (tensor.shape.rank or 0) > MOST_RANK:
            raise tf.errors.InvalidArgumentError(
                None,
                None,
                f"Outfeed queue '{name}' takes tensors of at most {MOST_RANK} dimensions, "
                f"and tensor {index} has {tensor.shape.rank}. Reshape it first.",
            )


def as_tensors(values: Any, queue: str) -> Any:
    """The same structure of tensors.

    Args:
        values: Tensors, or what can be converted, in any structure.
        queue: What takes them, for the error.

    Raises:
        TypeError: A value cannot be a tensor; ValueError if that is what TensorFlow raises.
    """
    import tensorflow as tf

    try:
        return tf.nest.map_structure(tf.convert_to_tensor, values)
    except (TypeError, ValueError) as error:
        raise type(error)(
            f"{queue} takes tensors, and what becomes one, got {values!r}: {error}"
        ) from error
