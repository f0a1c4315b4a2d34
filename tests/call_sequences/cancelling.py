"""A program that is cancelled by another thread than its own."""

from __future__ import annotations

import threading
import time
from typing import Any

import tensorflow as tf
from tensorflow.python.eager import cancellation

from call_sequences.checking import FaultError

WAIT_S = 60.0  # only a hang gets there


def run_cancelled(
    program: Any, count: int, infeed: Any, taken: int, outfeed: Any, given: int
) -> None:
    """Runs it on a thread until it stands before the gate of its infeed, and cancels it.

    It stands there when its infeed has given `taken` elements in all, and its outfeed
    has got `given` results: the one for an element comes after the element.

    Raises:
        FaultError: It does not come there, does not end, or ends with another error.
    """
    manager = cancellation.CancellationManager()
    given += outfeed.stats().elements
    raised: list[BaseException] = []

    def work() -> None:
        try:
            with tf.device("/device:IPU:0"):
                function = program.get_concrete_function()
                manager.get_cancelable_function(function)(tf.constant(count))
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    deadline = time.monotonic() + WAIT_S
    while (
        infeed.stats().elements < taken or outfeed.stats().elements < given
    ) and thread.is_alive():
        if time.monotonic() > deadline:
            raise FaultError(f"the program has not taken and given {taken} elements")
        time.sleep(0.0005)
    if not thread.is_alive():
        raise FaultError(f"the program has ended before it was cancelled: {raised}")
    manager.start_cancel()
    thread.join(WAIT_S)
    if thread.is_alive():
        raise FaultError("the program has been cancelled and does not end")
    if not raised or not isinstance(raised[0], tf.errors.CancelledError):
        raise FaultError(
            f"a program that is cancelled must raise CancelledError: {raised}"
        )
