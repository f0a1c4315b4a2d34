"""On which device an op is that is built now, and whether a queue of it may be used there.

A queue belongs to one IPU (`device_ordinal`): its ring is there, and a dequeue on the host
waits for the programs of that one.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any

# The attribute of a graph with its queue operations that had no device when built.
_NOTED = "_ipufeed_unplaced_queues"
_IPU = re.compile(r"/device:IPU(?::(\d+))?", re.IGNORECASE)
# What gives TensorFlow's context, once it has been imported here.
_context: Callable[[], Any] | None = None


def current_device() -> str:
    """The device that scopes give an op that is built now; "" for none."""
    eager = _eager_context()
    if not eager.executing_eagerly():
        from tensorflow.python.framework import func_graph, ops

        graph = ops.get_default_graph()
        while graph is not None:
            device = _device_of(graph)
            if device:
                return device
            is_function = isinstance(graph, func_graph.FuncGraph)
            graph = graph.outer_graph if is_function else None
        if not ops.executing_eagerly_outside_functions():
            return ""
    return eager.device_name or ""


def _eager_context() -> Any:
    """TensorFlow's context; each call of a tf.function asks for it."""
    global _context
    if _context is None:
        from tensorflow.python.eager import context

        _context = context.context
    return _context()


def _device_of(graph: Any) -> str:
    """The device that the scopes of a graph give an op; "" for none."""
    from tensorflow.core.framework import node_def_pb2

    node = node_def_pb2.NodeDef()
    for scope in graph._device_function_stack.peek_objs():
        if scope.is_null_merge:
            continue
        if scope.function is None:
            break
        node.device = scope.string_merge(node)
    return node.device if "/device:" in node.device else ""


def current_ordinal() -> int | None:
    """The IPU of an op that is built now; None on the host, or where no scope names one."""
    return _ordinal_of(current_device())


@functools.lru_cache(maxsize=256)
def _ordinal_of(device: str) -> int | None:
    """The IPU that a device's name says; None for another device."""
    found = _IPU.search(device)
    return int(found[1] or 0) if found else None


def check_placement(queue: str, ordinal: int) -> None:
    """Checks that a queue is used by a program of the IPU that it belongs to.

    What no scope places in a version 1 graph is noted there: `ipu_compiler.compile`
    places it, and calls check_noted().

    Args:
        queue: As an error names it.
        ordinal: The IPU that it belongs to.

    Raises:
        ValueError: The op that is built now is placed on another IPU.
    """
    current = current_ordinal()
    if current is not None:
        _check(queue, ordinal, current)
        return
    from tensorflow.python.framework import func_graph, ops

    if ops.executing_eagerly_outside_functions():
        return
    graph = ops.get_default_graph()
    while isinstance(graph, func_graph.FuncGraph):
        graph = graph.outer_graph
    noted = getattr(graph, _NOTED, [])
    noted.append((len(graph.get_operations()), queue, ordinal))
    setattr(graph, _NOTED, noted)


def check_noted(graph: Any, first_op: int, current: int) -> None:
    """Checks the queues of a program that has been placed once it was built.

    Args:
        graph: A version 1 graph.
        first_op: How many operations it had before the program.
        current: The IPU of the program.

    Raises:
        ValueError: A queue belongs to another one.
    """
    for number, queue, ordinal in getattr(graph, _NOTED, []):
        if number >= first_op:
            _check(queue, ordinal, current)


def _check(queue: str, ordinal: int, current: int) -> None:
    if current != ordinal:
        raise ValueError(
            f"{queue} belongs to /device:IPU:{ordinal}, and the program that uses it is "
            f"built for /device:IPU:{current}. Make the queue with "
            f"`device_ordinal={current}`, or inside the scope of the strategy that runs "
            "the program."
        )
