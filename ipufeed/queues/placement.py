"""Finds the device of the op that is being built, and checks that it is the queue's IPU.

A queue belongs to one IPU (`device_ordinal`): that IPU has its ring, and a dequeue on the
host waits for that IPU's programs.
"""

from __future__ import annotations

import functools
import re

import tensorflow as tf
from tensorflow.core.framework import node_def_pb2
from tensorflow.python.eager import context
from tensorflow.python.framework import errors, func_graph, ops

from ipufeed.queues.xla_errors import own_text
from ipufeed.tf_types import Dataset, Graph

# The attribute of a graph that lists its queue operations that were built without a device.
_NOTED = "_ipufeed_unplaced_queues"
_IPU = re.compile(r"/device:IPU(?::(\d+))?", re.IGNORECASE)


def current_device() -> str:
    """Returns the device that the scopes assign to a new op; "" for none."""
    eager = context.context()
    if not eager.executing_eagerly():
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


def _device_of(graph: Graph) -> str:
    """Returns the device that the graph's scopes give to a new op; "" for none.

    Colocation comes first, as in TensorFlow: tf.gradients and `minimize(...,
    colocate_gradients_with_ops=True)` of a version 1 graph build each gradient in the
    scope of its op's colocation, which leaves the scopes of devices.
    """
    for neighbour in graph._colocation_stack.peek_objs():
        if neighbour.device:
            device = str(neighbour.device)
            return device if "/device:" in device else ""
    node = node_def_pb2.NodeDef()
    for scope in graph._device_function_stack.peek_objs():
        if scope.is_null_merge:
            continue
        if scope.function is None:
            break
        node.device = scope.string_merge(node)
    return node.device if "/device:" in node.device else ""


def current_ordinal() -> int | None:
    """Returns the IPU of a new op; None for the host, or if the scopes name no device."""
    return _ordinal_of(current_device())


@functools.lru_cache(maxsize=256)
def _ordinal_of(device: str) -> int | None:
    found = _IPU.search(device)
    return int(found[1] or 0) if found else None


def check_placement(queue: str, ordinal: int) -> None:
    """Checks that a queue is used by a program of its own IPU.

    An op of a version 1 graph that no scope places is recorded in the graph:
    `ipu_compiler.compile` places it later, and calls check_noted().

    Args:
        queue: The queue's name in an error.
        ordinal: The queue's IPU.

    Raises:
        ValueError: The scopes place the new op on another IPU.
    """
    current = current_ordinal()
    if current is not None:
        _check(queue, ordinal, current)
        return
    if ops.executing_eagerly_outside_functions():
        return
    graph = ops.get_default_graph()
    while isinstance(graph, func_graph.FuncGraph):
        graph = graph.outer_graph
    noted = getattr(graph, _NOTED, [])
    noted.append((len(graph.get_operations()), queue, ordinal))
    setattr(graph, _NOTED, noted)


def check_resources(dataset: Dataset) -> None:
    """Checks in eager mode that a dataset's functions use no variable or table of an IPU.

    They run on the host, which cannot reach the memory of an IPU.

    Raises:
        ValueError: One does.
    """
    for wrapper in dataset._functions():
        for captured in wrapper.function.captured_inputs:
            found = captured.dtype.name == "resource" and _IPU.search(
                captured.device or ""
            )
            if found:
                name = tf.compat.as_str(wrapper.function.name).removeprefix(
                    "__inference_"
                )
                raise ValueError(
                    f"The dataset's function {name} uses a variable or table of "
                    f"{found[0]}, and runs on the host. Create what it uses, such as a "
                    "tf.random.Generator or a preprocessing layer, outside of the scopes "
                    "of IPUs."
                )
    for each in dataset._inputs():
        check_resources(each)


_ON_HOST = re.compile(
    r"Trying to access resource (\S+) .*located in device \S*/device:CPU:\d+ "
    r"from device \S*(/device:IPU:\d+)"
)


def explain_resource(error: errors.OpError) -> None:
    """Adds the remedy to TensorFlow's error about a variable that is not on the IPU."""
    found = _ON_HOST.search(own_text(error))
    if found:
        error._message += (
            f"\n{found[1]} is on the host, and the program runs on {found[2]}: create it, "
            "or the object that owns it, such as a tf.random.Generator or a layer, inside "
            "`with strategy.scope():`."
        )


# Of TensorFlow's attribute for the ops of one xla.compile().
_PROGRAM = "_xla_compile_id"


def explain_colocation(error: errors.OpError, graph: Graph) -> None:
    """Adds the variables to TensorFlow's error about a program's variables on two devices.

    TensorFlow names two of them, perhaps neither of which is in the wrong place.

    Args:
        error: An error of Session.run; others are unchanged.
        graph: The session's graph.
    """
    text = "resource edge connects colocation groups with incompatible"
    if text not in own_text(error):
        return
    for uses in _uses_by_program(graph).values():
        ipu = next(filter(_IPU.search, uses), None)
        host = uses.get("", {})
        if ipu is not None and host:
            names = ", ".join(sorted(host))
            error._message += (
                f"\nA program of {ipu} uses these variables of the host: {names}. Create "
                f'each that it reads or updates inside `with ipu_scope("{ipu}"):`, or use '
                "it outside of the program, as with a global_step that is not given to "
                "`minimize`, and is incremented on the host after the program."
            )
            return


def _uses_by_program(graph: Graph) -> dict[bytes, dict[str, dict[str, None]]]:
    """Returns the variables that programs use: by program, device ("": host) and name."""
    programs: dict[bytes, dict[str, dict[str, None]]] = {}
    for op in graph.get_operations():
        handles = [each.op for each in op.inputs if each.op.type == "VarHandleOp"]
        if not handles or _PROGRAM not in op.node_def.attr:
            continue
        uses = programs.setdefault(op.node_def.attr[_PROGRAM].s, {})
        for handle in handles:
            found = _IPU.search(handle.device)
            device = f"/device:IPU:{found[1] or 0}" if found else ""
            uses.setdefault(device, {})[handle.name] = None
    return programs


def check_noted(graph: Graph, first_op: int, current: int) -> None:
    """Checks the queues of a program that was placed after it was built.

    Args:
        graph: A version 1 graph.
        first_op: The number of its operations before the program.
        current: The program's IPU.

    Raises:
        ValueError: A queue belongs to another IPU.
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
