"""What does a result cost, and how late is it?"""

from benchmarks import feeds


class Outfeed:
    """A `time_` value is for the number of results in its name."""

    rounds = 2
    repeat = 5
    number = 1
    warmup_time = 0.0
    timeout = 300

    def setup(self):
        # First, and not at the module's head: asv lists benchmarks without importing it.
        import ipufeed  # noqa: F401

        self.work = feeds.Scalars()

    def time_200000_scalars_enqueued_and_dequeued(self):
        self.work.fill(200_000)
        self.work.outfeed.dequeue()

    def track_dequeue_of_200000_scalars(self):
        self.work.fill(200_000)
        return feeds.seconds(self.work.outfeed.dequeue) / 200_000 * 1e9

    track_dequeue_of_200000_scalars.unit = "ns/result"


class Latency:
    """From an enqueue to when a thread that sleeps in stream() has the result."""

    timeout = 300

    def setup_cache(self):
        import ipufeed  # noqa: F401

        return sorted(feeds.result_latencies(500))

    def track_p50(self, latencies):
        return latencies[len(latencies) // 2] * 1e6

    def track_p99(self, latencies):
        return latencies[len(latencies) * 99 // 100] * 1e6

    track_p50.unit = track_p99.unit = "us"
