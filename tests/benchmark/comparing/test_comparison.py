"""What a comparison promises: its error rates, and never a verdict on different things.

The error rates are those of thousands of synthetic runs with fixed seeds, so that the
tests always have one outcome. `python -m benchmarks.confidence` has those of real ones.
"""

import json

import numpy as np
import pytest
from synthetic import RATE, WINDOWS, synthetic

from ipufeed.benchmark import compare
from ipufeed.benchmark.comparing.verdicts import CANNOT_TELL
from ipufeed.errors import ComparisonError, NothingToCompareError

# Of each noise; the seeds are given, so that no run differs from another.
PAIRS = [300, pytest.param(1000, marks=pytest.mark.soak)]


def autoregressive(random, correlation):
    """Noise of variance 1 whose neighbours are correlated."""
    steps = random.normal(size=WINDOWS + 300) * np.sqrt(1 - correlation**2)
    noise = np.zeros_like(steps)
    for i in range(1, len(steps)):
        noise[i] = correlation * noise[i - 1] + steps[i]
    return noise[300:]


def flicker(random):
    """Noise with as much in each octave of time, up to the length of four runs."""
    length = 4 * WINDOWS
    frequency = np.fft.rfftfreq(length)
    frequency[0] = np.inf
    parts = random.normal(size=(2, len(frequency)))
    noise = np.fft.irfft((parts[0] + 1j * parts[1]) / np.sqrt(frequency))
    return noise[:WINDOWS] / noise.std()


# The noise of a run, as shares for its windows. In addition, each has a level of its own,
# with the standard deviation that repeated runs on a quiet machine have.
LEVEL = 0.004
QUIET = {
    "independent": lambda random: 0.02 * random.normal(size=WINDOWS),
    "correlated": lambda random: 0.01 * autoregressive(random, 0.7),
    "heavy tails": lambda random: 0.01 * random.standard_t(3, WINDOWS),
    "a drift": lambda random: random.normal() * np.linspace(-0.005, 0.005, WINDOWS),
}
LOUD = {
    "long correlated": lambda random: 0.05 * autoregressive(random, 0.95),
    "flicker": lambda random: 0.05 * flicker(random),
    "shifts": lambda random: np.where(
        np.arange(WINDOWS) < random.integers(20, 80), 0.1 * random.normal(), 0
    ),
    "bursts": lambda random: -0.3 * (autoregressive(random, 0.8) > 1.5),
}


def verdicts(noise, factor, pairs, runs=1, seed=0):
    """How often each verdict came for a new rate that is `factor` times the base's."""
    random = np.random.default_rng(seed)

    def side(factor):
        return [
            synthetic(noise(random) + LEVEL * random.normal(), factor=factor)
            for _ in range(runs)
        ]

    found = [compare(side(1.0), side(factor)).verdict for _ in range(pairs)]
    return {verdict: found.count(verdict) / pairs for verdict in found}


@pytest.mark.parametrize(
    "noise", [*QUIET.values(), *LOUD.values()], ids=[*QUIET, *LOUD]
)
@pytest.mark.parametrize("pairs", PAIRS)
def test_two_runs_of_the_same_are_called_different_in_1_of_100_pairs_at_most(
    noise, pairs
):
    """Whatever the noise is like; short of a level that changes only between runs."""
    assert verdicts(noise, 1.0, pairs)[CANNOT_TELL] >= 0.99


@pytest.mark.parametrize("noise", QUIET.values(), ids=QUIET)
@pytest.mark.parametrize(
    ("factor", "verdict"), [(0.95, "worse"), (1 / 0.95, "better")], ids=["-5 %", "+5 %"]
)
@pytest.mark.parametrize("pairs", PAIRS)
def test_a_change_of_5_percent_is_seen_in_95_of_100_pairs(
    noise, factor, verdict, pairs
):
    """With the noise of a quiet machine; and the other verdict is never given."""
    found = verdicts(noise, factor, pairs)

    assert found[verdict] >= 0.95
    assert set(found) <= {verdict, CANNOT_TELL}


@pytest.mark.long
def test_levels_that_change_between_runs_are_seen_with_several_of_each():
    """Runs that differ by 3 % need more of them: 2 false verdicts of 100, at most."""

    def shaken(random):
        return np.full(WINDOWS, 0.03 * random.normal())

    assert verdicts(shaken, 1.0, pairs=200, runs=5)[CANNOT_TELL] >= 0.98
    assert verdicts(shaken, 0.9, pairs=100, runs=5)["worse"] >= 0.8


def test_five_runs_of_each_see_a_smaller_difference():
    """On a quiet machine 3 % is seen with five, which one of each cannot promise."""
    one = compare(synthetic(), synthetic())
    five = compare([synthetic()] * 5, [synthetic()] * 5)

    assert one.smallest_detectable > 0.03
    assert five.smallest_detectable < 0.03
    assert verdicts(QUIET["independent"], 0.97, pairs=100, runs=5)["worse"] >= 0.95


