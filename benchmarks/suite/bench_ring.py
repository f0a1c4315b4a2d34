"""What does a hand-over cost? The ring, the feed, and what they are measured against.

The program is cc/ring_bench.cc, which says what each case does and what it leaves out.
One run measures all cases in interleaved rounds; asv records the medians. A ratio is
formed within a round, so it holds on a machine whose speed changes, where a time alone
does not: compare commits by ratios first.
"""

from benchmarks import native

ROUNDS = 15


def _tracker(group, name, figure, unit):
    def track(self, result):
        found = result[group].get(name)
        if found is None:  # no such case in this run
            return float("nan")
        return (found[figure] if figure else found)["median"]

    track.unit = unit
    return track


class HandOver:
    """Medians over the rounds of one run."""

    timeout = 600

    def setup_cache(self):
        return native.ring_bench(ROUNDS)

    setup_cache.timeout = 600


STREAMS = (
    "ring_pointer",
    "ring_pointer_batch64",
    "ring_handle",
    "ring_handle_batch16",
    "feed_pointer",
    "feed_handle",
    "mutex_pointer",
    "mutex_handle",
)
ROUND_TRIPS = (
    "line_rtt",
    "two_lines_rtt",
    "ring_rtt_pointer",
    "ring_rtt_handle",
    "feed_rtt_pointer",
    "mutex_rtt_pointer",
)
RATIOS = (
    "ring_rtt_over_line",
    "ring_rtt_over_two_lines",
    "feed_over_ring",
    "mutex_over_ring",
)
for _name in STREAMS:
    setattr(HandOver, f"track_{_name}", _tracker("cases", _name, "ns", "ns/element"))
for _name in ROUND_TRIPS:
    for _figure in ("p50_ns", "p99_ns"):
        _track = _tracker("cases", _name, _figure, "ns")
        setattr(HandOver, f"track_{_name}_{_figure[:3]}", _track)
for _name in RATIOS:
    setattr(HandOver, f"track_{_name}", _tracker("ratios", _name, None, "ratio"))
HandOver.track_slow_writer_cpu = _tracker(
    "cases", "slow_writer_cpu", "both_percent", "percent of a core"
)
