"""Keeps assertions in compiled programs of an IPU.

XLA drops `Assert`. In a program for an IPU another op is built with it, which ends a
compiled program with an InternalError, as Graphcore's does. Its text has the parts of the
assertion's data that are known when the program is built. Both ops are in the order of
the program's queue calls, so that an assertion that fails holds back those after it.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any

import tensorflow as tf
from tensorflow.python.ops import gen_logging_ops
from tensorflow.python.ops.parallel_for import pfor

from ipufeed.tf_patches.changes import replace
from ipufeed.tf_types import Operation, Tensor


@functools.cache
def install(
    in_program: Callable[[], bool],
    build_check: Callable[..., Operation],
    last_token: Callable[[], Tensor | None],
) -> None:
    """Replaces the function that builds TensorFlow's `Assert`, once.

    Args:
        in_program: Whether ops are being built for a program of an IPU.
        build_check: Builds the op for compiled programs, from a condition and the error's
            `text`, as the next of the program's queue calls.
        last_token: Gives a tensor that exists once the queue call before has ended; None
            where the ops that are built are not one program.
    """
    stock = gen_logging_ops._assert

    @functools.wraps(stock)
    def build(
        condition: Tensor,
        data: list[Tensor],
        summarize: int = 3,
        name: str | None = None,
    ) -> Operation:
        if tf.executing_eagerly() or not in_program():
            return stock(condition, data, summarize, name)
        # TensorFlow's own, which the executor runs, takes its place in the order, too.
        token = last_token()
        with tf.control_dependencies([] if token is None else [token]):
            op = stock(condition, data, summarize, name)
        with tf.control_dependencies([] if token is None else [op]):
            also = build_check(condition, text=_failure_text(op))
        return tf.group(op, also)

    replace(gen_logging_ops, "_assert", build)

    def of_all(pfor_input: Any) -> Any:
        condition, is_stacked, _ = pfor_input.input(0)
        if is_stacked:
            condition = tf.reduce_all(condition)
        check = build_check(condition, text=pfor_input.get_attr("text").decode())
        return pfor.wrap(check.outputs[0], False)  # the token of all rows

    pfor.RegisterPFor("IpufeedAssert")(of_all)


def _failure_text(op: Operation) -> str:
    """Returns the error of an `Assert` in a compiled program.

    It omits the numbers that TensorFlow appends to names: the same function, built twice,
    must give the same program.
    """
    known = [tf.get_static_value(tensor) for tensor in op.inputs[1:]]
    parts = [
        f"[{each.decode(errors='replace') if isinstance(each, bytes) else each}]"
        for each in (None if value is None else value.tolist() for value in known)
        if each is not None
    ]
    name = re.sub(r"_\d+(?=/|$)", "", op.name)
    return f"Assertion {name} failed" + (f": {' '.join(parts)}" if parts else ".")
