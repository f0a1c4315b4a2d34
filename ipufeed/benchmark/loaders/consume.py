"""Runs the loop over a loader on its own thread, and waits for it.

The caller reports progress, and returns at the deadline: a loader that hangs cannot be
stopped, and its thread stays.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from ipufeed.benchmark.loaders.consumer import Consumer, Counts, Limits, Open
from ipufeed.benchmark.loaders.ended_workers import error_of_workers
from ipufeed.benchmark.loaders.garbage import without_older_objects
from ipufeed.benchmark.loaders.rows import Rows
from ipufeed.interruptible import POLL_S, run_interruptibly

# A consumer that is not inside next() stops after at most one element's copy.
LEAVE_S = 0.5


def consume(
    open_pass: Open,
    limits: Limits,
    on_first: Callable[[], None],
    on_wait: Callable[[Counts], None],
    rows: Rows | None = None,
) -> tuple[Consumer, BaseException | None]:
    """Runs a consumer on its own thread until its loop or its time is over.

    Args:
        open_pass: Starts a pass.
        limits: Bounds of the run.
        on_first: Called after the first element, on the consumer's thread.
        on_wait: Called about twenty times a second on the calling thread; its exceptions
            stop the run, as Ctrl-C does.
        rows: Counts the samples; the default knows nothing of the loader.

    Returns:
        The consumer, whose counts no longer change, and the exception that interrupted
        the run, or None. The loader has ended its pass, unless it hangs.
    """
    with without_older_objects():
        return _consumed(Consumer(open_pass, limits, rows), limits, on_first, on_wait)


def _consumed(
    consumer: Consumer,
    limits: Limits,
    on_first: Callable[[], None],
    on_wait: Callable[[Counts], None],
) -> tuple[Consumer, BaseException | None]:
    """Runs the consumer; see consume()."""

    def on_poll() -> bool:
        on_wait(consumer.counts)
        return _overdue(consumer.counts, limits) or consumer.hangs_at_the_end

    ended = run_interruptibly(
        lambda: consumer.run(on_first),
        name="ipufeed_consumer",
        on_poll=on_poll,
        stop=consumer.stop,
        grace_s=LEAVE_S,
    )
    interruption = ended.interruption
    try:
        # The copy of a huge element, or a generator's `finally` block: it ends the
        # loader's processes, and would be cut off by the end of this one.
        while consumer.is_worth_a_wait:
            time.sleep(POLL_S)
    except KeyboardInterrupt as error:
        interruption = interruption or error
    consumer.finish()
    if interruption is None and consumer.in_next and not consumer.left:
        counts = consumer.counts
        counts.failure = error_of_workers(counts.finished_ns - counts.last_ns)
    return consumer, interruption


def _overdue(counts: Counts, limits: Limits) -> bool:
    """Whether the time is over while the loader has not returned its next element."""
    if not (limits.seconds_ns and counts.first_ns):
        return False
    now_ns = time.monotonic_ns()
    return now_ns - counts.first_ns > limits.seconds_ns
