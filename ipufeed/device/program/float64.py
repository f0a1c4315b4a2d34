"""Refuses values of float64, which an IPU does not have, that a program takes or returns.

    strategy.run(function) --> trace --> the dtypes of its results --> the run

The dtypes of a function's results are known when it has been traced. They are checked
then, before anything runs: a refused program has changed no variable.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
from collections.abc import Iterator
from typing import Any

import tensorflow as tf
from tensorflow.python.eager import context
from tensorflow.python.eager.polymorphic_function import concrete_function
from tensorflow.python.util import nest

from ipufeed.once import once
from ipufeed.tf_patches.changes import replace
from ipufeed.tf_types import Nest

# The number of contexts (graphs, eager blocks) around the call of the program that this
# thread's `run` makes; None outside of a `run`. A trace is a further context: the functions
# that it calls are parts of the program, or of the host. The program runs on other threads.
_depth_of_run: contextvars.ContextVar[int | None] = contextvars.ContextVar(
    "ipufeed_depth_of_run", default=None
)
_CHECKED = "_ipufeed_has_no_float64"


def refuse_inputs(args: Nest, kwargs: Nest) -> None:
    """Raises TypeError for an argument of float64."""
    _refuse(
        {"args": args, "kwargs": kwargs},
        "input",
        "Cast it with tf.cast(value, tf.float32) before the call.",
    )


def refuse_outputs(values: Nest) -> None:
    """Raises TypeError for a result, or the spec of one, of float64."""
    _refuse(
        values,
        "output",
        "Cast it with tf.cast(value, tf.float32) in the function that returns it.",
    )


def refuse_outputs_of(traced: Any) -> None:
    """Raises TypeError if a result of a traced function is of float64."""
    if not getattr(traced, _CHECKED, False):
        refuse_outputs(traced.structured_outputs)
        setattr(traced, _CHECKED, True)


@contextlib.contextmanager
def refusing_outputs() -> Iterator[None]:
    """Refuses the program that is called here if a result is of float64, before it runs.

    Raises:
        TypeError: A result is of float64.
    """
    _check_before_runs()
    token = _depth_of_run.set(_depth())
    try:
        yield
    finally:
        _depth_of_run.reset(token)


def _refuse(values: Nest, what: str, remedy: str) -> None:
    for index, value in enumerate(tf.nest.flatten(values)):
        if _is_float64(value):
            path, _ = nest.flatten_with_joined_string_paths(values)[index]
            place = f" ({path})" if path else ""
            raise TypeError(
                f"Unsupported data type for {what}: float64, of value {index}{place} with "
                f"the shape {value.shape}. An IPU has no float64: each {what} must be of "
                f"another dtype. {remedy} Arrays of NumPy are float64 by default, and the "
                "results of a loop have the dtypes of its inputs."
            )


def _is_float64(value: Any) -> bool:
    dtype = getattr(value, "dtype", None)
    if dtype is None and isinstance(value, tf.TypeSpec):
        # The spec of tf.IndexedSlices has no dtype; its parts have.
        parts = tf.nest.flatten(value, expand_composites=True)
        return any(getattr(part, "dtype", None) == tf.float64 for part in parts)
    return bool(dtype == tf.float64)


def _depth() -> int:
    return len(context.context().context_switches.stack)


@once
def _check_before_runs() -> None:
    """Makes the calls of traced functions check the results of a `run`'s program."""
    stock = concrete_function.ConcreteFunction._call_flat

    @functools.wraps(stock)
    def call_flat(self: Any, tensor_inputs: Any, captured_inputs: Any) -> Any:
        if _depth_of_run.get() == _depth():
            refuse_outputs_of(self)
        return stock(self, tensor_inputs, captured_inputs)

    replace(concrete_function.ConcreteFunction, "_call_flat", call_flat)
