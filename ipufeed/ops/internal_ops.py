"""Prints, delays and counters in programs, and operations of Graphcore's own code."""

from __future__ import annotations

import collections
import logging
import operator
import sys
from typing import Any, SupportsIndex

import numpy as np
import tensorflow as tf

from ipufeed.checks import as_numbers, as_tensor, check_name, flags_checked
from ipufeed.no_effect import no_effect
from ipufeed.ops import host_calls
from ipufeed.parallel.pipeline.stages import current_accumulation_count
from ipufeed.tf_types import Tensor, TensorLike

MOST_DEPTH = 2**31 - 1
LOGGER = logging.getLogger("ipufeed")


def remap(x: TensorLike, name: str | None = None) -> Tensor:
    """Returns x, and logs that it is an internal operation; changes an IPU's layout."""
    return _identity("remap", x, name)


def remap_deduce(x: TensorLike, name: str | None = None) -> Tensor:
    """Returns x, and logs that it is an internal operation; derives an IPU's layout."""
    return _identity("remap_deduce", x, name)


def _identity(which: str, x: Tensor, name: str | None) -> Tensor:
    LOGGER.warning("%s is a Graphcore internal op", which)
    return tf.identity(x, name=name or which)


def print_tensor(input: TensorLike, name: str = "") -> Tensor:  # noqa: A002 - Graphcore's name
    """Builds the operation that prints a tensor to stderr, in program order.

    The text is `name: values`, as NumPy prints them, with the replica's number if there
    is more than one. A stage that is recomputed prints once.

    Args:
        input: A tensor of numbers or bools.
        name: The printed name, a str. Default: the tensor's.

    Returns:
        The operation (eagerly: None). In version 1 graphs the program's function must
        return it or a tensor that depends on it.

    Raises:
        TypeError: `name` is not a str.
    """
    check_name(name)
    tensor = as_tensor("input", input)
    if not name and not tf.executing_eagerly():
        name = tensor.name.partition(":")[0]
    host_calls.call("print", name, [tensor], [])
    return host_calls.last_operation()


@host_calls.handler("print")
def _print(call: host_calls.Call) -> None:
    parts = [call.text] if call.text else []
    if call.replicas > 1:
        parts.append(f"(replica {call.replica})")
    before = " ".join(parts)
    text = np.array2string(call.inputs[0])
    sys.stderr.write(f"{before}: {text}\n" if before else f"{text}\n")
    sys.stderr.flush()


@flags_checked
def fifo(
    x: TensorLike, depth: int, offload: bool = False, name: str | None = None
) -> Tensor:
    """Delays a tensor: execution n returns x of execution n - depth.

    Args:
        x: A tensor of a defined shape.
        depth: The delay in executions, an int from 0 to 2^31 - 1. With 0 the result is x.
        offload: Without an effect here.
        name: The operation's name.

    Returns:
        A tensor like x: zeros in the first `depth` executions of each run of a program.
        It has no gradient.

    Raises:
        TypeError: `depth` is not an int, `offload` not a bool, or `x` of text.
        ValueError: `depth` is negative, or too large.
    """
    depth = _as_depth(depth)
    if offload:
        no_effect("fifo(offload=)", "its tensors are in the memory of the host")
    x = as_numbers("x", x)
    if depth == 0:
        return tf.identity(x, name=name)
    (late,) = host_calls.call(
        "fifo", str(depth), [x], [(x.dtype, x.shape)], has_state=True, name=name
    )
    return late


def _as_depth(depth: SupportsIndex) -> int:
    if isinstance(depth, bool) or not hasattr(type(depth), "__index__"):
        raise TypeError(f"depth must be an int, got {type(depth).__name__} {depth!r}.")
    count = operator.index(depth)
    if count > MOST_DEPTH:
        raise ValueError(f"depth must be at most {MOST_DEPTH}, got {count}.")
    if count < 0:
        raise ValueError(
            f"depth must be at least 0, got {count}: a delay of 0 returns x at once."
        )
    return count


@host_calls.handler("fifo")
def _fifo(call: host_calls.Call) -> None:
    kept: collections.deque[Any] = host_calls.state(call, "fifo", collections.deque)
    (value,), (late,) = call.inputs, call.outputs
    kept.append(value.copy())
    late[...] = kept.popleft() if len(kept) > int(call.text) else np.zeros_like(value)


def get_current_iteration_counter(name: str | None = None, **kwargs: object) -> Tensor:
    """Returns the number of a pipeline stage's current mini-batch.

    Args:
        name: The operation's name.
        **kwargs: `lower_into_pipeline_stage`, without an effect here.

    Returns:
        int32 scalar, from 0 to gradient_accumulation_count - 1 in each repetition of the
        pipeline.

    Raises:
        tf.errors.FailedPreconditionError: Outside of a pipeline, or its
            gradient_accumulation_count is a tensor or does not suit its schedule.
    """
    del kwargs
    given = current_accumulation_count()
    count = tf.get_static_value(given) if tf.is_tensor(given) else given
    if count is None:
        raise tf.errors.FailedPreconditionError(
            None,
            None,
            "Cannot access an execution counter. "
            + (
                "Call it in a stage of a pipeline."
                if given is None
                else "The pipeline's gradient_accumulation_count must be an int that its "
                "schedule allows: with most schedules a multiple of the number of stages."
            ),
        )
    (number,) = host_calls.call("counter", str(count), [], [(tf.int32, [])], name=name)
    return number


@host_calls.handler("counter")
def _counter(call: host_calls.Call) -> None:
    call.outputs[0][...] = call.mini_batch % int(call.text)
