"""What the course of a run promises: nothing lost or twice, each part where it was."""

import numpy as np
import pytest
import tensorflow as tf
from helpers import run_op, sleeping
from results import run_of

from ipufeed.benchmark import Settings, measure
from ipufeed.benchmark.measuring.series import (
    MOST_WINDOWS,
    Parts,
    series_section,
    waits_by_window,
)


def parts_of(**changes):
    """A run from 0 that has its first element at 100 ns and its last at 1000."""
    whole = {
        "requested_ns": 0,
        "first_ns": 100,
        "steady_ns": 100,
        "drain_ns": None,
        "last_ns": 1000,
        "longest_ns": 500,
        "ended": False,
    }
    return Parts(**{**whole, **changes})


def marks_of(*rows):
    """Marks of (time, elements); each element has 4 bytes."""
    return np.array([[at, n, 4 * n, 0, 0, 0, 0] for at, n in rows], np.int64)


@pytest.mark.parametrize("elements", [1, 2, 57, 10_000, 300_000])
def test_windows_add_up_to_the_run(elements):
    """However many marks there were: all elements and bytes, no gap, few windows."""
    marks, stamps, parts = run_of(elements / 100)

    series = series_section(marks, parts)

    assert len({len(column) for column in series.values()}) == 1
    assert len(series["part"]) <= MOST_WINDOWS
    assert sum(series["elements"]) == len(stamps)
    assert sum(series["bytes"]) == 400 * len(stamps)
    ends = np.add(series["start_seconds"], series["seconds"])
    np.testing.assert_allclose(ends[:-1], series["start_seconds"][1:], atol=1e-8)
    assert ends[-1] == pytest.approx((stamps[-1] - parts.requested_ns) / 1e9)


def test_windows_of_two_parts_are_never_one():
    """Start-up, fill and steady state keep their borders when windows become wider."""
    marks, _, parts = run_of(3000)

    series = series_section(marks, parts)

    names = series["part"]
    assert names[0] == "startup"
    assert names[1:] == sorted(names[1:])  # fill, then steady
    begin = series["start_seconds"][names.index("steady")]
    assert begin == pytest.approx(
        (parts.steady_ns - parts.requested_ns) / 1e9, rel=0.01
    )


def test_a_drain_has_its_part():
    """What comes behind the steady state, where the dataset ended."""
    marks = marks_of((100, 1), (500, 5), (1000, 50))

    series = series_section(marks, parts_of(drain_ns=500, ended=True))

    assert series["part"] == ["startup", "steady", "drain"]
    assert series["elements"] == [1, 4, 45]


def test_a_silence_at_the_end_is_a_window_without_elements():
    """Unless the dataset had ended: then there was nothing to wait for."""
    marks = marks_of((100, 1), (1000, 9), (10**9, 9))

    stalled = series_section(marks, parts_of())
    ended = series_section(marks, parts_of(ended=True))

    assert stalled["part"] == ["startup", "steady", "stalled"]
    assert stalled["elements"][-1] == 0
    assert ended["part"] == ["startup", "steady"]


def test_a_pause_as_before_is_not_a_silence():
    """The requested time may be over in the middle of an element."""
    marks = marks_of((100, 1), (1000, 9), (1900, 9))

    series = series_section(marks, parts_of())

    assert series["part"] == ["startup", "steady"]


def test_an_empty_dataset_has_no_series():
    """An empty dataset has no course."""
    assert series_section(np.zeros([0, 7], np.int64), parts_of()) is None


def test_a_wait_is_in_the_windows_in_which_it_was():
    """It is counted at its end; what its window cannot hold was before."""
    waited = waits_by_window(np.array([0, 0, 0, 250]), np.array([100, 100, 100, 100]))

    assert waited.tolist() == [0, 50, 100, 100]


def test_a_wait_does_not_reach_beyond_one_that_ended_before_it():
    """A late wake-up would else fill up the whole run before it."""
    waited = waits_by_window(np.array([90, 90, 0, 250]), np.array([100, 100, 100, 100]))

    assert waited.tolist() == [90, 100, 100, 100]


def test_a_full_table_of_marks_still_adds_up():
    """The native table drops every other mark and loses nothing but detail."""
    dataset = tf.data.Dataset.range(20_000)

    counters, others = run_op(dataset, mark_ns=1, most_marks=8, epochs=1)

    marks = others["marks"]
    assert 4 <= len(marks) <= 10
    assert marks[0, 0] == counters["first_ns"]
    assert marks[0, 1] == 1
    assert (np.diff(marks[:, 0]) > 0).all()
    assert (np.diff(marks[:, 1:], axis=0) >= 0).all()
    assert marks[-1, 1] == counters["elements"] == 20_000
    assert marks[-1, 3] == counters["starved_ns"]
    assert marks[-1, 4] == counters["blocked_ns"]


def test_a_measured_run_has_its_course():
    """All elements, in windows that follow each other."""
    result = measure(sleeping(0.002).take(200), Settings(seconds=10))

    series = result.series
    ends = np.add(series["start_seconds"], series["seconds"])
    assert sum(series["elements"]) == result.elements == 200
    assert np.allclose(ends[:-1], series["start_seconds"][1:])
    assert all(0 <= share <= 1 for share in series["starved_share"])


@pytest.mark.measured
def test_a_source_that_changes_its_beat_shows_when():
    """The waits are the consumer's."""
    quick, slow = (sleeping(s).take(n) for s, n in ((0.002, 200), (0.02, 20)))

    result = measure(quick.concatenate(slow), Settings(seconds=10))

    series = result.series
    rates = np.divide(series["elements"], series["seconds"])
    middle = np.add(series["start_seconds"], np.divide(series["seconds"], 2))
    half = middle[-1] / 2
    assert sum(series["elements"]) == result.elements
    assert np.median(rates[middle < half]) > 3 * np.median(rates[middle > half])
    assert np.mean(series["starved_share"]) > 0.9
