"""Creates variables outside of the program that is being traced.

    tf.function --> loop body, stage --> optimizer --> its state: a variable, outside

An optimizer creates its state in its constructor (Keras) or in its first update (TensorFlow
1). A tf.function allows neither inside a loop or an inner graph, and traces its source
twice if variables are created. Here they are created outside of all functions, at once, and
live as long as the traced program.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Iterator

import tensorflow as tf

from ipufeed.tf_types import FuncGraph, Variable

# graph of a function -> variables that were created while it was traced
_kept: weakref.WeakKeyDictionary[FuncGraph, list[Variable]] = (
    weakref.WeakKeyDictionary()
)

# The priority of tf.function's creator of variables; that of other creators is 100.
_OF_FUNCTIONS = 50


@contextlib.contextmanager
def variables_outside() -> Iterator[None]:
    """Within it, creates variables outside of the tf.functions that are being traced.

    In a version 1 graph TensorFlow does so itself.
    """
    if tf.executing_eagerly():
        yield
        return
    program = program_graph()

    def make(next_creator: Callable[..., Variable], **arguments: object) -> Variable:
        # Keras converts a number to a tensor first, which belongs to the function.
        known = tf.get_static_value(arguments.get("initial_value"))
        if known is not None:
            arguments["initial_value"] = known
        if program is None:
            return next_creator(**arguments)
        arguments["experimental_enable_variable_lifting"] = False
        with tf.init_scope():
            variable = next_creator(**arguments)
        _kept.setdefault(program, []).append(variable)
        return variable

    with _without_functions(), tf.variable_creator_scope(make):
        yield


@contextlib.contextmanager
def _without_functions() -> Iterator[None]:
    """Removes the creators of tf.functions from those of the current graph.

    In the second trace, after one that has created variables, they refuse each variable.
    """
    graph = tf.compat.v1.get_default_graph()
    creators = graph._variable_creator_stack
    graph._variable_creator_stack = [
        (priority, each) for priority, each in creators if priority != _OF_FUNCTIONS
    ]
    try:
        yield
    finally:
        graph._variable_creator_stack = creators


def keep(variable: Variable) -> None:
    """Keeps a variable alive as long as the program that is being traced."""
    program = program_graph()
    if program is not None:
        _kept.setdefault(program, []).append(variable)


def program_graph() -> FuncGraph | None:
    """Returns the graph of the outermost tf.function that is being traced, or None.

    None also in version 1 programs, whose graph keeps its variables.
    """
    if tf.executing_eagerly() or not tf.compat.v1.executing_eagerly_outside_functions():
        return None
    graph = tf.compat.v1.get_default_graph()
    while getattr(graph.outer_graph, "building_function", False):
        graph = graph.outer_graph
    return graph
