"""Variables of version 1 programs."""

from __future__ import annotations

from typing import Any


def move_variable_initialization_to_cpu(graph: Any = None) -> None:
    """Places the initializers of a graph's variables on the CPU.

    They would otherwise be programs of their own on the IPU, each of which takes the
    training program off the device. Call it before the session is made.

    Args:
        graph: The graph. Default: the default one.

    Raises:
        RuntimeError: In eager mode there is no graph.
    """
    import tensorflow as tf

    if graph is None:
        if tf.executing_eagerly():
            raise RuntimeError(
                "move_variable_initialization_to_cpu needs a graph: in eager mode "
                "variables are initialized as they are made."
            )
        graph = tf.compat.v1.get_default_graph()
    moved: set[str] = set()
    with graph.as_default():
        waiting = [
            variable.initializer.inputs[1].op
            for variable in tf.compat.v1.global_variables()
            if len(variable.initializer.inputs) > 1
        ]
    while waiting:
        operation = waiting.pop()
        if operation.name in moved:
            continue
        moved.add(operation.name)
        operation._set_device("/device:CPU:0")
        waiting += [tensor.op for tensor in operation.inputs]
        waiting += list(operation.control_inputs)
