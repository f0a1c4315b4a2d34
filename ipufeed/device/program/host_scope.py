"""Runs code of the host while the scope of a strategy is entered."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import tensorflow as tf
from tensorflow.python.framework import ops


@contextlib.contextmanager
def outside_scope() -> Iterator[None]:
    """Leaves all scopes of strategies in eager mode, and enters them again at its end.

    Without the scope's strategy, its device and its creator of variables.
    """
    graph = ops.get_default_graph()
    strategies, creators = (
        graph._distribution_strategy_stack,
        graph._variable_creator_stack,
    )
    entered = list(strategies)
    strategies.clear()
    graph._variable_creator_stack = []
    try:
        with tf.device(None):
            yield
    finally:
        strategies[:] = entered
        graph._variable_creator_stack = creators
