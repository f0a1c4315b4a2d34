"""The iterations of a loop: the count as an input, and the constant bound for gradients."""

from __future__ import annotations

import functools
import inspect
import weakref
from dataclasses import dataclass

import tensorflow as tf
from tensorflow.python.eager import record
from tensorflow.python.ops import gradients_util

from ipufeed.checks import as_int, is_int
from ipufeed.once import once
from ipufeed.queues.chain import host_number
from ipufeed.tf_patches.changes import replace
from ipufeed.tf_types import Graph, Nest, Tensor, TensorLike

_BOUND_INPUT = 1  # of a While operation: after its counter


@dataclass(frozen=True)
class Bound:
    """The largest number of a loop's iterations, as a constant for its gradients.

    Gradients store the values of each iteration, and XLA needs a constant bound for the
    number. A program without gradients of the loop does not depend on it.

    Attributes:
        context: A constant for TensorFlow's version 1 loop, which uses it only if
            gradients are built. None: unknown, or the loop is not of version 1.
        argument: The maximum_iterations of TensorFlow's version 2 loop.
        later: The same, for a loop whose gradients only tf.gradients may build later.
    """

    context: Tensor | None = None
    argument: int | None = None
    later: int | None = None

    @staticmethod
    def of(n: TensorLike | None, use_while_v1: bool) -> Bound:
        """Returns the bound of a Python integer; an empty one for a tensor or None."""
        if n is None or tf.is_tensor(n) or tf.executing_eagerly():
            return Bound()
        if not is_int(n) or not 0 <= n < 2**31:  # the error is run_time_value's
            return Bound()
        n = max(int(n), 1)  # XLA has no lists of no values
        in_function = tf.compat.v1.get_default_graph().building_function
        if not in_function and use_while_v1:
            return Bound(context=tf.constant(n, tf.int32, name="maximum_iterations"))
        # In a function the tape exists already; in a graph tf.gradients may follow.
        if in_function and not record.could_possibly_record():
            return Bound(later=n)
        return Bound(argument=n)

    def note(self, result: Tensor) -> None:
        """Records the loop that has this result, in case tf.gradients needs its bound."""
        if self.later is None:
            return
        _bound_by_gradients()
        op = result.op
        while op.type == "Identity":
            op = op.inputs[0].op
        if op.type in ("While", "StatelessWhile"):
            _unbounded.setdefault(op.graph, []).append((op.name, self.later))


# The names of loops in a function's graph that have no bound, and the one that they would
# have. An operation would keep its graph.
_unbounded: weakref.WeakKeyDictionary[Graph, list[tuple[str, int]]] = (
    weakref.WeakKeyDictionary()
)


@once
def _bound_by_gradients() -> None:
    """Makes tf.gradients set the bounds of the loops in the graph that it follows.

    The condition of a loop without a bound does not read its input of that name. So the
    program depends on the number only from there on.
    """
    stock = gradients_util._GradientsHelper
    signature = inspect.signature(stock)

    @functools.wraps(stock)
    def helper(*arguments: Nest, **keywords: Nest) -> Nest:
        bound = signature.bind(*arguments, **keywords).arguments
        graph = bound.get("src_graph") or tf.compat.v1.get_default_graph()
        for name, n in _unbounded.pop(graph, []):
            with graph.as_default(), tf.control_dependencies(None):
                limit = tf.constant(n, tf.int32, name="maximum_iterations")
            graph.get_operation_by_name(name)._update_input(_BOUND_INPUT, limit)
        return stock(*arguments, **keywords)

    replace(gradients_util, "_GradientsHelper", helper)


def run_time_value(name: str, n: TensorLike) -> Tensor:
    """Returns a count as an input of the program, instead of a constant in it.

    Args:
        name: The argument's name, for errors.
        n: Its value: an int, or a scalar tensor of int32 or int64.

    Raises:
        TypeError: It is of another type.
        ValueError: It is not a scalar, or an int that is negative or does not fit.
    """
    if tf.is_tensor(n):
        if n.dtype not in (tf.int32, tf.int64):
            raise TypeError(
                f"`{name}` must be an int, or a scalar tensor of int32 or int64, got a "
                f"tensor of {n.dtype.name}. Cast it with tf.cast."
            )
        if n.shape.rank not in (None, 0):
            raise ValueError(
                f"`{name}` must be a scalar, got a tensor of shape {n.shape}. Take one "
                "element of it."
            )
        return tf.reshape(n, [])
    n = as_int(name, n, ", or a scalar tensor of int32 or int64")
    if n < 0:
        raise ValueError(
            f"`{name}` must be at least 0, got {n}. Use 0 for a loop without iterations."
        )
    if n >= 2**63:
        raise ValueError(f"`{name}` must fit 64 bits, got {n}.")
    return host_number(n)
