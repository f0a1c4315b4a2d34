"""What a hand-over costs: the figures of benchmarks/cc/ring_bench.cc.

Round trips are set against two bare ping-pongs. With one line the answer comes back on
the line that the question went out on. With two the flag goes with a word of data on a
line of its own, which is the least that a queue does. Where a processor moves two lines
at once they cost the same; where it does not, only the second is a floor for a queue.
"""

import operator
from dataclasses import replace

import numpy as np

from benchmarks import native
from benchmarks.targets import Row, comparison, row

# The round trip over two cache lines on the machine where the bounds were set. On a virtual
# machine whose CPUs are further apart it is longer, and so are all times of the ring.
BARE_NS = 65.0


def rows(quick: bool) -> list[Row]:
    """Measures streams, round trips, and the CPU time of a slow writer."""
    native.ring_bench.cache_clear()  # they may be measured again
    found = native.ring_bench(7 if quick else 25)
    cases, ratios = found["cases"], found["ratios"]
    bare = np.median(cases["two_lines_rtt"]["p50_ns"]["values"])
    slack = max(1.0, float(bare) / BARE_NS)

    def stream(name: str) -> list[float]:
        return list(cases[name]["ns"]["values"])

    def ratio(name: str) -> list[float]:
        return list(ratios[name]["values"])

    found_rows = [
        row("ring, pointer", "at most", 6, "ns", stream("ring_pointer")),
        row(
            "ring, pointer, batches of 64",
            "at most",
            4,
            "ns",
            stream("ring_pointer_batch64"),
        ),
        row(
            "ring, refcounted handle, batches of 16",
            "at most",
            22,
            "ns",
            stream("ring_handle_batch16"),
        ),
        row("ring, refcounted handle", "", 0, "ns", stream("ring_handle")),
        row("feed (with waiting), pointer", "", 0, "ns", stream("feed_pointer")),
        row(
            "mutex and condition variable, pointer",
            "",
            0,
            "ns",
            stream("mutex_pointer"),
        ),
        row(
            "round trip through two rings, to a bare one of flag and data",
            "at most",
            1.35,
            "x",
            ratio("ring_rtt_over_two_lines"),
        ),
        row(
            "    the same, to a bare one on a single line",
            "",
            0,
            "x",
            ratio("ring_rtt_over_line"),
        ),
        comparison(
            "round trip through two feeds, which can wait, to that through two rings",
            "",
            0,
            "x",
            operator.truediv,
            cases["feed_rtt_pointer"]["p50_ns"]["values"],
            cases["ring_rtt_pointer"]["p50_ns"]["values"],
        ),
        row(
            "1 ms per element through a feed: CPU of both sides, of one core",
            "at most",
            5,
            "%",
            list(cases["slow_writer_cpu"]["both_percent"]["values"]),
        ),
    ]
    return [
        replace(each, slack=slack) if each.unit == "ns" else each for each in found_rows
    ]
