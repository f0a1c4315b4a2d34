"""The variance from a run's windows covers the next run, whatever the noise."""

import numpy as np
import pytest

from ipufeed.benchmark.comparing.variance import (
    UNSEEN,
    batch_variance,
    log_variance_of,
    student_quantile,
)

WINDOWS, RUNS = 100, 400


def autoregressive(correlation):
    """Noise of variance 1 whose neighbours are correlated."""

    def make(random):
        steps = random.normal(size=WINDOWS + 300) * np.sqrt(1 - correlation**2)
        noise = np.zeros_like(steps)
        for i in range(1, len(steps)):
            noise[i] = correlation * noise[i - 1] + steps[i]
        return noise[300:]

    return make


NOISES = {
    "independent": lambda random: random.normal(size=WINDOWS),
    "half correlated": autoregressive(0.5),
    "nine tenths correlated": autoregressive(0.9),
    "heavy tails": lambda random: random.standard_t(3, WINDOWS),
}


@pytest.mark.parametrize("noise", NOISES.values(), ids=NOISES)
def test_the_variance_is_that_of_runs_or_a_little_more(noise):
    """From 0.95 times to three times the standard deviation that many runs show."""
    random = np.random.default_rng(0)
    logs, variances = [], []
    for _ in range(RUNS):
        elements = 100 * np.exp(0.01 * noise(random))
        logs.append(np.log(elements.sum()))
        variances.append(log_variance_of(elements, np.ones(WINDOWS)).value)

    assert 0.95 < np.sqrt(np.mean(variances)) / np.std(logs) < 3


def test_a_drift_does_not_average_out():
    """The next run may go on where a rate goes down: more than what this one has shown."""
    drift = log_variance_of(np.linspace(105, 95, WINDOWS), np.ones(WINDOWS))
    still = log_variance_of(np.full(WINDOWS, 100.0), np.ones(WINDOWS))

    assert np.sqrt(drift.value) > 0.04  # its own windows: 0.03
    assert drift.slope > -0.2
    assert still.value == 0


def test_independent_noise_halves_when_a_run_is_twice_as_long():
    """The slope is what seconds_needed rests on."""
    random = np.random.default_rng(0)
    slopes = [
        log_variance_of(random.uniform(90, 110, WINDOWS), np.ones(WINDOWS)).slope
        for _ in range(100)
    ]

    assert np.mean(slopes) == pytest.approx(-0.95, abs=0.05)


def test_of_all_scales_the_worst_counts():
    """Noise in runs of eight windows is not taken for that of single ones."""
    random = np.random.default_rng(0)
    stretches = np.repeat(random.normal(size=WINDOWS // 8 + 1), 8)[:WINDOWS]
    elements = 100 * np.exp(0.01 * stretches)

    estimate = log_variance_of(elements, np.ones(WINDOWS))

    excess = elements / elements.mean() - 1
    for scale in (1, 2, 4, 8, 16):
        carried = batch_variance(excess, scale) * (WINDOWS / scale) ** estimate.slope
        assert estimate.value >= 0.99 * carried * (1 + UNSEEN * (1 + estimate.slope))


def test_too_few_windows_give_no_interval():
    """Seven windows have no estimate, eight have one."""
    assert log_variance_of(np.arange(1.0, 8.0), np.ones(7)) is None
    assert log_variance_of(np.arange(1.0, 9.0), np.ones(8)).value > 0


@pytest.mark.parametrize(
    ("freedom", "expected"),
    [(1, 63.657), (2, 9.925), (3, 5.841), (8, 3.355), (30, 2.750), (100, 2.626)],
)
def test_student_quantiles_are_those_of_the_tables(freedom, expected):
    """99 %, on both sides."""
    assert student_quantile(0.99, freedom) == pytest.approx(expected, rel=1e-3)
