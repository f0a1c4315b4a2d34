"""What does an element cost? Our way, the bare C++ loop, and the Python loop.

asv divides nothing here: a `time_` value is the time for the number of elements in its
name. Compare ours with the bare loop of the same size, in the same run.
"""

from benchmarks import iterate, pipelines


class _Sized:
    rounds = 2
    repeat = 5
    number = 1  # each call is far above the 50 ms that a sample needs
    warmup_time = 0.0
    timeout = 300

    def setup(self):
        # First, and not at the module's head: asv lists benchmarks without importing it.
        import ipufeed  # noqa: F401

        self.tiny = pipelines.tiny()
        self.medium = pipelines.medium()
        self.large = pipelines.large()


class Through(_Sized):
    """The feeder, the ring and the consumer."""

    def time_100000_tiny(self):
        iterate.through(self.tiny, 100_000)

    def time_1000_medium(self):
        iterate.through(self.medium, 1000)

    def time_20_large(self):
        iterate.through(self.large, 20)

    def time_20_large_copied(self):
        iterate.through(self.large, 20, copy=True)


class Bare(_Sized):
    """GetNext on the calling thread: the floor."""

    def time_100000_tiny(self):
        iterate.bare(self.tiny, 100_000)

    def time_1000_medium(self):
        iterate.bare(self.medium, 1000)

    def time_20_large(self):
        iterate.bare(self.large, 20)


class Loop(_Sized):
    """`for element in dataset`."""

    def time_2000_tiny(self):
        iterate.loop(self.tiny, 2000)

    def time_1000_medium(self):
        iterate.loop(self.medium, 1000)

    def time_20_large(self):
        iterate.loop(self.large, 20)
