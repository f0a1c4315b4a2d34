"""The host's clock, read inside a program: when did an iteration happen?

    body:   stamp = read_clock()                     int32 [2], on the device
            outfeed.enqueue(stamp)
    host:   times = to_ns(outfeed.dequeue())         int64 [n], nanoseconds

The clock is that of `time.monotonic_ns()`, so that a stamp of a program can be compared
with one of the host. It is ours; the hardware counts cycles of its own.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ipufeed import _native
from ipufeed.queues.chain import put_token, take_token


def read_clock() -> Any:
    """Builds the op that reads the clock when the program gets there.

    It lies between the queue calls before and after which it was written; no compiler
    moves it. It takes about 30 ns.

    Returns:
        A tensor, int32 [2]: the halves of a 64-bit number, since outfeeds carry no int64.

    Threads: builds a part of the current graph; in eager mode it reads at once.
    """
    stamp, token = _native.load().ipufeed_clock(take_token())
    put_token(token)
    return stamp


def wait(value: Any, seconds: float) -> Any:
    """Builds what gives `value` some time later, and uses no CPU meanwhile.

    It stands for work that is done elsewhere, so that a program can be measured for what
    it waits for. Its gradient takes as long.

    Args:
        value: A tensor of any dtype that programs compute with.
        seconds: How long, to the nanosecond; the kernel adds some 50 us.

    Raises:
        ValueError: `seconds` is negative.

    Threads: builds a part of the current graph; in eager mode it waits at once. A program
    that is stopped stops waiting.
    """
    import tensorflow as tf

    if seconds < 0:
        raise ValueError(f"`seconds` must not be negative, got {seconds}.")
    differentiate_wait()
    return _native.load().ipufeed_wait(
        tf.convert_to_tensor(value), nanoseconds=round(seconds * 1e9)
    )


@functools.cache
def differentiate_wait() -> None:
    """Registers the gradient of `wait` in TensorFlow, once."""
    from tensorflow.python.framework import ops

    @ops.RegisterGradient("IpufeedWait")  # type: ignore[untyped-decorator]
    def gradient(op: Any, grad: Any) -> Any:
        return _native.load().ipufeed_wait(grad, nanoseconds=op.get_attr("nanoseconds"))


def to_ns(stamps: Any) -> np.ndarray[Any, np.dtype[np.int64]]:
    """What read_clock gave, as nanoseconds.

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
