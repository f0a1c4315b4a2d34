"""Elements from nowhere: free, or at a price that is known."""

from __future__ import annotations

import operator
from typing import Any

from ipufeed.checks import as_int, as_number
from ipufeed.errors import SourceError

# References that the source goes through before it starts again: what an iterator costs
# at its start is then spread over that many elements.
ROUND = 1024
MOST_SECONDS = 3600.0


def synthetic(
    spec: Any,
    dtype: Any = None,
    *,
    elements: int | None = None,
    seconds: float = 0.0,
    seed: int = 0,
) -> Any:
    """The same element again and again, at next to no cost or at a given one.

    What it delivers is made once. A pipeline behind it shows what it takes itself; behind
    a source with `seconds` it shows whether it hides the time of its source.

    Args:
        spec: A shape, with `dtype`; or an `element_spec`: a nest of tf.TensorSpec.
        dtype: Of the tensor, where `spec` is a shape: a name or a tf.DType. Default:
            uint8.
        elements: How many. Default: for ever.
        seconds: Each takes so long, asleep: natively, and without CPU. In [1e-6, 3600]
            or 0, in steps of a microsecond. Default: 0.
        seed: Of the contents: uniform over [0, 1) for floats, over [0, 128) for integers,
            over both for bool, eight letters for strings. Default: 0.

    Returns:
        A tf.data.Dataset of that structure. Stages: `synthetic`, and `sleep` (TensorFlow
        has no name for it).

    Raises:
        TypeError, ValueError: An argument is of another kind, or out of range.
        SourceError: A shape is not fully defined, or there is no content for a dtype.
    """
    import numpy as np
    import tensorflow as tf

    nest = tf.nest.map_structure(to_spec, as_nest(spec, dtype))
    count = check_count(elements)
    microseconds = check_seconds(seconds)
    random = np.random.default_rng(operator.index(seed))
    element = tf.nest.map_structure(lambda each: content(each, random), nest)
    dataset = tf.data.Dataset.from_tensors(element, name="synthetic")
    # The cache holds references to one element. This is the cheapest source that tf.data
    # has; the benchmark calibrates with it, too.
    dataset = dataset.repeat(ROUND, name="synthetic").cache(name="synthetic")
    dataset = dataset.repeat(name="synthetic")
    if microseconds:
        from tensorflow.python.data.experimental.ops import testing

        dataset = dataset.apply(testing.sleep(microseconds))
    return dataset if count is None else dataset.take(count, name="synthetic")


def as_nest(spec: Any, dtype: Any) -> Any:
    """The nest of TensorSpecs that `spec` and `dtype` stand for.

    Raises:
        TypeError: They do not go together.
    """
    import tensorflow as tf

    is_shape = isinstance(spec, (list, tuple, tf.TensorShape)) and all(
        size is None or (hasattr(size, "__index__") and not isinstance(size, bool))
        for size in spec
    )
    if is_shape:
        try:
            return tf.TensorSpec(spec, tf.as_dtype(dtype or "uint8"))
        except (TypeError, ValueError) as error:
            raise TypeError(f"`spec` or `dtype`: {error}") from error
    if dtype is not None:
        raise TypeError(
            "`dtype` goes with a shape, and `spec` is none: put the dtypes into its "
            f"tf.TensorSpecs. Got {spec!r}."
        )
    return spec


def to_spec(spec: Any) -> Any:
    """The TensorSpec itself.

    Raises:
        TypeError: It is none.
        SourceError: Its shape is not fully defined.
    """
    import tensorflow as tf

    if not isinstance(spec, tf.TensorSpec):
        raise TypeError(
            "`spec` must be a shape such as (224, 224, 3), or a nest of tf.TensorSpec, "
            f"got a {type(spec).__name__}: {spec!r}."
        )
    if not spec.shape.is_fully_defined():
        raise SourceError(
            f"`spec` has the shape {spec.shape}, and an element needs all sizes: put "
            "numbers for None, as the batch size in tf.TensorSpec([32, 8], tf.float32)."
        )
    return spec


def check_count(elements: Any) -> int | None:
    """The number of elements as an int; None for no end.

    Raises:
        TypeError: It is not an int.
        ValueError: It is below 0.
    """
    if elements is None:
        return None
    count = as_int("elements", elements, " or None")
    if count < 0:
        raise ValueError(f"`elements` must be at least 0, got {elements!r}.")
    return count


def check_seconds(seconds: Any) -> int:
    """Microseconds.

    Raises:
        TypeError: It is not a number.
        ValueError: It is out of range.
    """
    amount = as_number("seconds", seconds)
    if amount and not 1e-6 <= amount <= MOST_SECONDS:
        raise ValueError(
            f"`seconds` must be 0 or in [1e-6, {MOST_SECONDS:g}], got {seconds!r}."
        )
    return round(amount * 1e6)


def content(spec: Any, random: Any) -> Any:
    """A tensor of that spec.

    Raises:
        SourceError: There is no content for such a dtype.
    """
    import numpy as np
    import tensorflow as tf

    shape, dtype = spec.shape.as_list(), spec.dtype
    if dtype.is_bool:
        return tf.constant(random.integers(0, 2, shape) == 1)
    if dtype.is_integer and not dtype.is_quantized:
        return tf.cast(tf.constant(random.integers(0, 128, shape, np.uint8)), dtype)
    if dtype.is_floating or dtype.is_complex:
        return tf.cast(tf.constant(random.random(shape, np.float32)), dtype)
    if dtype == tf.string:
        letters = random.integers(ord("a"), ord("z") + 1, (*shape, 8), np.uint8)
        flat = [row.tobytes() for row in letters.reshape(-1, 8)]
        return tf.reshape(tf.constant(flat, tf.string), shape)
    raise SourceError(
        f"`spec` has the dtype {dtype.name}, for which there is no content: numbers, bool "
        "and strings have one."
    )
