"""Variables: first values and updates in version 1; a handle's dtype and shape."""

from __future__ import annotations

import contextlib
import sys
import traceback
from collections.abc import Iterable, Iterator
from pathlib import PurePath

import tensorflow as tf
from tensorflow.python.ops import handle_data_util

from ipufeed.errors import RefusedError
from ipufeed.tf_types import DType, Graph, Operation, Shape, Tensor, Variable

COLOCATED = "_class"  # TensorFlow's attribute for "on the same device as"
_ASSIGNS = ("AssignVariableOp", "AssignAddVariableOp", "AssignSubVariableOp")
_USE = (
    "Use an optimizer of tf.compat.v1.train, a pipeline's optimizer_function, a "
    "tf.function, or the optimizers of Keras 2 (tf_keras, and TF_USE_LEGACY_KERAS=1 in the "
    "environment)."
)
_BY = PurePath("keras", "src", "optimizers", "base_optimizer.py").parts


def move_variable_initialization_to_cpu(graph: Graph | None = None) -> None:
    """Places the initializers of a graph's variables on the CPU.

    Each would otherwise be a separate program on the IPU, which replaces the training
    program on the device. Call it before the session is created.

    Args:
        graph: The graph. Default: the default one.

    Raises:
        RuntimeError: In eager mode there is no graph.
        TypeError: It is not a graph.
    """
    if not isinstance(graph, (tf.Graph, type(None))):
        raise TypeError(
            "`graph` must be a tf.Graph, or None for the default one, got "
            f"{type(graph).__name__}."
        )
    if graph is None:
        if tf.executing_eagerly():
            raise RuntimeError(
                "move_variable_initialization_to_cpu needs a graph: in eager mode "
                "variables are initialized as they are made."
            )
        graph = tf.compat.v1.get_default_graph()
    with graph.as_default():
        initialize_on_cpu(tf.compat.v1.global_variables())


def initialize_on_cpu(variables: Iterable[Variable]) -> None:
    """Places the initializers of variables of a version 1 graph on the CPU."""
    waiting = [
        variable.initializer.inputs[1].op
        for variable in variables
        if len(variable.initializer.inputs) > 1
    ]
    moved: set[str] = set()
    while waiting:
        operation = waiting.pop()
        if operation.name in moved or _belongs_to_variable(operation):
            continue
        moved.add(operation.name)
        operation._set_device("/device:CPU:0")
        # v1.get_variable colocates a random value with its variable.
        if COLOCATED in operation.node_def.attr:
            operation._clear_attr(COLOCATED)
        waiting += [tensor.op for tensor in operation.inputs]
        waiting += list(operation.control_inputs)


def _belongs_to_variable(operation: Operation) -> bool:
    """Returns whether an op is a variable, or reads or writes one."""
    ends = [*operation.inputs, *operation.outputs]
    return any(tensor.dtype.base_dtype == tf.resource for tensor in ends)


def contents_of(handle: Tensor) -> tuple[DType, Shape]:
    """Returns the dtype and shape of a variable.

    Args:
        handle: The variable's handle, a resource tensor of a graph or of eager mode.
    """
    data = getattr(handle, "_handle_data", None)
    if data is None:
        data = handle_data_util.get_resource_handle_data(handle)
    (contents,) = data.shape_and_type
    return tf.as_dtype(contents.dtype), tf.TensorShape(contents.shape)


def refuse_updates(operations: Iterable[Operation]) -> None:
    """Checks the ops of a version 1 program, without those of its functions.

    Keras 3's optimizers read what they have just assigned, and nothing in a version 1
    graph orders that: a momentum would be that of the step before.

    Raises:
        RefusedError: One is a part of an update by an optimizer of Keras 3.
    """
    if "keras.src.optimizers.base_optimizer" not in sys.modules:
        return
    initializers = {each.initializer for each in tf.compat.v1.global_variables()}
    for op in operations:
        if op.type in _ASSIGNS and op not in initializers and _by_optimizer(op):
            raise RefusedError(
                f"A Keras 3 optimizer updates variables in a version 1 program (`{op.name}`"
                f"), whose ops have no order of their own. {_USE}"
            )


@contextlib.contextmanager
def refusing_optimizers_in_loops() -> Iterator[None]:
    """Explains TensorFlow's error for a Keras 3 optimizer that a loop's body makes.

    Raises:
        RefusedError: In place of that ValueError, which names a variable of the optimizer.
    """
    try:
        yield
    except ValueError as error:
        late = "from inside a control-flow" in str(error)
        if late and _has_optimizer(traceback.extract_tb(error.__traceback__)):
            raise RefusedError(
                "A Keras 3 optimizer is made in a version 1 program, in the body of a "
                f"loop or in a branch, and its variables cannot be. {_USE}"
            ) from error
        raise


def _by_optimizer(operation: Operation) -> bool:
    return _has_optimizer(operation.traceback)


def _has_optimizer(frames: Iterable[traceback.FrameSummary]) -> bool:
    """Returns whether a call of a Keras 3 optimizer is among the frames."""
    return any(PurePath(frame.filename).parts[-len(_BY) :] == _BY for frame in frames)
