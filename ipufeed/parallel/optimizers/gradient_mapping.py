"""The function of the optimizers that map gradients, of TensorFlow 1 and of Keras."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any


class GradientMapping:
    """Maps the gradients of pairs of a gradient and a variable.

    Args:
        function: Takes a gradient and its variable, and returns the gradient to use. It is
            not called for variables without a gradient.

    Raises:
        TypeError: The function cannot be called.
    """

    def __init__(self, function: Callable[[Any, Any], Any]) -> None:
        if not callable(function):
            raise TypeError(
                "`gradient_mapping_function` must be a function of a gradient and its "
                f"variable, got {type(function).__name__}."
            )
        self._function = function

    def __call__(self, pairs: Iterable[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
        """The pairs with the mapped gradients; a gradient None stays None."""
        return [
            (None if gradient is None else self._function(gradient, variable), variable)
            for gradient, variable in pairs
        ]
