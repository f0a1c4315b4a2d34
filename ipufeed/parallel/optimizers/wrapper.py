"""What the optimizers that wrap another one have in common."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from ipufeed.parallel.optimizers.lifting import variables_outside

Optimizer: Any = tf.compat.v1.train.Optimizer


def accumulator_in(opt: Any) -> Any:
    """The outermost optimizer that accumulates gradients: it, or one that it wraps.

    Returns:
        One with `_num_mini_batches` other than 1; None if there is none.
    """
    while opt is not None and getattr(opt, "_num_mini_batches", 1) == 1:
        opt = getattr(opt, "_opt", None)
    return opt


class IpuOptimizer(Optimizer):  # type: ignore[misc]
    """Passes everything on to the optimizer that it wraps; subclasses change a part.

    Args:
        opt: A TensorFlow 1 optimizer (tf.compat.v1.train), or another one of these.
        name: Of its ops and variables.

    Raises:
        ValueError: `opt` is a Keras (TensorFlow 2) optimizer, or none.

    Source: Graphcore's class of this name.
    """

    # What to do in place of wrapping a Keras optimizer, if there is something.
    _for_keras = ""

    def __init__(self, opt: Any, name: str | None = None) -> None:
        name = name or type(self).__name__
        if not isinstance(opt, Optimizer):
            raise ValueError(
                f"{type(self).__name__} wraps TensorFlow 1 optimizers "
                "(tf.compat.v1.train.GradientDescentOptimizer and the like), not Keras or "
                f"TensorFlow 2 ones: got {type(opt).__module__}.{type(opt).__name__}."
                f"{self._for_keras}"
            )
        super().__init__(use_locking=False, name=name)
        self._opt = opt

    def compute_gradients(self, *args: Any, **kwargs: Any) -> list[tuple[Any, Any]]:
        """The wrapped optimizer's gradients: (gradient, variable) of each variable."""
        gradients: list[tuple[Any, Any]] = self._opt.compute_gradients(*args, **kwargs)
        return gradients

    def apply_gradients(
        self, grads_and_vars: Any, global_step: Any = None, name: str | None = None
    ) -> Any:
        """The op in which the wrapped optimizer updates the variables."""
        # Its state, of an optimizer that is made in the body of a loop, is made here.
        with variables_outside():
            return self._opt.apply_gradients(grads_and_vars, global_step, name)

    def get_slot(self, var: Any, name: str) -> Any:
        """The wrapped optimizer's state of a variable; see tf.compat.v1.train."""
        return self._opt.get_slot(var, name)

    def get_slot_names(self, *args: Any, **kwargs: Any) -> list[str]:
        """The names of the wrapped optimizer's states."""
        names: list[str] = self._opt.get_slot_names(*args, **kwargs)
        return names

    def variables(self) -> list[Any]:
        """What the optimizers keep between updates."""
        return [*super().variables(), *self._opt.variables()]
