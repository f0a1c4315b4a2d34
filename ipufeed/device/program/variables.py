"""Variables of version 1 programs."""

from __future__ import annotations

from typing import Any

COLOCATED = "_class"  # TensorFlow's attribute for "on the same device as"


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
    with graph.as_default():
        waiting = [
            variable.initializer.inputs[1].op
            for variable in tf.compat.v1.global_variables()
            if len(variable.initializer.inputs) > 1
        ]
    moved: set[str] = set()
    while waiting:
        operation = waiting.pop()
        if operation.name in moved or belongs_to_variable(operation):
            continue
        moved.add(operation.name)
        operation._set_device("/device:CPU:0")
        # A random value is made next to its variable: v1.get_variable ties the two.
        if COLOCATED in operation.node_def.attr:
            operation._clear_attr(COLOCATED)
        waiting += [tensor.op for tensor in operation.inputs]
        waiting += list(operation.control_inputs)


def belongs_to_variable(operation: Any) -> bool:
    """Whether it is a variable, or reads or writes one: its place is the variable's."""
    import tensorflow as tf

    ends = [*operation.inputs, *operation.outputs]
    return any(tensor.dtype.base_dtype == tf.resource for tensor in ends)
