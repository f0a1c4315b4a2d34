"""Ops of a model function that a session runs: they must be outside of the program."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from ipufeed.tf_types import Operation

_OF_SCAFFOLD = (
    *("init_op", "local_init_op", "ready_op", "ready_for_local_init_op", "summary_op"),
)


def check_ops_of_session(scaffold: Any) -> None:
    """Checks what a model function has built for the session.

    Args:
        scaffold: The Scaffold of its spec, or None.

    Raises:
        ValueError: An op of it is in the program, where the session cannot run it.
    """
    for name, op in (*_ops_of(scaffold), *_initializers()):
        if op.graph.building_function or op._get_control_flow_context() is not None:
            raise ValueError(
                f"{name} (`{op.name}`) must be outside of the program for the session "
                "to run it, and is a part of it, as all that a model function builds. "
                "Build it in the model function inside `with tf.init_scope():`."
            )


def _ops_of(scaffold: Any) -> Iterator[tuple[str, Operation]]:
    """Yields the ops of a scaffold, each with its name for errors."""
    if scaffold is None:
        return
    for name in _OF_SCAFFOLD:
        value = getattr(scaffold, name)
        if isinstance(value, tf.Operation) or tf.is_tensor(value):
            yield f"Scaffold({name}=)", getattr(value, "op", value)
    for key in scaffold.init_feed_dict or ():
        if tf.is_tensor(key):
            yield "A placeholder of Scaffold(init_feed_dict=)", key.op
    graph = tf.compat.v1.get_default_graph()
    while graph.building_function:
        graph = graph.outer_graph
    saver = getattr(scaffold.saver, "saver_def", None)
    if saver is not None:
        tensor = saver.filename_tensor_name
        try:
            yield "Scaffold(saver=)", graph.get_tensor_by_name(tensor).op
        except KeyError:
            raise ValueError(
                f"Scaffold(saver=) has no tensor {tensor!r} in the session's graph. "
                "Build the saver in the model function inside `with tf.init_scope():`."
            ) from None


def _initializers() -> Iterator[tuple[str, Operation]]:
    """Yields those of the graph's variables: tf.train.init_from_checkpoint has set some."""
    for variable in tf.compat.v1.global_variables():
        yield f"The initializer of `{variable.op.name}`", variable.initializer
