"""Chooses TensorFlow's kind of loops and conditionals in a version 1 program.

    loops.repeat(use_while_v1=True)    Enter, Switch, ..., NextIteration, Exit
        tf.cond in its body            an If operation: version 2
    loops.repeat(use_while_v1=False)   a While operation

A version 1 conditional in a version 1 loop has no gradients in a compiled program: their
graph has a cycle after TensorFlow has converted it to While and If operations.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import tensorflow as tf
from tensorflow.python.ops import cond, control_flow_util

from ipufeed.tf_patches.changes import replace
from ipufeed.tf_types import Graph


class _WithConditionals:
    """control_flow_util for tf.cond, with conditionals of version 2."""

    def __init__(self, util: Any) -> None:
        self._util = util

    def __getattr__(self, name: str) -> Any:
        return getattr(self._util, name)

    def EnableControlFlowV2(self, graph: Graph) -> bool:  # noqa: N802 - TensorFlow's
        return True


@contextlib.contextmanager
def loop_version(use_while_v1: bool) -> Iterator[None]:
    """Makes tf.while_loop build a loop of this version, in a version 1 graph.

    Conditionals in it are of version 2.
    """
    if tf.executing_eagerly() or tf.compat.v1.get_default_graph().building_function:
        yield  # a function can only contain version 2 loops
        return
    before, seen = control_flow_util.ENABLE_CONTROL_FLOW_V2, cond.util
    replace(control_flow_util, "ENABLE_CONTROL_FLOW_V2", not use_while_v1)
    replace(cond, "util", _WithConditionals(control_flow_util))
    try:
        yield
    finally:
        replace(control_flow_util, "ENABLE_CONTROL_FLOW_V2", before)
        replace(cond, "util", seen)
