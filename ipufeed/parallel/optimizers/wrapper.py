"""The base class of optimizers that wrap another one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import tensorflow as tf

from ipufeed.checks import check_name
from ipufeed.parallel.optimizers.arguments import as_pairs
from ipufeed.parallel.optimizers.outside_variables import variables_outside
from ipufeed.tf_types import GradAndVar, Operation, Optimizer, Variable

_Optimizer: Any = tf.compat.v1.train.Optimizer


def accumulator_in(opt: Optimizer) -> Optimizer:
    """Finds the outermost optimizer that accumulates gradients: it, or one it wraps.

    Returns:
        The optimizer, whose `_num_mini_batches` is not 1; or None.
    """
    while opt is not None and getattr(opt, "_num_mini_batches", 1) == 1:
        opt = getattr(opt, "_opt", None)
    return opt


class IpuOptimizer(_Optimizer):  # type: ignore[misc]
    """Delegates to the wrapped optimizer; subclasses override a part.

    Args:
        opt: A TensorFlow 1 optimizer (tf.compat.v1.train), which may be an IpuOptimizer.
        name: The name of its ops and variables.

    Raises:
        TypeError: `name` is not a str.
        ValueError: `opt` is a Keras (TensorFlow 2) optimizer, or not an optimizer.

    Source: Graphcore's class of this name.
    """

    # The part of the error on how to use a Keras optimizer instead.
    _for_keras = ""

    def __init__(self, opt: Optimizer, name: str | None = None) -> None:
        check_name(name)
        name = name or type(self).__name__
        if not isinstance(opt, _Optimizer):
            raise ValueError(
                f"{type(self).__name__} wraps TensorFlow 1 optimizers "
                "(tf.compat.v1.train.GradientDescentOptimizer and the like), not Keras or "
                f"TensorFlow 2 ones: got {type(opt).__module__}.{type(opt).__name__}."
                f"{self._for_keras}"
            )
        super().__init__(use_locking=False, name=name)
        self._opt = opt

    def compute_gradients(self, *args: object, **kwargs: object) -> list[GradAndVar]:
        """Builds the wrapped optimizer's gradients: a pair for each variable."""
        gradients: list[GradAndVar] = self._opt.compute_gradients(*args, **kwargs)
        return gradients

    def apply_gradients(
        self,
        grads_and_vars: Iterable[GradAndVar],
        global_step: Variable = None,
        name: str | None = None,
    ) -> Operation:
        """Builds the op in which the wrapped optimizer updates the variables.

        Raises:
            TypeError: `grads_and_vars` are not pairs.
        """
        pairs = as_pairs(grads_and_vars)
        # An optimizer that is made in the body of a loop creates its state here.
        with variables_outside():
            return self._opt.apply_gradients(pairs, global_step, name)

    def get_slot(self, var: Variable, name: str) -> Variable:
        """Returns the wrapped optimizer's state of a variable; see tf.compat.v1.train."""
        return self._opt.get_slot(var, name)

    def get_slot_names(self, *args: object, **kwargs: object) -> list[str]:
        """Returns the names of the wrapped optimizer's states."""
        names: list[str] = self._opt.get_slot_names(*args, **kwargs)
        return names

    def variables(self) -> list[Variable]:
        """Returns the state of both optimizers."""
        return [*super().variables(), *self._opt.variables()]
