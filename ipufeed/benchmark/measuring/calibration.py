"""What the measuring itself costs at most: the null pipeline through the same path.

The null pipeline gives the same tensors for ever, as many and of together as many bytes
as a measured element has. It is the cheapest source that tf.data has: a cache in memory
that is read again and again, with AUTOTUNE and rewrites off, whose bookkeeping costs more
than the rest. Nothing is read, computed or allocated, so that what an element takes is a
bare GetNext and our feeder, ring, counting and copy. The fastest of several stretches
counts: whatever made the others slower was not the harness.

The cost of the harness is less than that by the GetNext, hence "at most". A pipeline that
is seen to be nearly as fast may be faster.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ipufeed.benchmark.measuring.run import RawMeasurement, run_measurement

CALIBRATION_S = 0.3
STRETCH_S = 0.03
# A measured rate above this share of the ceiling is as much the harness's as the
# pipeline's.
NEAR_CEILING = 0.5
# Larger elements are not copied in full: from here on, far above any cache, a copy takes
# as long as it has bytes. Each of these is in memory twice, in the tensor and in the copy.
MOST_BYTES = 64 << 20
# Elements and bytes between two rounds of the cache. Its restart costs as much as several
# small elements; a cache that was not read to its end makes TensorFlow warn.
ROUND = 1024
ROUND_BYTES = 32 << 20


@dataclass(frozen=True)
class Calibration:
    """The null pipeline's result.

    Attributes:
        bytes_per_element: Size of its tensors.
        elements: Elements that were timed.
        seconds_per_element: What an element takes at most. Close to the measured
            pipeline's own figure: that figure does not measure the pipeline.
    """

    bytes_per_element: int
    elements: int
    seconds_per_element: float

    @property
    def ceiling(self) -> float:
        """Elements per second that this harness has been seen to reach."""
        return 1 / self.seconds_per_element


def calibrate(
    bytes_per_element: float, components: int, copy: bool
) -> Calibration | None:
    """Measures the null pipeline for 0.3 s; None if it gave nothing to divide by.

    Args:
        bytes_per_element: Of the measured elements, all components together.
        components: Their number.
        copy: Whether the elements were copied.
    """
    import tensorflow as tf

    wanted = max(1, round(bytes_per_element))
    size = min(MOST_BYTES, wanted)

    def measured() -> tuple[RawMeasurement | None, BaseException | None]:
        return run_measurement(
            null_pipeline(size, components),
            {
                "seconds_ns": round(CALIBRATION_S * 1e9),
                "epoch_ns": round(STRETCH_S * 1e9),
                "copy": copy,
            },
        )

    if tf.executing_eagerly():
        raw, interruption = measured()
    else:
        with tf.Graph().as_default():
            raw, interruption = measured()
    if interruption is not None:
        raise interruption
    if raw is None or raw.counters["elements"] < 2:
        return None
    seconds = fastest(raw)
    if seconds is None:
        return None
    elements = raw.counters["elements"] - 1
    if copy:  # of the bytes beyond MOST_BYTES
        copied = (raw.counters["copy_ns"] - raw.counters["first_copy_ns"]) / 1e9
        # No copy of the fastest stretch took longer than its elements.
        seconds += min(seconds, copied / elements) * (wanted / size - 1)
    return Calibration(size, elements, seconds)


def null_pipeline(size: int, components: int) -> Any:
    """A dataset of `components` uint8 tensors of `size` bytes together."""
    import tensorflow as tf

    components = max(1, components)  # tf.data has no element of none
    each, more = divmod(size, components)
    tensors = tuple(
        tf.zeros([each + (number < more)], tf.uint8) for number in range(components)
    )
    elements = max(1, min(ROUND, ROUND_BYTES // max(1, size)))
    dataset = tf.data.Dataset.from_tensors(tensors).repeat(elements).cache().repeat()
    options = tf.data.Options()
    options.autotune.enabled = False
    options.experimental_optimization.apply_default_optimizations = False
    options.experimental_optimization.inject_prefetch = False
    return dataset.with_options(options)


def fastest(raw: RawMeasurement) -> float | None:
    """Seconds per element of the fastest whole stretch, or of the run without one."""
    # The first stretch contains the start-up.
    times = [
        (end - start) / 1e9 / elements
        for elements, _, _, start, end in raw.epochs[1:].tolist()
        if end - start >= STRETCH_S * 1e9 / 2
    ]
    counters = raw.counters
    whole = (counters["last_ns"] - counters["first_ns"]) / 1e9
    if whole > 0:
        times.append(whole / (counters["elements"] - 1))
    return min(times, default=None)
