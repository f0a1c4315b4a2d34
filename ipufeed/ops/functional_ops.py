"""Functions that an IPU compiles once and calls at several places."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

from ipufeed.checks import flags_checked
from ipufeed.no_effect import no_effect


@flags_checked
def outlined_function(
    func: Callable[..., Any] | None = None,
    unique_sharding: bool = False,
    keep_input_layouts: bool | None = None,
    name: str | None = None,
) -> Any:
    """Makes a function whose code an IPU has once, however often it is called.

        @outlined_function
        def block(x):
            return tf.nn.relu(x @ weights)

    A simulated IPU computes each call where it is: the results are those of the function.
    Attributes and gradient overrides of the place of the decoration hold inside.

    Args:
        func: Takes tensors and returns a structure of tensors; None stays None.
        unique_sharding: A hint, without an effect here.
        keep_input_layouts: A hint, without an effect here.
        name: Of the name scope of each call. Default: "function".

    Returns:
        The function; without func a decorator.

    Raises:
        TypeError: `func` cannot be called.
        ValueError: When it is called: no tensor comes back.
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

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        if not callable(function):
            raise TypeError(
                f"`func` must be a function, got {type(function).__name__}."
            )
        return _outlined(function, name or "function")

    return decorate if func is None else decorate(func)


def _outlined(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    import tensorflow as tf
    from tensorflow.python.framework import ops

    graph = ops.get_default_graph()
    attributes = dict(graph._attr_scope_map)
    overrides = dict(graph._gradient_override_map)

    @functools.wraps(function)
    def call(*args: Any) -> Any:
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
def _overrides_of(graph: Any, overrides: dict[str, str]) -> Iterator[None]:
    """Gradient overrides in place of those of the caller, whose code this is not."""
    before = graph._gradient_override_map
    graph._gradient_override_map = overrides
    try:
        yield
    finally:
        graph._gradient_override_map = before


def _as_tensor(value: Any) -> Any:
    import tensorflow as tf

    return None if value is None else tf.convert_to_tensor(value)
