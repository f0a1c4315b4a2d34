"""What does an iteration cost? A compiled loop, with queues and without, and Python.

A `time_` value is for the number of iterations in its name. benchmarks/targets/feeds.py
forms the ratios that are promised.
"""

from benchmarks import feeds


class _Timed:
    rounds = 2
    repeat = 5
    number = 1  # each call is far above the 50 ms that a sample needs
    warmup_time = 0.0
    timeout = 300


class Trivial(_Timed):
    """x + element."""

    def setup(self):
        import ipufeed  # noqa: F401

        self.work = feeds.Trivial()

    def time_50000_with_queues(self):
        self.work.loop(50_000)
        self.work.outfeed.dequeue()

    def time_20000000_without_queues(self):
        self.work.without_queues(20_000_000)

    def time_500_from_python(self):
        self.work.python_loop(500)


class Training(_Timed):
    """A step of SGD, 784-128-10 units, batches of 32."""

    def setup(self):
        import ipufeed  # noqa: F401

        self.work = feeds.Training()

    def time_500_with_queues(self):
        self.work.loop(500)
        self.work.outfeed.dequeue()

    def time_500_without_queues(self):
        self.work.without_queues(500)
