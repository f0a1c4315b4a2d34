"""A long run through infeed, loop and outfeed: in order, once each, in flat memory.

    python -m benchmarks.soak [ELEMENTS]          default: 100,000,000

The dataset counts. The loop compares each number with a count of its own and passes it on,
and the host, which takes results while the program runs, compares them again: an element
that is lost, doubled or out of turn is seen on both sides. Memory is sampled while the
middle 90 % go through; a single tensor kept for each element would be gigabytes.

Prints a summary, and exits with 1 if anything was wrong. soak.txt is that of one whole run.
"""

import os
import platform
import sys
import threading
import time
from pathlib import Path
from typing import Any

ELEMENTS = 100_000_000
REST_S = 0.02  # between two dequeues of the host: some ten thousand results
GROWTH_BYTES = 64 << 20  # allowed: a leak of one byte per element would be more


def rss_bytes() -> int:
    """Returns the resident memory of this process."""
    fields = Path("/proc/self/statm").read_text().split()
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE")


class Soak:
    """A run: its queues, its program, and the counts of right and wrong numbers."""

    def __init__(self, elements: int) -> None:
        import tensorflow as tf

        from benchmarks import feeds
        from ipufeed.queues import IPUOutfeedQueue

        options = tf.data.Options()
        options.autotune.enabled = False  # its threads take ten times as long
        dataset = tf.data.Dataset.range(elements, output_type=tf.int32)
        self.elements = elements
        self.infeed = feeds.infeed(dataset.with_options(options))
        self.outfeed = IPUOutfeedQueue()
        zero = tf.constant(0, tf.int32)
        self.program = feeds.program(self.body, [zero, zero], self.infeed)
        self.received = 0
        self.wrong_on_host = 0
        self.memory: list[int] = []

    def body(self, count: Any, wrong: Any, number: Any) -> Any:
        """Compares an element with the device's count; carries the count and the errors."""
        import tensorflow as tf

        wrong += tf.cast(tf.not_equal(number, count), tf.int32)
        return count + 1, wrong, self.outfeed.enqueue(number)

    def take(self) -> None:
        """Dequeues all results on the host, and compares them with the expected numbers."""
        import numpy as np

        numbers = self.outfeed.dequeue().numpy()
        expected = np.arange(self.received, self.received + len(numbers))
        self.wrong_on_host += int((numbers != expected).sum())
        self.received += len(numbers)

    def run(self) -> bool:
        """Runs and prints the summary; returns whether everything was right."""
        results: list[Any] = []

        def execute() -> None:
            results.extend(self.program(self.elements))

        device = threading.Thread(target=execute)
        start = time.monotonic()
        device.start()
        while device.is_alive():
            time.sleep(REST_S)
            self.take_and_sample()
        device.join()
        self.take()
        seconds = time.monotonic() - start
        if not results:
            return False  # the thread has printed why
        return self.report(seconds, *(int(value) for value in results))

    def take_and_sample(self) -> None:
        """Calls take(), and samples the memory except near the beginning and the end."""
        # In a thread other than the program's, dequeue() would not wait for its end.
        reader = threading.Thread(target=self.take)
        reader.start()
        reader.join()
        if 0.05 <= self.received / self.elements <= 0.95:
            self.memory.append(rss_bytes())

    def report(self, seconds: float, count: int, wrong: int) -> bool:
        """Prints the summary; returns whether everything was right."""
        import tensorflow as tf

        low, high = min(self.memory, default=0), max(self.memory, default=0)
        right = (
            count == self.received == self.elements
            and wrong == self.wrong_on_host == 0
            and high - low <= GROWTH_BYTES
            and self.infeed.stats().elements == self.elements
            and self.outfeed.stats().elements == self.elements
        )
        print(f"elements        {self.elements:,} in {seconds:.1f} s")
        print(f"on the device   {count:,} taken, {wrong:,} not the next one")
        print(f"on the host     {self.received:,} received, ", end="")
        print(f"{self.wrong_on_host:,} not the next one")
        print(f"an element      {seconds / self.elements * 1e6:.2f} us")
        print(f"memory          {low / 1e6:.1f} to {high / 1e6:.1f} MB ", end="")
        print(f"in {len(self.memory):,} samples")
        print(f"infeed          {self.infeed.stats()}")
        print(f"outfeed         {self.outfeed.stats()}")
        print(f"on              {platform.machine()}, {os.cpu_count()} CPUs, ", end="")
        print(f"TensorFlow {tf.__version__}")
        print("all in order, once each" if right else "NOT RIGHT")
        return right


def main() -> int:
    """Runs the command."""
    elements = int(sys.argv[1]) if len(sys.argv) > 1 else ELEMENTS
    if not 1 <= elements < 2**31:
        sys.exit(f"ELEMENTS must be in [1, 2^31), got {elements}: they are int32.")
    import ipufeed  # noqa: F401 (before TensorFlow's first op)

    return int(not Soak(elements).run())


if __name__ == "__main__":
    sys.exit(main())
