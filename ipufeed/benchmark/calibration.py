"""What the measuring itself costs: the null pipeline through the same path.

The null pipeline is one tensor, repeated without end, of as many bytes as the measured
elements have. Nothing is read, computed or allocated for it, so what it takes per element
is tf.data's bare iteration and our feeder, ring, counting and copy. No pipeline can be
seen to be faster than that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ipufeed.benchmark.run import run_measurement

CALIBRATION_S = 0.3
# A measured rate above this share of the ceiling is as much the harness's as the
# pipeline's.
NEAR_CEILING = 0.5
# One tensor is enough to see the copy's cost; more would only fill the memory.
MOST_BYTES = 256 << 20


@dataclass(frozen=True)
class Calibration:
    """The null pipeline's result.

    Attributes:
        bytes_per_element: Size of its tensor.
        elements: Elements that were timed.
        seconds_per_element: Cost of an element. Close to the measured pipeline's own
            figure: that figure says nothing about the pipeline.
    """

    bytes_per_element: int
    elements: int
    seconds_per_element: float

    @property
    def ceiling(self) -> float:
        """Elements per second that this harness can see at most."""
        return 1 / self.seconds_per_element


def calibrate(bytes_per_element: float, copy: bool) -> Calibration | None:
    """Measures the null pipeline for 0.3 s; None if it gave nothing to divide by."""
    import tensorflow as tf

    size = max(1, min(MOST_BYTES, round(bytes_per_element)))

    def null_pipeline() -> Any:
        return tf.data.Dataset.from_tensors(tf.zeros([size], tf.uint8)).repeat()

    attributes = {"seconds_ns": int(CALIBRATION_S * 1e9), "copy": copy}
    if tf.executing_eagerly():
        raw, interruption = run_measurement(null_pipeline(), attributes)
    else:
        with tf.Graph().as_default():
            raw, interruption = run_measurement(null_pipeline(), attributes)
    if interruption is not None:
        raise interruption
    if raw is None or raw.counters["elements"] < 2:
        return None
    seconds = (raw.counters["last_ns"] - raw.counters["first_ns"]) / 1e9
    if seconds <= 0:
        return None
    elements = raw.counters["elements"] - 1
    return Calibration(size, elements, seconds / elements)
