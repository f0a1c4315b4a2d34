"""Refuses arrays that grow in compiled programs.

A program's sizes are fixed when it is compiled: XLA gives a tf.TensorArray the size that
it starts with, and drops what is written behind it, without an error.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
from collections.abc import Iterator
from typing import Any

import tensorflow as tf
from tensorflow.python.ops import tensor_array_ops

from ipufeed.tf_patches.changes import replace

_is_refused: contextvars.ContextVar[bool] = contextvars.ContextVar(
    "ipufeed_growing_arrays_refused", default=False
)


@contextlib.contextmanager
def refused(is_compiled: bool) -> Iterator[None]:
    """Refuses them while a program is traced, if that will be compiled.

    Raises:
        ValueError: It makes a tf.TensorArray of size 0 that grows. One of another size may
            never do so.
    """
    if is_compiled:
        _install()
    token = _is_refused.set(is_compiled)
    try:
        yield
    finally:
        _is_refused.reset(token)


@functools.cache
def _install() -> None:
    kind = tensor_array_ops._GraphTensorArrayV2
    stock = kind.__init__

    @functools.wraps(stock)
    def checked(
        self: Any,
        dtype: Any,
        size: Any = None,
        dynamic_size: Any = None,
        *arguments: Any,
        **keywords: Any,
    ) -> None:
        if _is_refused.get() and dynamic_size and keywords.get("flow") is None:
            starts_with = 0 if size is None else tf.get_static_value(size)
            if starts_with == 0:
                raise ValueError(
                    "A tf.TensorArray(size=0, dynamic_size=True) would remain empty in a "
                    "compiled program, whose sizes are fixed. Give it as many elements "
                    "as are written, tf.TensorArray(dtype, size=n), or leave out "
                    "jit_compile=True: the function then runs op by op."
                )
        stock(self, dtype, size, dynamic_size, *arguments, **keywords)

    replace(kind, "__init__", checked)
