"""How often a loop runs at most, for its gradients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Bound:
    """How often a loop runs at most, as a constant of the program, for its gradients.

    Gradients keep what each iteration has computed, and XLA must know for how many. A
    program without gradients of the loop does not depend on it.

    Attributes:
        context: A constant that TensorFlow's version 1 loop gets, and uses only if
            gradients are built. None: none is known, or the loop is not of version 1.
        argument: What is given to TensorFlow's version 2 loop.
    """

    context: Any = None
    argument: int | None = None

    @staticmethod
    def of(n: Any, use_while_v1: bool) -> Bound:
        """That of a Python integer; a tensor, and None, give none."""
        import tensorflow as tf
        from tensorflow.python.eager import record

        if n is None or tf.is_tensor(n) or tf.executing_eagerly():
            return Bound()
        n = int(n)
        if not 0 <= n < 2**31:  # the error is raised elsewhere
            return Bound()
        in_function = tf.compat.v1.get_default_graph().building_function
        if not in_function and use_while_v1:
            return Bound(context=tf.constant(n, tf.int32, name="maximum_iterations"))
        # In a function a tape is there before; in a graph tf.gradients may come later.
        if in_function and not record.could_possibly_record():
            return Bound()
        return Bound(argument=n)
