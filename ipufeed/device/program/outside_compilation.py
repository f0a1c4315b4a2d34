"""outside_compilation_scope: ops of a program that run on the host.

A compiled program cannot hold ops such as tf.print or tf.py_function. A program with a
scope for them is therefore not compiled: TensorFlow's executor runs all of it, what is
outside on the CPU and everything else on the IPU. Whether there is such a scope is known
only when the body has been built, so the builder of a program announces that with
`building`, and takes the compilation back if that has `has_outside`.
"""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ipufeed.device.system import system

OUTSIDE_ATTR = "_ipufeed_outside"
# What the executor runs as one program, for the device: ipufeed/cc/device/ipu_device.cc.
PROGRAM_ATTR = "_ipufeed_program"
COMPILE_ATTR = (
    "_xla_compile_id"  # what TensorFlow's xla.compile marks a program's ops with
)


# The device has the same message.
CANNOT_PRECOMPILE = (
    "Programs that TensorFlow's executor runs cannot be pre-compiled: those with "
    "outside_compilation_scope, and those of set_executor('tensorflow'). Take the scope "
    "out, or use another connection type than PRE_COMPILE."
)


def refuse_precompile() -> None:
    """A program that the executor runs is about to be, and cannot be pre-compiled.

    Raises:
        tf.errors.UnimplementedError: The connection type is PRE_COMPILE.
    """
    if not system.precompiles():
        return
    from tensorflow.python.framework import errors

    raise errors.UnimplementedError(None, None, CANNOT_PRECOMPILE)


class NeedsExecutor(BaseException):
    """The function that is being traced cannot be compiled: trace it again without.

    No Exception, so that no handler in a user's function takes it for an error.
    """


@dataclass
class Building:
    """A program that is being built.

    Attributes:
        traced: Compilation is decided before the trace, so the scope ends it with
            NeedsExecutor.
        name: That its author has given it; "" for none, and for what is traced, which
            has a graph with a name.
        has_outside: A scope has been entered.
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
    """Within it outside_compilation_scope may be used. See Building."""
    program = Building(traced, name)
    token = _building.set(program)
    try:
        yield program
    finally:
        _building.reset(token)


@contextlib.contextmanager
def outside_compilation_scope(name: str = "outside") -> Iterator[None]:
    """Runs the ops that are built inside on the host, at their place in the program.

        def body(x):
            with outside_compilation_scope():
                tf.print("x is", x)
            return x + 1

    The whole program is then run by TensorFlow's executor (see
    ipufeed.device.set_executor), not as one compiled program: the results are the
    same, an iteration costs some ten times more.

    Args:
        name: Noted at the ops.

    Raises:
        ValueError: Not inside a program (ipu_compiler.compile, or a function that
            IPUStrategy.run runs), or inside another such scope.

    Source: Graphcore's scope of this name.
    """
    import tensorflow as tf
    from tensorflow.core.framework import attr_value_pb2
    from tensorflow.python.ops import control_flow_util

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
    note = attr_value_pb2.AttrValue(s=str(name).encode())
    token = _outside.set(True)
    try:
        with graph._attr_scope({OUTSIDE_ATTR: note}), tf.device("/device:CPU:0"):
            yield
    finally:
        _outside.reset(token)


def current_program() -> Building | None:
    """The program that is being built, or None."""
    return _building.get()


def program_name() -> str:
    """What the author calls the program that is being built; "" if it has no name."""
    import tensorflow as tf

    program = _building.get()
    if program is not None and program.name:
        return program.name
    name = ""
    graph = tf.compat.v1.get_default_graph()
    while graph is not None:
        name = getattr(graph, "name", name)  # only those of functions have one
        graph = getattr(graph, "outer_graph", None)
    return name


def mark_program(graph: Any, first_op: int) -> None:
    """Sets in the device that the executor's ops are one program, and not one each.

    Args:
        graph: The graph.
        first_op: How many operations it had before the program.
    """
    from tensorflow.core.framework import attr_value_pb2

    note = attr_value_pb2.AttrValue(s=f"program_{first_op}".encode())
    for op in graph.get_operations()[first_op:]:
        op._set_attr(PROGRAM_ATTR, note)


def take_back_compilation(graph: Any, first_op: int) -> None:
    """Makes TensorFlow's executor run what xla.compile has built in a version 1 graph.

    Args:
        graph: The graph.
        first_op: How many operations it had before.
    """
    for op in graph.get_operations()[first_op:]:
        if COMPILE_ATTR in op.node_def.attr:
            op._clear_attr(COMPILE_ATTR)
    mark_program(graph, first_op)
