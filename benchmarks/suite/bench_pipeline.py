"""What does a pipeline cost beyond its stages? Waiting ones, and ones that hand on."""

import statistics
import time

from benchmarks.pipeline_stages import Stages


class Waiting:
    """Four stages that wait 5 ms each, 32 mini-batches: ideally (32 + 3) x 5 ms."""

    timeout = 300

    def setup(self):
        import ipufeed  # noqa: F401

        self.work = Stages(seconds=0.005)

    def track_times_of_the_ideal(self):
        taken = []
        for _ in range(7):
            start = time.perf_counter()
            self.work.run()
            taken.append(time.perf_counter() - start)
        return statistics.median(taken) / self.work.ideal_s

    track_times_of_the_ideal.unit = "times the ideal"


class HandOver:
    """Four stages that add one: three hand-overs for each mini-batch."""

    params = ([1, 262_144],)
    param_names = ("elements",)
    timeout = 300

    def setup(self, elements):
        import ipufeed  # noqa: F401

        self.work = Stages(elements=elements, count=64, repeat=4)

    def track_microseconds_of_a_mini_batch(self, elements):
        taken = []
        for _ in range(7):
            start = time.perf_counter()
            self.work.run()
            taken.append(time.perf_counter() - start)
        return statistics.median(taken) / self.work.count * 1e6

    track_microseconds_of_a_mini_batch.unit = "us"
