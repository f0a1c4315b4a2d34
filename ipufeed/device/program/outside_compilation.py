"""outside_compilation_scope: ops of a program that run on the host.

A compiled program cannot contain ops such as tf.print or tf.py_function. So a program with
a scope for them is not compiled: TensorFlow's executor runs all of it, the ops in the scope
on the CPU and the others on the IPU. Whether there is such a scope is known after the body
has been built, so the builder of a program enters `building`, and reverts the compilation
if its `has_outside` is set.
"""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterator
from dataclasses import dataclass

import tensorflow as tf
from tensorflow.core.framework import attr_value_pb2
from tensorflow.python.framework import errors
from tensorflow.python.ops import control_flow_util

from ipufeed.checks import check_name
from ipufeed.device.system import system
from ipufeed.tf_types import Graph, Operation

OUTSIDE_ATTR = "_ipufeed_outside"
# The name of the program of an op that the executor runs: cc/device/ipu_device.cc.
PROGRAM_ATTR = "_ipufeed_program"
# TensorFlow's attribute of the ops of a program of xla.compile.
COMPILE_ATTR = "_xla_compile_id"


# cc/device/ipu_device.cc has the same message.
CANNOT_PRECOMPILE = (
    "Programs that TensorFlow's executor runs cannot be pre-compiled: those with "
    "outside_compilation_scope, and those of set_executor('tensorflow'). Take the scope "
    "out, or use another connection type than PRE_COMPILE."
)


def refuse_precompile() -> None:
    """Refuses a program of the executor with PRE_COMPILE.

    Raises:
        tf.errors.UnimplementedError: The connection type is PRE_COMPILE.
    """
    if not system.precompiles():
        return
    raise errors.UnimplementedError(None, None, CANNOT_PRECOMPILE)


class NeedsExecutor(BaseException):
    """The traced function cannot be compiled: it must be traced for the executor.

    A BaseException, so that handlers of errors in a user's function do not catch it.
    """


@dataclass
class Building:
    """A program that is being built.

    Attributes:
        traced: Whether compilation was decided before the trace; then the scope raises
            NeedsExecutor.
        name: The name of the user's function; "" for none, and for a traced program,
            whose graph has a name.
        has_outside: Whether a scope has been entered.
    """

    traced: bool
    name: str = ""
    has_outside: bool = False


_building: contextvars.ContextVar[Building | None] = contextvars.ContextVar(
    "ipufeed_building", default=None
)
_outside: contextvars.ContextVar[bool] = contextvars.ContextVar(
    "ipufeed_outside", default=False
)


@contextlib.contextmanager
def building(*, traced: bool, name: str = "") -> Iterator[Building]:
    """Allows outside_compilation_scope in this context. See Building."""
    program = Building(traced, name)
    token = _building.set(program)
    try:
        yield program
    finally:
        _building.reset(token)


@contextlib.contextmanager
def outside_compilation_scope(name: str | None = "outside") -> Iterator[None]:
    """Runs the ops that are built in this scope on the host, in program order.

        def body(x):
            with outside_compilation_scope():
                tf.print("x is", x)
            return x + 1

    TensorFlow's executor then runs the whole program (see ipufeed.device.set_executor),
    which is not compiled: the results are the same, an iteration takes about ten times as
    long.

    Args:
        name: The value of an attribute of the ops. Default: "outside", also for None.

    Raises:
        TypeError: `name` is not a str.
        ValueError: Not inside a program (ipu_compiler.compile, or a function that
            IPUStrategy.run runs), or inside another such scope.

    Source: Graphcore's scope of this name.
    """
    check_name(name)
    if _outside.get():
        raise ValueError("Illegal nesting of outside_compilation_scope")
    program = _building.get()
    graph = None if tf.executing_eagerly() else tf.compat.v1.get_default_graph()
    compiled = graph is not None and control_flow_util.GraphOrParentsInXlaContext(graph)
    if graph is None or (program is None and not compiled):
        raise ValueError("outside_compilation_scope is only allowed in XLA context")
    if program is None:
        raise ValueError(
            "outside_compilation_scope in a tf.function(jit_compile=True) needs "
            "IPUStrategy.run or ipu_compiler.compile to run the function."
        )
    program.has_outside = True
    if compiled and program.traced:
        raise NeedsExecutor
    note = attr_value_pb2.AttrValue(s=(name or "outside").encode())
    token = _outside.set(True)
    try:
        with graph._attr_scope({OUTSIDE_ATTR: note}), tf.device("/device:CPU:0"):
            yield
    finally:
        _outside.reset(token)


def current_program() -> Building | None:
    """Returns the program that is being built, or None."""
    return _building.get()


def program_name() -> str:
    """Returns the user's name of the program that is being built; "" without one."""
    program = _building.get()
    if program is not None and program.name:
        return program.name
    name = ""
    graph = tf.compat.v1.get_default_graph()
    while graph is not None:
        name = getattr(graph, "name", name)  # only graphs of functions have one
        graph = getattr(graph, "outer_graph", None)
    return name


def mark_program(graph: Graph, first_op: int) -> None:
    """Marks ops that the executor runs as one program for the device.

    Args:
        graph: The graph.
        first_op: The number of its operations before the program.
    """
    note = attr_value_pb2.AttrValue(s=f"program_{first_op}".encode())
    for op in graph.get_operations()[first_op:]:
        op._set_attr(PROGRAM_ATTR, note)


def effects(graph: Graph, first_op: int) -> list[Operation]:
    """Lists the ops for the host that have an effect, in the body that is being built.

    A version 1 graph does not run those whose results are not used.

    Args:
        graph: The graph.
        first_op: The number of its operations before the body.
    """
    context = graph._get_control_flow_context()
    return [
        op
        for op in graph.get_operations()[first_op:]
        if OUTSIDE_ATTR in op.node_def.attr
        and op.op_def.is_stateful
        and op._get_control_flow_context() is context
    ]


def revert_compilation(graph: Graph, first_op: int) -> None:
    """Makes TensorFlow's executor run the ops of xla.compile in a version 1 graph.

    Args:
        graph: The graph.
        first_op: The number of its operations before xla.compile.
    """
    for op in graph.get_operations()[first_op:]:
        if COMPILE_ATTR in op.node_def.attr:
            op._clear_attr(COMPILE_ATTR)
    mark_program(graph, first_op)
