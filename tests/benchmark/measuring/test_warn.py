"""The texts of warnings, from facts that were made up: no clock is involved."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest

from ipufeed.benchmark import Settings
from ipufeed.benchmark.measuring import warnings as warn
from ipufeed.benchmark.measuring.steady_state import Steady

SURE = Steady(
    first=0,
    last=1000,
    elements=1000,
    seconds=10.0,
    interval=(98.0, 102.0),
    left_out=(),
    settled=True,
)
EPOCHS = [[500, 0, 0, 0, 500], [500, 0, 0, 500, 1000]]
COUNTERS = {"elements": 1000, "ended": 1, "epochs_per_entry": 1}


def facts(steady=SURE, counters=COUNTERS, **others):
    """Facts of a long, steady run, but for what is given."""
    known = {
        "raw": SimpleNamespace(
            counters=counters, failure=None, stamps=range(1000), epochs=EPOCHS
        ),
        "settings": Settings(),
        "steady": steady,
        "pass_rates": None,
        "samples": 1.0,
        "calibration": None,
        "others": 0.0,
        "usable_cpus": 2,
        "length": "unknown",
    }
    return warn.Facts(**{**known, **others})


@pytest.mark.parametrize(
    ("rates", "differ"),
    [([100, 95, 110], False), ([10, 100, 101], True), ([100, 100, 79], True)],
)
def test_passes_differ_by_more_than_a_fifth(rates, differ):
    """Whichever of them it is: a cache that fills, or a neighbour's load."""
    assert (warn.passes_differ(facts(pass_rates=rates)) is not None) == differ


def test_the_warning_of_passes_has_the_first_and_the_range_of_the_others():
    """The first one fills what the others read."""
    _, message = warn.passes_differ(facts(pass_rates=[12.3, 4567.0, 8000.0]))

    assert "the first one gave 12.3 elements/s, the others 4,567 to 8,000." in message
    _, message = warn.passes_differ(facts(pass_rates=[12.3, 4567.0]))
    assert "the first one gave 12.3 elements/s, the second 4,567. The" in message


def passes_of(start_s, elements=20, passes=3):
    """Passes of an element each 10 ms; all but the first begin after `start_s`."""
    stamps, epochs, now = [], [], 0.0
    for number in range(passes):
        began, now = now, now + (start_s if number else 0.0)
        stamps += [now + 0.01 * each for each in range(1, elements + 1)]
        now = stamps[-1]
        epochs.append([elements, 0, 0, int(began * 1e9), int(now * 1e9)])
    return SimpleNamespace(
        counters=COUNTERS, failure=None, epochs=epochs, stamps=np.array(stamps) * 1e9
    )


@pytest.mark.parametrize("loader", [False, True])
def test_starts_that_make_passes_differ_are_in_the_warning(loader):
    """The first one's start is the start-up, and in no pass."""
    given = {"pass_rates": [100.0, 33.3, 33.3], "loader": loader}
    _, message = warn.passes_differ(facts(raw=passes_of(0.4), **given))

    assert "its start in it, 410 ms or 68% of the pass; that of the" in message
    assert ("persistent_workers=True" in message) == loader
    _, message = warn.passes_differ(facts(raw=passes_of(0.0), **given))
    assert message.endswith("`pass_rates` has each.")


@pytest.mark.parametrize(
    ("length", "complete"),
    [(500, True), (1000, True), (300, False), ("unknown", False)],
)
def test_a_pass_that_is_complete_but_not_ended_lacks_no_element(length, complete):
    """A loader may end its workers in the call that ends the pass."""
    times = {"first_ns": 0, "last_ns": 1000, "finished_ns": 10**9}
    raw = SimpleNamespace(
        counters={**COUNTERS, **times, "ended": 0}, failure=None, stamps=range(1000)
    )
    code, message = warn._stalled(facts(raw=raw, length=length))

    assert code == "stalled"
    assert ("are complete, and to end the last one" in message) == complete
    assert message.endswith("rate is that of the time before.")


def test_others_are_only_blamed_for_a_rate_that_is_known():
    """A run that is too short for any statement does not make that one either."""
    short = dataclasses.replace(SURE, seconds=0.01)
    wide = dataclasses.replace(SURE, interval=(50.0, 150.0))

    code, message = warn.busy_machine(facts(others=1.5))

    assert code == "busy_machine"
    assert "would probably be higher" in message
    assert warn.busy_machine(facts(steady=short, others=1.5)) is None
    assert warn.busy_machine(facts(steady=wide, others=1.5)) is None


def test_a_wide_interval_is_warned_of():
    """With what to do about it, which depends on whether there was more to get."""
    wide = dataclasses.replace(SURE, interval=(65.0, 135.0))
    running = {**COUNTERS, "ended": 0}

    code, message = warn.uncertain(facts(steady=wide))

    assert code == "uncertain"
    assert "± 35%" in message
    assert "repeat() the dataset" in message
    assert "--seconds" in warn.uncertain(facts(steady=wide, counters=running))[1]
    assert warn.uncertain(facts()) is None


def test_a_run_that_failed_is_not_advised_to_be_longer():
    """It would fail at the same element."""
    wide = dataclasses.replace(SURE, interval=(65.0, 135.0))
    failed = facts(steady=wide, counters={**COUNTERS, "ended": 0})
    failed.raw.failure = RuntimeError()
    _, message = warn.uncertain(failed)

    assert message.endswith("or mend what failed, which ended the run.")


def test_a_loader_has_no_repeat():
    """That is a method of a tf.data dataset."""
    wide = dataclasses.replace(SURE, interval=(65.0, 135.0))
    _, message = warn.uncertain(facts(steady=wide, loader=True))

    assert "repeat()" not in message
    assert message.endswith("or go through it more often (--passes).")


def test_a_short_steady_state_is_given_to_three_digits():
    """49.8 ms are less than 50 ms, and 50 ms are not."""
    short = dataclasses.replace(SURE, seconds=0.0498)

    assert "rests on 49.8 ms, less than the 50 ms" in warn._too_short(facts(short))[1]


def test_a_short_run_of_passes_is_advised_to_make_more_passes():
    """Not for what was done already, nor for a repeat() that would make it endless."""
    few = {**COUNTERS, "elements": 4}
    asked = facts(counters=few, settings=Settings(passes=2))

    assert "ask for more passes than 2 (--passes)" in warn.too_few(asked)[1]
    assert "repeat" not in warn.too_few(asked)[1]
    assert "repeat() the dataset, or go" in warn.too_few(facts(counters=few))[1]


def test_epochs_that_were_merged_are_warned_of():
    """How many stand in an entry."""
    merged = {**COUNTERS, "epochs_per_entry": 512}

    assert "adds up 512 neighbours" in warn.merged(facts(counters=merged))[1]
    assert warn.merged(facts()) is None
