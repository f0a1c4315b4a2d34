"""Makes tf.while_loop a training loop, in whose body gradients can be accumulated.

    version 2   a While operation   its first input and output is TensorFlow's own counter
    version 1   Enter, Switch, ...  TensorFlow adds a counter to a loop, on request

Nothing is added to a loop whose body accumulates nothing.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import tensorflow as tf
from tensorflow.python.ops import control_flow_ops, while_v2

from ipufeed.device.program.training_loop import TrainingLoop, checked_count, inside
from ipufeed.tf_patches.changes import replace
from ipufeed.tf_types import Graph, Nest, NestFunction, Operation, Tensor


class _PlainLoop(TrainingLoop):
    """A tf.while_loop. The number of its iterations is known after its last one.

    Args:
        context: The WhileContext of a version 1 loop; None for version 2.
    """

    def __init__(self, context: Any = None) -> None:
        super().__init__()
        self._context = context
        self._body: Graph = None
        self._counters: tuple[Tensor, Tensor] | None = None  # iteration, count
        self._start: Operation | None = None
        self._mini_batches = 1
        self._later: list[Callable[[Operation], None]] = []

    @property
    def iteration(self) -> Tensor:
        """The number of the iteration, from 0: an int32 scalar of the body."""
        if self._context is None:
            return self._body.inputs[0]
        if self._counters is None:
            self._counters = _added_counter(self._context)
        return self._counters[0]

    @iteration.setter
    def iteration(self, value: None) -> None:
        """Accepts the dataclass's default, which a plain loop does not use."""

    def require_multiple(self, mini_batches: int) -> None:
        """Makes the program refuse a loop whose count is not a multiple."""
        self._mini_batches = math.lcm(self._mini_batches, mini_batches)

    def at_start(self, add: Callable[[Operation], None]) -> None:
        """Calls `add` with an operation that runs before the outermost loop."""
        if self.outer is not None:
            self.outer.at_start(add)
        elif self._context is not None:
            if self._start is None:
                self._start = _added_start(self._context)
            add(self._start)
        else:
            self._later.append(add)

    def traced(self, body: NestFunction) -> NestFunction:
        """Wraps the loop's body."""

        def trace(*args: Nest) -> Nest:
            self._body = tf.compat.v1.get_default_graph()
            with inside(self):
                results = body(*args)
                refused = self.refused_uses(tf.nest.flatten(results))
            if not refused:
                return results
            with tf.control_dependencies(refused):
                return _passed_on(results)

        return trace

    def checked(self, results: Nest) -> Nest:
        """Returns the loop's results, which need the number of iterations to be right."""
        for add in self._later:
            add(_while_operation(self._body.name))
        if self._mini_batches == 1:
            return results
        if self._context is None:
            count = _while_operation(self._body.name).outputs[0]
        else:
            _ = self.iteration
            assert self._counters is not None
            count = self._counters[1]
        with tf.control_dependencies([checked_count(count, self._mini_batches)]):
            return _passed_on(results)


def _added_counter(context: Any) -> tuple[Tensor, Tensor]:
    """Adds a counter to a version 1 loop; returns the iteration, and the count after it."""
    graph = tf.compat.v1.get_default_graph()
    with tf.control_dependencies(None):
        graph._set_control_flow_context(context.outer_context)
        count, following = context.AddForwardLoopCounter(None)
    addition = following.op.inputs[0].op
    return addition.inputs[0], count


def _added_start(context: Any) -> Operation:
    """Adds an operation that runs before a version 1 loop, and returns it.

    It is between the first carried value and its Enter operation: XLA does not keep the
    control inputs of the latter.
    """
    enter = context.loop_enters[0].op
    # The current graph may be that of a branch in the loop's body.
    with enter.graph.as_default(), tf.control_dependencies(None):
        enter.graph._set_control_flow_context(context.outer_context)
        start = tf.identity(enter.inputs[0])
    enter._update_input(0, start)
    return start.op


def _while_operation(body: str) -> Operation:
    """Returns the While operation of the current graph that has a body."""
    operations = tf.compat.v1.get_default_graph().get_operations()
    return next(
        op
        for op in reversed(operations)
        if op.type in ("While", "StatelessWhile") and op.get_attr("body").name == body
    )


def _passed_on(results: Nest) -> Nest:
    """Returns identities of tensors and TensorArrays, with the current dependencies."""
    return tf.nest.map_structure(
        lambda each: (
            each.identity() if isinstance(each, tf.TensorArray) else tf.identity(each)
        ),
        results,
        expand_composites=True,
    )


@functools.cache
def install() -> None:
    """Replaces the functions that build TensorFlow's two loops, once."""
    stock, context = while_v2.while_loop, control_flow_ops.WhileContext
    stock_v1 = context.BuildLoop

    @functools.wraps(stock)
    def while_loop(
        cond: NestFunction, body: NestFunction, *args: Any, **kw: Any
    ) -> Nest:
        loop = _PlainLoop()
        return loop.checked(stock(cond, loop.traced(body), *args, **kw))

    @functools.wraps(stock_v1)
    def build_loop(
        self: Any, pred: NestFunction, body: NestFunction, *args: Any, **kw: Any
    ) -> Nest:
        loop = _PlainLoop(self)
        return loop.checked(stock_v1(self, pred, loop.traced(body), *args, **kw))

    replace(while_v2, "while_loop", while_loop)
    replace(context, "BuildLoop", build_loop)
