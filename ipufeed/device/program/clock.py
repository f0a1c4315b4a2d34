"""Reads the host's clock inside a program, for the time of an iteration; waits in it.

    body:   stamp = read_clock()                     int32 [2], on the device
            outfeed.enqueue(stamp)
    host:   times = to_ns(outfeed.dequeue())         int64 [n], nanoseconds

`wait` delays a program, as work that another device does.

The clock is that of `time.monotonic_ns()`, so that a program's stamp can be compared with
one of the host. It exists in the simulator only; the hardware counts its own cycles.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.framework import ops

from ipufeed import _native
from ipufeed.once import once
from ipufeed.queues.chain import put_token, take_token
from ipufeed.tf_types import Operation, Tensor, TensorLike


def read_clock() -> Tensor:
    """Builds the op that reads the clock when the program reaches it.

    It keeps its place in the order of the queue calls; the compilers do not move it. It
    takes about 30 ns.

    Returns:
        A tensor, int32 [2]: the halves of a 64-bit number, since outfeeds carry no int64.

    Threads: builds a part of the current graph; in eager mode it reads at once.
    """
    stamp, token = _native.load().ipufeed_clock(take_token())
    put_token(token)
    return stamp


def wait(value: TensorLike, seconds: float) -> Tensor:
    """Builds the op that returns `value` after a delay in which it sleeps.

    It stands for work that another device does, so that the waits of a program can be
    measured. Its gradient takes the same time.

    Args:
        value: A tensor of any dtype that programs compute with.
        seconds: The delay, in ns resolution; the kernel adds some 50 us.

    Raises:
        ValueError: `seconds` is negative.

    Threads: builds a part of the current graph; in eager mode it waits at once. Stopping
    the program ends the wait.
    """
    if seconds < 0:
        raise ValueError(f"`seconds` must not be negative, got {seconds}.")
    _differentiate_wait()
    return _native.load().ipufeed_wait(
        tf.convert_to_tensor(value), nanoseconds=round(seconds * 1e9)
    )


@once
def _differentiate_wait() -> None:
    @ops.RegisterGradient("IpufeedWait")  # type: ignore[untyped-decorator]
    def gradient(op: Operation, grad: Tensor) -> Tensor:
        return _native.load().ipufeed_wait(grad, nanoseconds=op.get_attr("nanoseconds"))


def to_ns(stamps: TensorLike) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Converts the results of read_clock to nanoseconds.

    Args:
        stamps: Tensor or array, int32 [..., 2].

    Returns:
        int64 [...].

    Raises:
        ValueError: The stamps have another dtype or shape.
    """
    array = np.ascontiguousarray(stamps)
    if array.dtype != np.int32 or array.shape[-1:] != (2,):
        raise ValueError(
            "`stamps` must be of dtype int32 and shape [..., 2], as read_clock gives "
            f"them, got {array.dtype} {list(array.shape)}."
        )
    return array.view(np.int64)[..., 0]