def test_seconds_needed_is_enough_and_not_more():
    """Runs that long see 5 % where these do not; a little less does not do."""

    def noisy(windows_per_10_s, seconds):
        count = round(windows_per_10_s * seconds / 10)
        random = np.random.default_rng(3)
        noise = 0.2 * random.normal(size=count)
        edges = np.array_split(noise, WINDOWS)
        return synthetic([part.mean() for part in edges], seconds=seconds)

    short = compare(noisy(100, 10.0), noisy(100, 10.0))
    long = compare(noisy(100, short.seconds_needed), noisy(100, short.seconds_needed))

    assert short.smallest_detectable > 0.06
    assert 10 < short.seconds_needed < 300
    assert long.smallest_detectable == pytest.approx(0.05, rel=0.15)


def test_a_drift_needs_more_runs_and_no_longer_ones():
    """Where longer does not help, seconds_needed is null and runs_needed is not."""
    drift = synthetic(np.linspace(-0.03, 0.03, WINDOWS))

    comparison = compare(drift, drift)

    assert comparison.verdict == CANNOT_TELL
    assert comparison.seconds_needed is None
    assert 2 < comparison.runs_needed <= 100


# ---- The gate ----


@pytest.mark.parametrize(
    ("factor", "verdict"),
    [(1.2, "held"), (1.0, "held"), (0.95, CANNOT_TELL), (0.9, "slower")],
)
def test_a_gate_fails_only_where_surely_more_is_lost(factor, verdict):
    """A loss of as much as is allowed is neither surely more nor surely less."""
    comparison = compare(synthetic(), synthetic(factor=factor), allowed_loss=0.05)

    assert comparison.gate == {"allowed_loss": 0.05, "verdict": verdict}


def test_a_gate_of_nothing_fails_on_what_is_worse():
    """0 % allowed: the gate's answer is the verdict's."""
    comparison = compare(synthetic(), synthetic(factor=0.94), allowed_loss=0)

    assert (comparison.verdict, comparison.gate["verdict"]) == ("worse", "slower")


@pytest.mark.parametrize("loss", [-0.1, 1.0, 5.0])
def test_a_loss_out_of_range_is_refused(loss):
    """5 is not 5 %."""
    with pytest.raises(ValueError, match=r"`allowed_loss` must be in \[0, 1\), got"):
        compare(synthetic(), synthetic(), allowed_loss=loss)


# ---- What can be compared ----


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"machine": {"cpu": "faster"}}, "other_machine"),
        ({"machine": {"usable_cpus": 1}}, "other_machine"),
        ({"settings": {"memcpy": False}}, "other_settings"),
        ({"settings": {"through": "device"}}, "other_settings"),
        ({"settings": {"passes": 2}}, "other_settings"),
        (
            {"dataset": {"element_spec": "int8 (9,)", "samples_per_element": None}},
            "other_elements",
        ),
        ({"warnings": [{"code": "stalled", "message": ""}]}, "stalled"),
    ],
    ids=["cpu", "cpus", "memcpy", "through", "passes", "elements", "stalled"],
)
def test_what_is_not_comparable_gets_no_verdict(changes, code):
    """The ratio is given, twice the rate here, and a note that forbids a verdict."""
    comparison = compare(
        synthetic(), synthetic(factor=2.0, **changes), allowed_loss=0.05
    )

    assert comparison.ratio == pytest.approx(2)
    assert (comparison.verdict, comparison.gate["verdict"]) == (CANNOT_TELL,) * 2
    assert [note.code for note in comparison.notes if note.forbids] == [code]


def test_other_batch_sizes_are_compared_by_samples():
    """Half as many elements of twice as many samples are the same rate."""
    twice = {"samples_per_element": 16.0, "element_spec": "float32 (16,)"}

    comparison = compare(synthetic(), synthetic(factor=0.5, dataset=twice))

    assert comparison.unit == "samples"
    assert comparison.ratio == pytest.approx(1)
    assert comparison.base["rate"] == pytest.approx(8 * RATE)
    assert comparison.verdict == CANNOT_TELL


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"machine": {"tensorflow": "2.99"}}, "other_versions"),
        ({"dataset": {"bytes_per_element": 64.0}}, "other_sizes"),
        ({"warnings": [{"code": "near_resolution", "message": ""}]}, "harness_limited"),
        ({"warnings": [{"code": "not_steady", "message": ""}]}, "not_steady"),
    ],
    ids=["versions", "sizes", "harness", "not steady"],
)
def test_what_is_worth_knowing_is_noted_next_to_the_verdict(changes, code):
    """The verdict stands, and the note says with what it came about."""
    comparison = compare(synthetic(), synthetic(factor=0.5, **changes))

    assert comparison.verdict == "worse"
    assert code in [note.code for note in comparison.notes]


