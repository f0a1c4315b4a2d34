"""A step of a device that computes elsewhere: it takes its time, and no CPU of the host.

    def body(image, label):
        times = step(0.012)                          int32 [8], on the device
        return outfeed.enqueue(times)

    loops.repeat(1000, body, [], infeed)
    times = to_times(outfeed.dequeue())              free, start, called, end: int64 [n]

A step begins when the one before has ended, its results are out of the way, and the
element is there; the moments are those of a device that shares no CPU with its host
(cc/core/step_clock.h). What the program itself does from one step to the next (taking
an element, copying it, what it computes) lies within the step as long as it is shorter.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ipufeed import _native
from ipufeed.checks import as_number, is_within
from ipufeed.queues.chain import host_number, put_token, take_token

# As in ipufeed/cc/device/step_op.h.
LONGEST_S = 1e6

Stamps = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True)
class StepTimes:
    """When each step was where, in ns of `time.monotonic_ns()`; int64 [...] each.

    Attributes:
        free: The step before had ended and its results were out of the way.
        start: And the element was there.
        called: The program got to the step: what the simulation itself took, since start.
        end: The step was over. Before `called` where the program's thread was kept from
            its CPU: it then catches up, by 8 steps and 20 ms at most.

    From one end to the next it was blocked until `free`, starved until `start`, computed
    for the length of the step, and was late for the rest.
    """

    free: Stamps
    start: Stamps
    called: Stamps
    end: Stamps


def step(seconds: Any) -> Any:
    """Builds the op that takes `seconds`, as a device would that computes elsewhere.

    It comes after the dequeue and before the enqueue between which it was written. It
    sleeps: no CPU is burnt. A stop of the program (Session.close, Ctrl-C, a time-out) ends
    it at once.

    Args:
        seconds: How long, 0 to 1e6: a number, which another one can replace without
            compiling again, or a scalar tensor.

    Returns:
        A tensor, int32 [8], for to_times: outfeeds carry no int64.

    Raises:
        TypeError: `seconds` is not a number.
        ValueError: It is out of range. In a tensor: tf.errors.InvalidArgumentError, when
            the program gets there.

    Threads: builds a part of the current graph; in eager mode it takes its time at once.
    """
    times, token = _native.load().ipufeed_step(as_nanoseconds(seconds), take_token())
    put_token(token)
    return times


def as_nanoseconds(seconds: Any) -> Any:
    """A number or a scalar tensor as int64, with the checks of `step`."""
    import tensorflow as tf

    if tf.is_tensor(seconds):
        if seconds.dtype.is_integer:
            return tf.cast(tf.reshape(seconds, []), tf.int64) * 10**9
        # float32 has 24 bits: 12 ms would be some picoseconds off, which rounding mends.
        precise = tf.cast(tf.reshape(seconds, []), tf.float64)
        return tf.cast(tf.round(precise * 1e9), tf.int64)
    amount = as_number("seconds", seconds)
    if not is_within(amount, 0, LONGEST_S):
        raise ValueError(f"`seconds` must be in [0, {LONGEST_S:g}], got {amount}.")
    return host_number(round(amount * 1e9))


def to_times(results: Any) -> StepTimes:
    """What `step` gave, as nanoseconds.

    Args:
        results: Tensor or array, int32 [..., 8].

    Raises:
        ValueError: The results have another dtype or shape.
    """
    array = np.ascontiguousarray(results)
    if array.dtype != np.int32 or array.shape[-1:] != (8,):
        raise ValueError(
            "`results` must be of dtype int32 and shape [..., 8], as step gives them, got "
            f"{array.dtype} {list(array.shape)}."
        )
    moments = array.view(np.int64)
    return StepTimes(*(moments[..., place] for place in range(4)))
