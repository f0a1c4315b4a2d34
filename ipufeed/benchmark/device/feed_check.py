"""Checks that an infeed can carry a dataset; the error names the edit that is needed."""

from __future__ import annotations

import tensorflow as tf
from tensorflow.python.util import nest

from ipufeed.errors import UnsupportedElementError
from ipufeed.queues.structure import FEED_DTYPES, check_spec
from ipufeed.sources.loaders.element_arrays import CARRIED
from ipufeed.tf_types import Shape, Spec, TensorSpec


def check_feedable(spec: Spec) -> list[TensorSpec]:
    """Returns the flat specs of the elements, if an infeed carries all of them.

    Args:
        spec: A dataset's element_spec.

    Raises:
        UnsupportedElementError: (a ValueError) A component is of another dtype, is not
            a dense tensor, or has no fixed shape; the message has the edit to make.
    """
    named = [
        (_component_name(path), component)
        for path, component in nest.flatten_with_joined_string_paths(spec)
    ]
    for name, component in named:
        if isinstance(component, tf.TensorSpec):
            _check_shape(name, component.shape)
    try:
        flat = check_spec(spec)
    except UnsupportedElementError as error:
        raise UnsupportedElementError(f"--through device: {error}") from error
    wrong = [
        (name, component.dtype.name)
        for name, component in named
        if component.dtype.name not in FEED_DTYPES
    ]
    if wrong:
        found = ", ".join(f"{name} is {dtype}" for name, dtype in wrong)
        raise UnsupportedElementError(
            f"--through device: {found}, which a feed does not carry. It carries "
            f"{', '.join(FEED_DTYPES)}. Put `{_cast_edit(spec)}` at the end of the "
            "pipeline."
        )
    return flat


def _check_shape(name: str, shape: Shape) -> None:
    if shape.is_fully_defined():
        if 0 in shape.as_list():
            raise UnsupportedElementError(
                f"--through device: {name} has the shape {shape}, and a feed carries no "
                "dimension of size 0. Leave it out of the elements, of a dataset with "
                "`.map(...)`."
            )
        return
    sizes = None if shape.rank is None else shape.as_list()
    if sizes is not None and sizes[0] is None and None not in sizes[1:]:
        edit = "`.batch(N, drop_remainder=True)`, which gives every batch N rows"
    else:
        edit = (
            "`.padded_batch(..., padded_shapes=..., drop_remainder=True)`, or a "
            "`.map(...)` with tf.ensure_shape where the shape is always the same"
        )
    raise UnsupportedElementError(
        f"--through device: {name} has the shape {shape}, and the elements of a feed "
        f"are all of one size. Use {edit}."
    )


def _component_name(path: str) -> str:
    """Returns a component's name: its place in the structure, or `the element`."""
    return f"component {path}" if path else "the element"


def _cast_edit(spec: Spec) -> str:
    """Returns the `.map` that casts the components that must be cast."""

    def cast(value: str, component: TensorSpec) -> str:
        target = CARRIED.get(component.dtype.name)
        return value if target is None else f"tf.cast({value}, tf.{target})"

    if isinstance(spec, tf.TensorSpec):
        return f".map(lambda x: {cast('x', spec)})"
    if isinstance(spec, dict) and all(
        isinstance(component, tf.TensorSpec) for component in spec.values()
    ):
        changed = ", ".join(
            f"{key!r}: " + cast(f"x[{key!r}]", component)
            for key, component in spec.items()
            if component.dtype.name in CARRIED
        )
        return f".map(lambda x: {{**x, {changed}}})"
    if (
        isinstance(spec, tuple)
        and not hasattr(spec, "_fields")
        and all(isinstance(component, tf.TensorSpec) for component in spec)
    ):
        names = [f"x{number}" for number in range(len(spec))]
        results = ", ".join(map(cast, names, spec))
        comma = "," if len(names) == 1 else ""
        return f".map(lambda {', '.join(names)}: ({results}{comma}))"
    return ".map(f)` with a function f that applies `tf.cast(component, tf.int32)"
