"""Functions that an IPU compiles once and calls several times."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator

import tensorflow as tf
from tensorflow.python.framework import ops

from ipufeed.checks import flags_checked
from ipufeed.no_effect import no_effect
from ipufeed.tf_types import Graph, Nest, NestFunction, Tensor, TensorLike


@flags_checked
def outlined_function(
    func: NestFunction | None = None,
    unique_sharding: bool = False,
    keep_input_layouts: bool | None = None,
    name: str | None = None,
) -> NestFunction:
    """Wraps a function that an IPU compiles once for all of its calls.

        @outlined_function
        def block(x):
            return tf.nn.relu(x @ weights)

    A simulated IPU inlines each call: the results are those of the function. The op
    attributes and gradient overrides at the decoration apply in the function.

    Args:
        func: A function of tensors that returns a structure of tensors; None stays None.
        unique_sharding: A hint, without an effect here.
        keep_input_layouts: A hint, without an effect here.
        name: The name scope of each call. Default: "function".

    Returns:
        The function; without func a decorator.

    Raises:
        TypeError: `func` cannot be called.
        ValueError: At a call: the function returns no tensor.
    """
    if unique_sharding:
        no_effect(
            "outlined_function(unique_sharding=)",
            "each call is computed on the IPU where it is written",
        )
    if keep_input_layouts:
        no_effect(
            "outlined_function(keep_input_layouts=)",
            "tensors have one layout in the memory of the host",
        )

    def decorate(function: NestFunction) -> NestFunction:
        if not callable(function):
            raise TypeError(
                f"`func` must be a function, got {type(function).__name__}."
            )
        return _outlined(function, name or "function")

    return decorate if func is None else decorate(func)


def _outlined(function: NestFunction, name: str) -> NestFunction:
    graph = ops.get_default_graph()
    attributes = dict(graph._attr_scope_map)
    overrides = dict(graph._gradient_override_map)

    @functools.wraps(function)
    def call(*args: Tensor) -> Nest:
        inner = ops.get_default_graph()
        with (
            inner._attr_scope(attributes),
            _overrides_of(inner, overrides),
            tf.name_scope(name),
        ):
            inputs = tf.nest.map_structure(_as_tensor, list(args))
            results = tf.nest.map_structure(_as_tensor, function(*inputs))
        if all(each is None for each in tf.nest.flatten(results)):
            raise ValueError(
                "An outlined function must return at least one tensor, got "
                f"{results!r} of {getattr(function, '__name__', function)!r}."
            )
        return results

    return call


@contextlib.contextmanager
def _overrides_of(graph: Graph, overrides: dict[str, str]) -> Iterator[None]:
    """Replaces the caller's gradient overrides in this context."""
    before = graph._gradient_override_map
    graph._gradient_override_map = overrides
    try:
        yield
    finally:
        graph._gradient_override_map = before


def _as_tensor(value: TensorLike | None) -> Tensor | None:
    if value is None:
        return None
    try:
        return tf.convert_to_tensor(value)
    except (TypeError, ValueError) as error:
        raise TypeError(
            "The arguments of an outlined function must be tensors, or numbers and arrays, "
            f"got {type(value).__name__}. Let the function use the object from around it: "
            "of a method, outline a function that is defined inside it."
        ) from error
