"""Variables of an optimizer that is made while a program is traced.

    tf.function --> loop body, stage --> optimizer --> its state: a variable, outside

An optimizer makes its state when it is made (Keras), or when it first updates (TensorFlow
1). A tf.function wants neither inside a loop or a graph of its own, and calls its source
twice where variables are made. Here they are made outside of all functions, at once, and
live as long as the program that was traced.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Iterator
from typing import Any

# graph of a function -> variables that were made while it was traced
_kept: weakref.WeakKeyDictionary[Any, list[Any]] = weakref.WeakKeyDictionary()


@contextlib.contextmanager
def variables_outside() -> Iterator[None]:
    """Within it variables are made outside of the tf.functions that are being traced.

    In a version 1 graph TensorFlow does so itself.
    """
    import tensorflow as tf

    program = program_graph()
    if program is None:
        yield
        return

    def make(next_creator: Any, **arguments: Any) -> Any:
        # Keras makes a number a tensor first, which is of the function.
        known = tf.get_static_value(arguments.get("initial_value"))
        if known is not None:
            arguments["initial_value"] = known
        arguments["experimental_enable_variable_lifting"] = False
        with tf.init_scope():
            variable = next_creator(**arguments)
        _kept.setdefault(program, []).append(variable)
        return variable

    with tf.variable_creator_scope(make):
        yield


def keep(variable: Any) -> None:
    """Has a variable live as long as the program that is being traced."""
    program = program_graph()
    if program is not None:
        _kept.setdefault(program, []).append(variable)


def program_graph() -> Any:
    """The graph of the outermost tf.function that is being traced; None for none.

    And in version 1 programs, whose graph keeps its variables.
    """
    import tensorflow as tf

    if tf.executing_eagerly() or not tf.compat.v1.executing_eagerly_outside_functions():
        return None
    graph = tf.compat.v1.get_default_graph()
    while getattr(graph.outer_graph, "building_function", False):
        graph = graph.outer_graph
    return graph
