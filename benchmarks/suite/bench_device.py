"""What does the simulated device add to a pipeline, and how soon does it stop?"""

import statistics


class FreeSource:
    """A source that is never late, and steps of 1 ms: at 100 % it adds nothing."""

    timeout = 300

    def setup_cache(self):
        import ipufeed  # noqa: F401
        from ipufeed.benchmark.device.free_source import measure_free_source
        from ipufeed.benchmark.device.settings import DeviceSettings

        device = DeviceSettings(step_seconds=1e-3)
        found = [measure_free_source(64, device) for _ in range(5)]
        return [(each.au, each.harness_seconds) for each in found if each is not None]

    def track_utilisation(self, runs):
        return statistics.median(100 * au for au, _ in runs)

    def track_hand_over(self, runs):
        return statistics.median(1e6 * seconds for _, seconds in runs)

    track_utilisation.unit = "%"
    track_hand_over.unit = "us"


class Stop:
    """A step of 10 s that is asleep when its program is stopped."""

    timeout = 300

    def track_stop(self):
        import ipufeed  # noqa: F401
        from benchmarks.targets import device

        return device.stop(10).median

    track_stop.unit = "ms"
