"""What a thread that waits costs: percent of a core, for each of the four that can.

    python -m benchmarks.programs.blocked REPEATS

The whole process is counted, while one thread of it is blocked and nothing else happens: a
program whose infeed is empty, a program whose outfeed is full, a feeder whose infeed is
full, and a thread in stream() to which no result comes.
"""

import contextlib
import functools
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from benchmarks import feeds

WINDOW_S = 1.0
SETTLE_S = 0.2
LONG_S = 3600.0  # until the next element of a dataset that gives none


def percent() -> float:
    """Returns the CPU time of this process over a window, in percent of a core."""
    time.sleep(SETTLE_S)
    wall, cpu = time.monotonic(), time.process_time()
    time.sleep(WINDOW_S)
    return 100 * (time.process_time() - cpu) / (time.monotonic() - wall)


def while_blocked(work: Callable[[], Any], release: Callable[[], Any]) -> float:
    """Returns percent() while a thread is in `work`, which `release` ends."""
    import tensorflow as tf

    def run() -> None:
        with contextlib.suppress(tf.errors.CancelledError):
            work()

    thread = threading.Thread(target=run)
    thread.start()
    value = percent()
    if not thread.is_alive():
        sys.exit("benchmarks.programs.blocked: a thread was not blocked")
    release()
    thread.join()
    return value


def main() -> None:
    """Prints a line for each repeat, with a number for each way to wait."""
    import tensorflow as tf

    from ipufeed import _native
    from ipufeed.queues import IPUOutfeedQueue

    entry = _native.entry()

    def stop() -> None:
        entry.ipufeed_stop_programs(b"enough")

    starved = feeds.infeed(feeds.slow_source(LONG_S))
    outfeed = IPUOutfeedQueue()
    empty = feeds.program(outfeed.enqueue, [], starved)
    entry.ipufeed_set_outfeed_limit_bytes(1)
    full_outfeed = IPUOutfeedQueue()
    full = feeds.program(
        lambda x: (x + 1, full_outfeed.enqueue(x)), [tf.constant(0, tf.int32)]
    )
    for _ in range(int(sys.argv[1])):
        values = [
            while_blocked(lambda: empty(1), stop),
            while_blocked(lambda: full(1000), stop),
        ]
        queue = feeds.infeed(feeds.source(tf.zeros([])))
        queue.read_ahead()
        values.append(percent())  # its feeder has filled the ring, and waits
        if queue.stats().filled != queue.stats().capacity:
            sys.exit("benchmarks.programs.blocked: the infeed was not full")
        _ = queue.deleter
        silent = IPUOutfeedQueue()
        values.append(
            while_blocked(
                functools.partial(list, silent.stream()),
                functools.partial(entry.ipufeed_outfeed_delete, silent._number),
            )
        )
        print(*values, flush=True)
    entry.ipufeed_stop_all(0)


if __name__ == "__main__":
    main()