def test_a_run_under_other_load_is_not_called_worse():
    """Half of the rate, with one CPU of two in other hands, is not a slower pipeline."""
    beside = {"machine": {"cpus_used_by_others": 1.0}, "resources": {"cpus_busy": 1.0}}

    worse = compare(synthetic(), synthetic(factor=0.6, **beside))
    better = compare(synthetic(factor=0.6, **beside), synthetic())
    slower = compare(synthetic(**beside), synthetic(factor=0.3))

    assert (worse.verdict, better.verdict) == (CANNOT_TELL, CANNOT_TELL)
    assert slower.verdict == "worse"


def test_a_run_that_waited_for_no_cpu_lost_little_to_other_load():
    """The kernel has counted: a pipeline that sleeps is compared on a busy machine, too."""
    busy = {"cpus_used_by_others": 1.9, "usable_cpus": 2}
    beside = {
        "machine": busy,
        "resources": {"cpus_busy": 0.05, "threads_waiting": 0.01},
    }
    unseen = {"machine": busy, "resources": {"cpus_busy": 0.05}}
    much = {
        "machine": busy,
        "resources": {"cpus_busy": 0.05, "threads_waiting": 0.8},
    }

    assert compare(synthetic(), synthetic(factor=0.85, **beside)).verdict == "worse"
    assert compare(synthetic(), synthetic(factor=0.85, **unseen)).verdict == CANNOT_TELL
    assert compare(synthetic(), synthetic(factor=0.85, **much)).verdict == CANNOT_TELL


def test_too_short_a_run_gives_a_ratio_and_no_interval():
    """Seven windows."""
    comparison = compare(synthetic(), synthetic(np.zeros(7), factor=0.1))

    assert comparison.verdict == CANNOT_TELL
    assert comparison.interval is None
    assert comparison.smallest_detectable is None
    assert [note.code for note in comparison.notes] == ["too_short"]


# ---- What is not a result ----


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"schema_version": 2}, "has `schema_version` 2, and this ipufeed reads 1"),
        (
            {"error": {"type": "DataLossError", "element": 7, "message": ""}},
            "failed with DataLossError at element 7",
        ),
        (
            {"steady": {"windows": None}},
            "has no `windows` in `steady`, as results of old",
        ),
        ({"steady": {"windows": 3}}, "must be a list of numbers, got None"),
        (
            {"steady": {"windows": {"elements": [1], "seconds": [0]}}},
            "`seconds` of the windows must be numbers above 0, got 0",
        ),
        (
            {"steady": {"windows": {"elements": [1, 2], "seconds": [1]}}},
            "as many `elements` as `seconds`, got 2 and 1",
        ),
        (
            {"steady": {"elements_per_second": True}},
            "must be a number above 0, got True",
        ),
        (
            {"steady": {"elements_per_second": 10**400}},  # no float holds it
            "must be a number above 0, got 1000",
        ),
        ({"steady": {"elements_per_second": 900.0}}, "was edited or damaged"),
        ({"dataset": []}, r"must have an object `dataset`, got \[\]"),
        (
            {"dataset": {"samples_per_element": "x"}},
            "`samples_per_element` must be a n",
        ),
        ({"machine": None}, "must have an object `machine`, got None"),
    ],
)
def test_what_is_not_a_result_is_refused_in_words(changes, words):
    """Which result it is, what must be what, and what it is."""
    with pytest.raises(ComparisonError, match=words):
        compare(synthetic(), synthetic(**changes))


def test_a_result_without_a_rate_is_an_error_of_its_own():
    """One element, or none, is nothing to compare."""
    with pytest.raises(NothingToCompareError, match=r"base \(synthetic\) has no rate"):
        compare(synthetic(steady=None), synthetic())


def test_no_results_are_refused():
    """An empty list is not a side of a comparison."""
    with pytest.raises(ValueError, match="`new` must have at least one result"):
        compare(synthetic(), [])


def test_the_json_is_strict_and_has_the_promised_keys():
    """What programs read."""

    def refuse(constant):
        raise ValueError(constant)

    comparison = compare(synthetic(), synthetic(factor=0.9))
    parsed = json.loads(comparison.to_json(), parse_constant=refuse)

    assert {
        "verdict",
        "ratio",
        "interval",
        "verdict_interval",
        "smallest_detectable",
        "seconds_needed",
    } <= set(parsed)
    assert parsed["interval"][0] < parsed["ratio"] < parsed["interval"][1]
    assert parsed["verdict_interval"][1] < 1


def test_the_same_results_give_the_same_comparison():
    """Nothing in it is drawn by chance."""
    noisy = synthetic(QUIET["independent"](np.random.default_rng(0)))

    assert compare(noisy, synthetic()) == compare(noisy, synthetic())
