"""Sums that live as long as a loop: state of a program, and no variable of the user's.

They are in no collection, so that no saver, checkpoint or initializer knows them. What is
in one before the loop is of no use: a sum begins with its first mini-batch. In a version 1
graph the program itself makes it zeros before the loop, since TensorFlow refuses to read
what has never been written.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from ipufeed.device.program.training_loop import TrainingLoop
from ipufeed.parallel.optimizers.lifting import variables_outside

_v1 = tf.compat.v1


class Accumulator:
    """A sum over iterations of a loop.

    Args:
        shape: Of the tensors that are added up.
        dtype: Of the sum.
        loop: The loop whose body is being built.
        name: Of its operations.
        device: Where it is. Default: where the program is being built.

    Threads: those of the program that is being built.
    """

    def __init__(
        self,
        shape: Any,
        dtype: Any,
        loop: TrainingLoop,
        name: str,
        device: str | None = None,
    ) -> None:
        with variables_outside(), tf.init_scope(), tf.device(device):
            self._variable = _v1.Variable(
                initial_value=lambda: tf.zeros(shape, dtype),
                trainable=False,
                collections=[],
                use_resource=True,
                name=name,
                dtype=dtype,
                experimental_enable_variable_lifting=False,
            )
        if not tf.executing_eagerly() and not loop.count.graph.building_function:
            self._begin_with_zeros(loop.count, shape, dtype)

    def _begin_with_zeros(self, before: Any, shape: Any, dtype: Any) -> None:
        """Has the program write zeros before the op that the loop waits for."""
        with before.graph.as_default(), tf.control_dependencies(None):
            context = before._get_control_flow_context()
            if context is not None:
                context.Enter()
            try:
                zeros = tf.zeros(shape, dtype)
                before._add_control_input(
                    self._variable.assign(zeros, read_value=False)
                )
            finally:
                if context is not None:
                    context.Exit()

    def value(self) -> Any:
        """The sum so far."""
        return self._variable.read_value()

    def store(self, total: Any) -> list[Any]:
        """Makes it the sum so far.

        Returns:
            The operation that does it; nothing in eager mode, where it is done.
        """
        stored = self._variable.assign(total, read_value=False)
        return [] if stored is None else [stored]
