"""What AU promises, from times that were made up: no clock, no device, no dataset."""

import numpy as np
import pytest

from ipufeed.benchmark.device.utilisation import utilisation
from ipufeed.device.program.steps import StepTimes

MS = 1_000_000


def steps(*rows):
    """StepTimes of (free, start, called, end) in ms."""
    columns = np.array(rows, dtype=np.float64).T * MS
    return StepTimes(*(column.astype(np.int64) for column in columns))


def even(count, step, period, late=0.0):
    """Steps of a source that gives an element each `period` ms."""
    rows, end = [], 0.0
    for number in range(count):
        start = max(end, number * period)
        rows.append((end, start, start + 0.1, start + step + late))
        end = start + step + late
    return steps(*rows)


def test_a_source_that_is_always_there_gives_all_of_the_time():
    """AU 1, and nothing else."""
    used = utilisation(even(100, 10, 0), 10 * MS)

    assert used.steps == 99  # the first step begins the time, and is not in it
    assert used.au == 1.0
    assert (used.starved, used.blocked, used.late, used.starved_steps) == (0, 0, 0, 0)
    assert used.harness_seconds == pytest.approx(1e-4)


@pytest.mark.parametrize(
    ("step", "au"), [(1, 0.1), (5, 0.5), (9, 0.9), (10, 1), (20, 1)]
)
def test_an_even_source_gives_the_step_over_the_period(step, au):
    """AU = min(1, step / period)."""
    used = utilisation(even(200, step, 10), step * MS)

    assert used.au == pytest.approx(au)
    assert used.starved == pytest.approx(1 - au)
    assert used.starved_steps == (step < 10)


def test_the_fractions_of_the_time_add_up():
    """Computed, starved, blocked and late: nothing is left over."""
    times = steps((0, 0, 0, 10), (12, 15, 15, 25), (25, 25, 40, 40), (41, 41, 41, 51))
    used = utilisation(times, 10 * MS)

    assert used.seconds == pytest.approx(0.041)
    assert used.au == pytest.approx(30 / 41)
    assert used.blocked == pytest.approx(3 / 41)
    assert used.starved == pytest.approx(3 / 41)
    assert used.late == pytest.approx(5 / 41)
    assert used.au + used.blocked + used.starved + used.late == pytest.approx(1)
    assert used.starved_steps == pytest.approx(1 / 3)


def test_a_slow_harness_is_not_taken_for_starvation():
    """A free source with 2 ms of harness beyond each step of 8: AU 80 %, late 20 %."""
    used = utilisation(even(50, 8, 0, late=2), 8 * MS)

    assert used.au == pytest.approx(0.8)
    assert used.late == pytest.approx(0.2)
    assert used.starved == 0


def test_only_the_window_counts():
    """From the end of one step to the end of another; negative places as in a list."""
    times = steps(
        (0, 0, 0, 10), (10, 500, 500, 510), (510, 510, 510, 520), (520, 520, 520, 530)
    )

    assert utilisation(times, 10 * MS, 1, -1).au == 1.0
    assert utilisation(times, 10 * MS, 1, 3).steps == 2
    assert utilisation(times, 10 * MS).starved > 0.9


def test_between_two_programs_the_device_starves():
    """A new program's first step knows nothing of the one before."""
    times = steps((0, 0, 0, 10), (10, 10, 10, 20), (80, 80, 80, 90))
    used = utilisation(times, 10 * MS, begun=(0, 2))

    assert used.blocked == 0
    assert used.starved == pytest.approx(60 / 80)


@pytest.mark.parametrize("count", [0, 1])
def test_less_than_two_steps_have_no_utilisation(count):
    """None, and no division by zero."""
    times = even(1, 10, 0)
    few = StepTimes(*(column[:count] for column in vars(times).values()))

    assert utilisation(few, 10 * MS) is None


def test_steps_that_take_no_time_have_no_utilisation():
    """Likewise."""
    assert utilisation(steps(*[(5, 5, 5, 5)] * 4), 0) is None
