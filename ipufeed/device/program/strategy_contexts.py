"""Contexts of a thread that change what the scope of a strategy does."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterator

import tensorflow as tf
from tensorflow.python.framework import ops

# The IPUs of one replica of the Keras program that this thread is tracing.
_ipus_per_replica: contextvars.ContextVar[int | None] = contextvars.ContextVar(
    "ipufeed_ipus_per_replica", default=None
)


def ipus_per_replica() -> int | None:
    """Returns the IPUs of one replica in a Keras program's trace, else None."""
    return _ipus_per_replica.get()


@contextlib.contextmanager
def tracing_replicas_of(ipus: int) -> Iterator[None]:
    """Makes strategies count a device's replicas by this number of IPUs each."""
    token = _ipus_per_replica.set(ipus)
    try:
        yield
    finally:
        _ipus_per_replica.reset(token)


# Whether a variable that several processes reduce when they read it is read alone.
_alone: contextvars.ContextVar[bool] = contextvars.ContextVar(
    "ipufeed_alone", default=False
)


def is_alone() -> bool:
    """Returns whether the caller is in the context of `alone`."""
    return _alone.get()


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """Makes variables with `synchronization=ON_READ` those of their own process.

    For what one of several processes may do, such as evaluating or saving a model.
    """
    token = _alone.set(True)
    try:
        yield
    finally:
        _alone.reset(token)


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
