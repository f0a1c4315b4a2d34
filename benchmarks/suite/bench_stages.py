"""What does attribution cost, and how far is it off? A pipeline with planted costs.

The stages sleep, so that their fractions do not depend on the machine's other load.
"""


class Attribution:
    """Three stages of 1, 3 and 1 ms, one after the other: the second has three fifths."""

    timeout = 300

    def setup_cache(self):
        import time

        from benchmarks import stages

        planted = [
            stages.Planted(f"stage_{name}", ms, 0, False)
            for name, ms in (("a", 1.0), ("b", 3.0), ("c", 1.0))
        ]
        from ipufeed.benchmark.stages.explain import explain

        explanation = explain(stages.build(planted, time.sleep), 2.0, cut=False)
        assert explanation is not None
        shares = {stage.name: stage.share for stage in explanation.stages}
        return shares["stage_b"], explanation.model.period

    def track_error_of_the_share(self, found):
        return 100 * abs(found[0] - 0.6)

    def track_error_of_the_period(self, found):
        return 100 * abs(found[1] / 5e-3 - 1)

    track_error_of_the_share.unit = "points"
    track_error_of_the_period.unit = "%"


class Probes:
    """The rate of a pipeline of 1 ms with probes, and without, alternately."""

    timeout = 300

    def track_rate_with_probes(self):
        from benchmarks import stages

        gain = stages.gain_with_probes(0.5)
        return float("nan") if gain is None else 100 * gain

    track_rate_with_probes.unit = "% of that without"
