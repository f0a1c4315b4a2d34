"""Synthetic elements, at no cost or at a given one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ipufeed.checks import as_count, as_int, as_number
from ipufeed.errors import SourceError
from ipufeed.tf_types import Spec, Tensor

if TYPE_CHECKING:
    import numpy as np
    import tensorflow as tf

# Cached references in a round: the cost of starting an iterator is spread over them.
ROUND = 1024
MOST_SECONDS = 3600.0


def synthetic(
    spec: Spec,
    dtype: tf.DType | str | None = None,
    *,
    elements: int | None = None,
    seconds: float = 0.0,
    seed: int = 0,
) -> tf.data.Dataset:
    """Returns a dataset of the same element, at the least cost or at a given one.

    The element is made once. A pipeline on top of it shows its own cost; on a source with
    `seconds` it shows whether it overlaps with its source.

    Args:
        spec: A shape, with `dtype`; or an `element_spec`: a nest of tf.TensorSpec.
        dtype: Dtype of the tensor if `spec` is a shape: a name or a tf.DType. Default:
            uint8.
        elements: Number of elements. Default: infinite.
        seconds: Seconds for each element, spent asleep in native code (no CPU time). 0 or
            in [1e-6, 3600], in steps of a microsecond. Default: 0.
        seed: Seed of the content: uniform over [0, 1) for floats, over [0, 128) for
            integers, over both for bool, eight letters for strings. Default: 0.

    Returns:
        A tf.data.Dataset of that structure. Stages: `synthetic`, and `sleep` (TensorFlow
        has no name for it).

    Raises:
        TypeError, ValueError: An argument is of another type, or out of range.
        SourceError: A shape is not fully defined, or there is no content for a dtype.
    """
    import numpy as np
    import tensorflow as tf

    nest = tf.nest.map_structure(_check_spec, _as_nest(spec, dtype))
    if not tf.nest.flatten(nest):
        raise ValueError(f"`spec` must hold a tf.TensorSpec at least, got {spec!r}.")
    count = _check_count(elements)
    microseconds = _check_seconds(seconds)
    random = np.random.default_rng(as_count("seed", seed, least=0))
    element = tf.nest.map_structure(lambda each: _content(each, random), nest)
    dataset = tf.data.Dataset.from_tensors(element, name="synthetic")
    # The cache holds references to one element: the cheapest source of tf.data, which the
    # calibration of the benchmark uses, too.
    dataset = dataset.repeat(ROUND, name="synthetic").cache(name="synthetic")
    dataset = dataset.repeat(name="synthetic")
    if microseconds:
        from tensorflow.python.data.experimental.ops import testing

        dataset = dataset.apply(testing.sleep(microseconds))
    return dataset if count is None else dataset.take(count, name="synthetic")


def _as_nest(spec: Spec, dtype: tf.DType | str | None) -> Spec:
    """Returns the nest of TensorSpecs of a shape and a dtype, or `spec` itself."""
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
            "`dtype` goes with a shape: put the dtypes into the tf.TensorSpecs of `spec`, "
            f"got {spec!r}."
        )
    return spec


def _check_spec(spec: object) -> tf.TensorSpec:
    import tensorflow as tf

    if not isinstance(spec, tf.TensorSpec):
        raise TypeError(
            "`spec` must be a shape such as (224, 224, 3), or a nest of tf.TensorSpec, "
            f"got a {type(spec).__name__}: {spec!r}."
        )
    if not spec.shape.is_fully_defined():
        raise SourceError(
            f"`spec` has the shape {spec.shape}, and an element needs all sizes: replace "
            "None by numbers, as the batch size in tf.TensorSpec([32, 8], tf.float32)."
        )
    return spec


def _check_count(elements: int | None) -> int | None:
    if elements is None:
        return None
    count = as_int("elements", elements, " or None")
    if count < 0:
        raise ValueError(f"`elements` must be at least 0, got {elements!r}.")
    if count >= 2**63:
        raise ValueError(f"`elements` must be below 2**63, got {elements!r}.")
    return count


def _check_seconds(seconds: float) -> int:
    """Returns checked seconds as microseconds."""
    amount = as_number("seconds", seconds)
    if amount and not 1e-6 <= amount <= MOST_SECONDS:
        raise ValueError(
            f"`seconds` must be 0 or in [1e-6, {MOST_SECONDS:g}], got {seconds!r}."
        )
    return round(amount * 1e6)


def _content(spec: tf.TensorSpec, random: np.random.Generator) -> Tensor:
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
        f"`spec` has the dtype {dtype.name}, for which there is no content: use numbers, "
        "bool or strings."
    )
