"""What does it cost to feed four replicas from one dataset?

The yardstick is four bare iterators, one after the other: GetNext in C++ on the same
finalised dataset, for as many elements in all. Its elements take 1 ms each, asleep, so
that the ratio does not depend on the machine's other load.

    track_feeder_overhead      seconds of the replicas / seconds of the iterators - 1, in %
    time_all_reduce_1000_...   a thousand all-reduces of 64 bytes by four replicas
    time_all_reduce_100_...    a hundred of 1 MiB
"""

from benchmarks import feeds, iterate

REPLICAS = 4
ELEMENTS = 1200  # of all replicas
SECONDS_EACH = 1e-3


class Replication:
    rounds = 2
    repeat = 3
    number = 1  # each call is far above the 50 ms that a sample needs
    warmup_time = 0.0
    timeout = 300

    def setup(self):
        # First, and not at the module's head: asv lists benchmarks without importing it.
        import ipufeed  # noqa: I001
        import tensorflow as tf

        from ipufeed.parallel.collectives import ops as collectives

        config = ipufeed.IPUConfig()
        config.auto_select_ipus = REPLICAS
        config.configure_ipu_system()
        self.source = feeds.slow_source(SECONDS_EACH)
        self.queue = feeds.infeed(self.source)
        self.fed = feeds.program(lambda element: None, [], self.queue)
        self.small, self.large = (
            feeds.program(collectives.cross_replica_sum, [tf.zeros([size])])
            for size in (16, 1 << 18)
        )

    def teardown(self):
        _ = self.queue.deleter

    def track_feeder_overhead(self):
        # Takes what was read ahead, and the first that is waited for.
        self.fed(self.queue.stats().capacity // REPLICAS + 2)
        seconds = feeds.seconds(lambda: self.fed(ELEMENTS // REPLICAS))
        bare = sum(
            iterate.bare(self.source, ELEMENTS // REPLICAS).wall
            for _ in range(REPLICAS)
        )
        return 100 * (seconds / (bare * ELEMENTS / REPLICAS) - 1)

    track_feeder_overhead.unit = "%"

    def time_all_reduce_1000_of_64_bytes(self):
        self.small(1000)

    def time_all_reduce_100_of_1_mb(self):
        self.large(100)
