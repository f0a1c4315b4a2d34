"""Measures an upper bound of the harness's own cost: a null pipeline on the same path.

The null pipeline repeats the same tensors, with the number of components and the bytes of
a measured element. It is the cheapest source that tf.data has: a cache in memory, read
repeatedly, with AUTOTUNE and rewrites off because their bookkeeping would cost more than
the rest. Nothing is read, computed or allocated, so an element costs one GetNext and the
benchmark's feeder, ring, counting and copy. The fastest of several intervals counts: what
slowed the others was not the harness.

The harness costs less than that by the GetNext, hence an upper bound. A pipeline whose
measured rate is close to the ceiling may be faster.
"""

from __future__ import annotations

from dataclasses import dataclass

from ipufeed.benchmark.measuring.run import RawMeasurement, run_measurement
from ipufeed.tf_types import Dataset

CALIBRATION_S = 0.3
INTERVAL_S = 0.03
# Above this fraction of the ceiling a rate is as much the harness's as the pipeline's.
NEAR_CEILING = 0.5
# Larger elements are not copied in full: from here on, far above any CPU cache, the time
# of a copy is proportional to its bytes, which are in memory twice (tensor and copy).
MOST_BYTES = 64 << 20
# Elements and bytes of a pass through the cache. Its restart costs as much as several
# small elements; a cache that was not read to its end makes TensorFlow warn.
ROUND = 1024
ROUND_BYTES = 32 << 20


@dataclass(frozen=True)
class Calibration:
    """The null pipeline's result.

    Attributes:
        bytes_per_element: Size of its tensors.
        elements: Elements that were timed.
        seconds_per_element: Upper bound of the harness's cost. If a pipeline's own figure
            is close to it, that figure measures the harness.
    """

    bytes_per_element: int
    elements: int
    seconds_per_element: float

    @property
    def ceiling(self) -> float:
        """Elements per second of the null pipeline."""
        return 1 / self.seconds_per_element


def calibrate(
    bytes_per_element: float, components: int, copy: bool
) -> Calibration | None:
    """Measures the null pipeline for 0.3 s; None if too few elements arrived for a rate.

    Args:
        bytes_per_element: The bytes of the measured elements, all components together.
        components: Number of their components.
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
                "epoch_ns": round(INTERVAL_S * 1e9),
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
    seconds = _fastest(raw)
    if seconds is None:
        return None
    elements = raw.counters["elements"] - 1
    if copy:  # of the bytes beyond MOST_BYTES
        copied = (raw.counters["copy_ns"] - raw.counters["first_copy_ns"]) / 1e9
        # No copy of the fastest interval took longer than its elements.
        seconds += min(seconds, copied / elements) * (wanted / size - 1)
    return Calibration(size, elements, seconds)


def null_pipeline(size: int, components: int) -> Dataset:
    """Returns a dataset of `components` uint8 tensors of `size` bytes together."""
    import tensorflow as tf

    components = max(1, components)  # tf.data has no element without components
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
    found: Dataset = dataset.with_options(options)
    return found


def _fastest(raw: RawMeasurement) -> float | None:
    """Seconds per element of the fastest full interval, else of the whole run."""
    # The first interval contains the start-up.
    times = [
        (end - start) / 1e9 / elements
        for elements, _, _, start, end in raw.epochs[1:].tolist()
        if end - start >= INTERVAL_S * 1e9 / 2
    ]
    counters = raw.counters
    whole = (counters["last_ns"] - counters["first_ns"]) / 1e9
    if whole > 0:
        times.append(whole / (counters["elements"] - 1))
    return min(times, default=None)
