"""A simulated step of a device: it takes a given time, and no CPU time of the host.

    def body(image, label):
        times = step(0.012)                          int32 [8], on the device
        return outfeed.enqueue(times)

    loops.repeat(1000, body, [], infeed)
    times = to_times(outfeed.dequeue())              free, start, called, end: int64 [n]

A step begins when the step before has ended, its results have been accepted, and the
element has arrived; the times are those of a device that does not share a CPU with its host
(cc/core/step_clock.h). The program's own work between two steps (dequeue, copy,
computation) is overlapped by the step as long as it is shorter.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from ipufeed import _native
from ipufeed.checks import as_number, is_within
from ipufeed.queues.chain import host_number, put_token, take_token
from ipufeed.tf_types import Tensor, TensorLike

# As in ipufeed/cc/device/step_op.h.
LONGEST_S = 1e6

Stamps = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True)
class StepTimes:
    """The times of each step, in ns of `time.monotonic_ns()`; int64 [...] each.

    Attributes:
        free: The step before had ended and its results had been accepted.
        start: The same, and the element had arrived.
        called: The program reached the step; since `start` this is the simulation's time.
        end: The step ended. Before `called` if the program's thread had to wait for a
            CPU: it then catches up, by 8 steps and 20 ms at most.

    From one end to the next the device was blocked until `free`, starved until `start`,
    computed for the length of the step, and was late for the rest.
    """

    free: Stamps
    start: Stamps
    called: Stamps
    end: Stamps


def step(seconds: TensorLike) -> Tensor:
    """Builds the op that takes `seconds`, like a step of a device.

    It keeps its place in the order of the queue calls. It sleeps without CPU time.
    Stopping the program (Session.close, Ctrl-C, a time-out) ends it at once.

    Args:
        seconds: The length, 0 to 1e6: a number, which can change without another
            compilation, or a scalar tensor.

    Returns:
        A tensor, int32 [8], for to_times: outfeeds carry no int64.

    Raises:
        TypeError: `seconds` is not a number.
        ValueError: It is out of range. For a tensor: tf.errors.InvalidArgumentError at the
            run.

    Threads: builds a part of the current graph; in eager mode it runs at once.
    """
    times, token = _native.load().ipufeed_step(as_nanoseconds(seconds), take_token())
    put_token(token)
    return times


def as_nanoseconds(seconds: TensorLike) -> Tensor:
    """Converts a number or a scalar tensor to int64 ns, with the checks of `step`."""
    if tf.is_tensor(seconds):
        if seconds.dtype.is_integer:
            return tf.cast(tf.reshape(seconds, []), tf.int64) * 10**9
        # Rounded: float32 has 24 bits, so that 12 ms are some picoseconds off.
        precise = tf.cast(tf.reshape(seconds, []), tf.float64)
        return tf.cast(tf.round(precise * 1e9), tf.int64)
    amount = as_number("seconds", seconds)
    if not is_within(amount, 0, LONGEST_S):
        raise ValueError(f"`seconds` must be in [0, {LONGEST_S:g}], got {amount}.")
    return host_number(round(amount * 1e9))


def to_times(results: TensorLike) -> StepTimes:
    """Converts the results of `step` to nanoseconds.

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
