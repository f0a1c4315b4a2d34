"""The steady state: known rates are found, and what is left out is reported."""

import numpy as np
import pytest
from helpers import stamps

from ipufeed.benchmark.measuring.steady_state import find_steady


def ticks(period_s, count, start_s=0.0, jitter=0.0, seed=0):
    """Stamps at an even pace, with some relative jitter."""
    gaps = np.full(count, period_s)
    gaps *= 1 + jitter * np.random.default_rng(seed).uniform(-1, 1, count)
    return start_s + np.cumsum(gaps)


@pytest.mark.parametrize("period_s", [1e-6, 1e-3, 0.1])
def test_an_even_pace_keeps_everything(period_s):
    """Nothing is left out of a run that was steady from the first element on."""
    steady = find_steady(stamps(ticks(period_s, 1000, jitter=0.2)), ended=True)

    assert steady.rate == pytest.approx(1 / period_s, rel=0.02)
    assert steady.left_out == ()
    assert steady.elements == 999
    assert steady.settled


def test_the_first_element_is_not_counted_twice():
    """Of n stamps there are n - 1 gaps: a rate counts the gaps."""
    steady = find_steady(stamps([5.0, 6.0, 7.0]), ended=True)

    assert (steady.elements, steady.seconds, steady.rate) == (2, 2.0, 1.0)
    assert steady.interval is None


@pytest.mark.parametrize(
    "times", [[], [1.0], [1.0, 1.0, 1.0]], ids=["none", "one", "no time between"]
)
def test_too_little_gives_no_rate(times):
    """One element, or many at one moment, are not an infinite rate."""
    assert find_steady(stamps(times), ended=True) is None


@pytest.mark.parametrize("factor", [5.0, 0.2], ids=["burst", "lull"])
def test_a_fill_is_left_out(factor):
    """A start at another rate is not in the steady rate, and is reported."""
    first = ticks(0.01 / factor, int(200 * factor))
    rest = ticks(0.01, 1500, start_s=first[-1], jitter=0.1)

    steady = find_steady(stamps([*first, *rest]), ended=False)

    assert steady.rate == pytest.approx(100, rel=0.02)
    assert [part.what for part in steady.left_out] == ["fill"]
    # The rule may leave out some steady windows with the fill, but not most of them.
    assert 0.9 * first[-1] < steady.left_out[0].seconds < 0.5 * rest[-1]
    assert steady.left_out[0].ratio == pytest.approx(factor, rel=0.5)
    assert steady.elements + steady.left_out[0].elements == len(first) + 1499


def test_a_drain_is_left_out_where_the_dataset_ended():
    """A shuffle buffer that empties at the end must not make the pipeline look fast."""
    slow = ticks(0.01, 1000)
    fast = ticks(0.0001, 1000, start_s=slow[-1])

    ended = find_steady(stamps([*slow, *fast]), ended=True)

    assert ended.rate == pytest.approx(100, rel=0.03)
    assert [part.what for part in ended.left_out] == ["drain"]
    assert ended.left_out[0].elements >= 999


def test_a_drain_is_looked_for_in_the_last_pass_only():
    """A last pass that is as a whole faster (a cache) is not a drain; its end may be."""
    slow = ticks(0.01, 600)
    cached = ticks(0.007, 600, start_s=slow[-1])
    drained = ticks(0.0001, 3000, start_s=cached[-1])

    faster = find_steady(stamps([*slow, *cached]), ended=True, last_pass=600)
    drains = find_steady(stamps([*slow, *cached, *drained]), ended=True, last_pass=600)

    assert "drain" not in [part.what for part in faster.left_out]
    assert [part.what for part in drains.left_out][-1] == "drain"
    assert 3000 <= drains.left_out[-1].elements < 3200


@pytest.mark.parametrize("scale", [1.0, 1e-3], ids=["long", "short"])
def test_a_short_run_is_not_reported_to_fill(scale):
    """What lasts less than 50 ms is as much the scheduler's doing."""
    first = ticks(0.002 * scale, 300)
    rest = ticks(0.01 * scale, 500, start_s=first[-1])

    steady = find_steady(stamps([*first, *rest]), ended=False)

    assert bool(steady.left_out) == (scale == 1.0)
    assert steady.short == (scale < 1.0)
    assert steady.sure == (scale == 1.0)


def test_a_rate_that_is_hardly_known_explains_nothing():
    """A rate that goes up and down says neither fill nor drain."""
    gaps = 2 * [*[0.001] * 1000, *[0.01] * 100]

    steady = find_steady(stamps(np.cumsum(gaps)), ended=True)

    assert steady.half_width > 0.2
    assert not steady.sure
    assert steady.left_out == ()


def test_a_rate_that_never_settles_is_warned_of():
    """A pipeline that slows down all the time has no steady state."""
    gaps = np.linspace(0.001, 0.02, 1000)

    assert not find_steady(stamps(np.cumsum(gaps)), ended=False).settled


def test_the_interval_covers_the_true_rate():
    """Of 200 noisy runs of known rate, at least 85 % of the intervals hold the rate.

    They are 95 % intervals; resampled ones are a little short for correlated data.
    """
    held = 0
    for seed in range(200):
        random = np.random.default_rng(seed)
        noise = np.convolve(random.normal(size=4020), np.ones(20) / 20, "valid")
        gaps = 0.001 * (1 + 0.5 * noise)
        low, high = find_steady(stamps(np.cumsum(gaps)), ended=False).interval
        held += low <= 1000 <= high

    assert held >= 170


def test_the_same_stamps_give_the_same_interval():
    """The resampling has a fixed seed: a result can be computed again."""
    times = stamps(ticks(0.001, 5000, jitter=0.5))

    assert find_steady(times, False).interval == find_steady(times, False).interval
