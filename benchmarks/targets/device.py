"""Whether the simulated device's utilisation is the pipeline's, and not the harness's."""

from typing import Any

import numpy as np

from benchmarks.targets import Row, row

STEPS_S = (0.2e-3, 1e-3, 5e-3)
PERIOD_S = 5e-3


def rows(quick: bool) -> list[Row]:
    """Measures all rows; TensorFlow runs in this process."""
    import ipufeed  # noqa: F401 (before TensorFlow's first op)

    return [
        *free(3 if quick else 7),
        *knee(1 if quick else 5),
        stop(5 if quick else 20),
    ]


def free(repeats: int) -> list[Row]:
    """Measures a free source at three step times, and the time of passing an element on."""
    from ipufeed.benchmark.device.free_source import measure_free_source
    from ipufeed.benchmark.device.settings import DeviceSettings

    found = []
    for step in STEPS_S:
        device = DeviceSettings(step_seconds=step)
        used = [measure_free_source(64, device) for _ in range(repeats)]
        name = f"free source, steps of {step * 1e3:g} ms: AU"
        values = [100 * each.au for each in used if each is not None]
        found.append(row(name, "at least", 99 if step >= 1e-3 else 95, "%", values))
    hand_over = [each.harness_seconds * 1e6 for each in used if each is not None]
    return [*found, row("    the hand-over, within the step", "", 0, "us", hand_over)]


def knee(repeats: int) -> list[Row]:
    """Measures a source of 5 ms, swept: how far from min(1, step / period) at worst."""
    from ipufeed.benchmark.device.knee import sweep_knee

    worst = []
    for _ in range(repeats):
        found = sweep_knee(sleeping(PERIOD_S), PERIOD_S)
        off = None if found is None else found.deviation()
        worst.append(np.inf if off is None else 100 * abs(off[1]))
    what = "5 ms per element, knee: points off min(1, step / period)"
    return [row(what, "at most", 5, "points", worst)]


def stop(repeats: int) -> Row:
    """Measures a step of 10 s, from the stop of its program to the end of its thread."""
    import threading
    import time

    import tensorflow as tf

    from ipufeed import _native
    from ipufeed.device.program import loops
    from ipufeed.device.program.steps import step
    from ipufeed.queues import IPUOutfeedQueue

    outfeed = IPUOutfeedQueue()

    def body(number: Any) -> Any:
        return number + 1, outfeed.enqueue(step(tf.where(number < 1, 0.0, 10.0)))

    program = tf.function(lambda: loops.repeat(2, body, [0]), jit_compile=True)

    def run() -> None:
        try:
            with tf.device("/device:IPU:0"):
                program()
        except tf.errors.CancelledError:
            pass

    values = []
    for number in range(repeats):
        thread = threading.Thread(target=run)
        thread.start()
        while outfeed.stats().elements <= number:
            time.sleep(1e-3)
        time.sleep(0.02)  # it is asleep by now
        start = time.perf_counter()
        _native.entry().ipufeed_stop_programs(b"it is over")
        thread.join()
        values.append((time.perf_counter() - start) * 1e3)
    return row("a step of 10 s, from stop to end", "at most", 10, "ms", values)


def sleeping(seconds: float) -> Any:
    """Returns an endless source that sleeps for each element of 64 bytes."""
    import tensorflow as tf
    from tensorflow.python.data.experimental.ops import testing

    element = tf.data.Dataset.from_tensors(tf.zeros([16], tf.float32))
    return element.repeat().apply(testing.sleep(round(seconds * 1e6)))
