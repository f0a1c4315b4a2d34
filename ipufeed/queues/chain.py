"""Keeps the queue ops of a graph in order.

Every queue op takes a token and gives one (ipufeed/cc/queue_ops.h). Within one graph, or
one control-flow context of a version 1 graph, each gets the token of the one before it, so
that the order in which they were written is part of the data flow.
"""

from __future__ import annotations

from typing import Any

from ipufeed import _native


def take_token() -> Any:
    """The token for the next queue op of the graph that is being built: uint32, scalar."""
    import tensorflow as tf

    if not tf.executing_eagerly():
        graph = tf.compat.v1.get_default_graph()
        context = graph._get_control_flow_context()
        found = tokens_of(graph).get(id(context))
        if found is not None:
            return found[1]
    return tf.constant(0, tf.uint32)


def put_token(token: Any) -> None:
    """The token that the queue op just built has given."""
    import tensorflow as tf

    if tf.executing_eagerly():
        return
    graph = tf.compat.v1.get_default_graph()
    context = graph._get_control_flow_context()
    # The context is kept, so that its id cannot come to mean another one.
    tokens_of(graph)[id(context)] = (context, token)


def tokens_of(graph: Any) -> dict[int, tuple[Any, Any]]:
    """Id of a control-flow context -> (context, token), of the last queue op in it.

    An attribute of the graph, and no table of ours: tokens belong to the graph, and a
    cycle through a table is never collected.
    """
    tokens: dict[int, tuple[Any, Any]] | None = getattr(graph, "_ipufeed_tokens", None)
    if tokens is None:
        tokens = graph._ipufeed_tokens = {}
    return tokens


def host_number(number: int) -> Any:
    """A number as a tensor (int64, scalar) that compiled programs take as an input.

    It is made outside of every function and loop, so that a program does not depend on
    it: the number of a queue, or how often a loop runs.
    """
    import tensorflow as tf

    ops = _native.load()
    with tf.init_scope(), tf.device("/device:CPU:0"):
        if tf.executing_eagerly():
            return tf.constant(number, tf.int64)
        return ops.ipufeed_host_number(number=number)
