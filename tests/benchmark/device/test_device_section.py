"""Verdicts, warnings and rows of a device, from facts that were made up."""

import dataclasses
import re
import types

import numpy as np
import pytest

from ipufeed.benchmark.cli.options.device import parse_seconds
from ipufeed.benchmark.device import section
from ipufeed.benchmark.device.knee import Knee, Point
from ipufeed.benchmark.device.links import slowest_link
from ipufeed.benchmark.device.settings import DeviceSettings
from ipufeed.benchmark.device.utilisation import Utilisation
from ipufeed.benchmark.device.warnings import device_warnings
from ipufeed.benchmark.measuring.steady_state import find_steady
from ipufeed.benchmark.report.page import _device
from ipufeed.benchmark.report.summary_device import (
    _keeps_busy,
    _knee,
    _results,
    device_rows,
)
from ipufeed.device.program.steps import StepTimes

MS = 1_000_000


def used(
    *, au=1.0, starved=0.0, blocked=0.0, late=0.0, steps=100, waits=0.0, harness=1e-5
):
    return Utilisation(steps, 1.0, au, starved, blocked, late, waits, harness)


def facts(device, ends, free=None, looks=(), samples=None, starts=None, sweep=None):
    """A run whose steps ended so; each began where the one before ended, or at `starts`."""
    ends = np.asarray(ends, np.int64)
    begun = np.concatenate([[0], ends[:-1]])
    times = StepTimes(
        begun, begun if starts is None else np.asarray(starts, np.int64), begun, ends
    )
    raw = types.SimpleNamespace(stamps=ends, counters={"finished_ns": int(ends[-1])})
    run = types.SimpleNamespace(
        raw=raw,
        elements=len(ends),
        first_ns=int(ends[0]),
        ended=False,
        failure=None,
        begun=[0],
        depths=list(looks),
        stored_bytes=0,
        step_times=lambda: times,
    )
    return section.DeviceFacts(run, device, 0, 256, None, free, sweep, samples)


def busy(step_ms=10, count=100, **more):
    ends = np.arange(1, count + 1) * step_ms * MS
    return facts(DeviceSettings(step_seconds=step_ms / 1e3), ends, **more)


def warned(made):
    return {warning["code"]: warning["message"] for warning in device_warnings(made)}


@pytest.mark.parametrize(
    ("shares", "verdict"),
    [
        ({}, "device-bound"),
        ({"starved": 0.04, "late": 0.04, "blocked": 0.04}, "device-bound"),
        ({"starved": 0.06}, "host-bound"),
        ({"starved": 0.3, "late": 0.2, "blocked": 0.2}, "host-bound"),
        ({"starved": 0.1, "late": 0.2}, "harness-bound"),
        ({"starved": 0.1, "blocked": 0.2, "late": 0.3}, "reader-bound"),
    ],
)
def test_the_verdict_is_whose_time_it_was(shares, verdict):
    """The largest share, from 5 % on."""
    assert section.verdict(used(**shares), True, None) == verdict


def test_without_a_step_time_no_harness_is_blamed():
    """A step that takes as long as the hand-over is all harness."""
    assert section.verdict(used(late=0.9), False, None) == "device-bound"


def test_results_that_pile_up_are_the_readers():
    """Also while nothing is blocked yet."""
    assert section.verdict(used(), True, {"keeps_up": False}) == "reader-bound"
    assert section.verdict(used(), True, {"keeps_up": True}) == "device-bound"


@pytest.mark.parametrize(
    ("keeps_up", "free", "verdict"),
    [
        (False, used(), "reader-bound"),
        (False, used(late=0.2), "harness-bound"),
        (False, None, "harness-bound"),
        (True, used(), "harness-bound"),
    ],
)
def test_steps_that_are_late_since_results_pile_up_are_the_readers(
    keeps_up, free, verdict
):
    """With a free source, whose results are read, the simulation was in time."""
    late = used(late=0.3)

    assert section.verdict(late, True, {"keeps_up": keeps_up}, free) == verdict


def test_a_busy_device_has_a_section_without_warnings():
    """AU 1; at 100 steps there is nothing to add."""
    made = busy(free=used())
    found = section.device_section(made)

    assert found["au"] == 1.0
    assert found["verdict"] == "device-bound"
    assert found["free_source_au"] == 1.0
    assert found["results"] is None
    assert warned(made) == {}


def test_a_step_that_the_harness_fills_is_warned_of():
    """More than half of the step, or a free source that does not get its 98 %."""
    assert "step_too_short" in warned(busy(free=used(harness=6e-3)))
    assert "AU of 90%" in warned(busy(free=used(au=0.9)))["step_too_short"]
    assert "step_too_short" not in warned(busy(free=used(harness=4e-3)))


def test_few_steps_are_warned_of():
    """Less than twenty."""
    assert "few_steps" in warned(busy(count=10, free=used()))
    assert "few_steps" not in warned(busy(count=22, free=used()))


def test_one_step_is_not_several():
    assert "based on 1 step:" in warned(busy(count=2, free=used()))["few_steps"]


def test_a_time_for_a_larger_batch_can_be_given():
    """Written as --step-time reads it, without an exponent."""
    ends = np.arange(1, 50) * 636 * MS
    device = DeviceSettings(preset="unet3d-a100")
    reported = warned(facts(device, ends, samples=32.0))["preset_batch"]
    text = re.search(r"--step-time (\S+),", reported)[1]

    assert "e" not in text
    assert parse_seconds("--step-time", text) == pytest.approx(0.636 * 32 / 7, rel=0.01)


def starving(loader_seconds, period_ms=4):
    """A device with steps of 1 ms that waits for elements every `period_ms`."""
    ends = np.arange(1, 101) * period_ms * MS
    alone = find_steady(ends, False)
    device = DeviceSettings(step_seconds=1e-3)
    made = facts(device, ends, free=used(), starts=ends - MS)
    return dataclasses.replace(made, alone=alone, loader_seconds=loader_seconds)


def test_a_device_that_waits_for_the_way_to_it_is_warned_of():
    """Then the loader is not what the AU is about."""
    reported = warned(starving(1e-3))["slow_hand_over"]

    assert "4 ms between two elements the loader takes 1 ms" in reported
    assert "slow_hand_over" not in warned(starving(3e-3))
    assert "slow_hand_over" not in warned(starving(None))  # a tf.data dataset
    busy_one = dataclasses.replace(
        busy(free=used()), alone=starving(None).alone, loader_seconds=1e-3
    )
    assert "slow_hand_over" not in warned(busy_one)


def test_a_batch_that_is_not_the_presets_is_warned_of_with_the_remedy():
    """It names both, and the time of a batch of this size."""
    ends = np.arange(1, 50) * 224 * MS
    device = DeviceSettings(preset="resnet50-h100")
    reported = warned(facts(device, ends, samples=200.0))["preset_batch"]

    assert "batch of 400" in reported
    assert "hold 200 samples" in reported
    assert "--step-time 112ms" in reported
    assert "preset_batch" not in warned(facts(device, ends, samples=400.0))
    assert "preset_batch" not in warned(facts(device, ends, samples=None))


def looks(growth, start=0):
    """Twenty looks, a tenth of a second apart."""
    return [
        (number * 100 * MS, 4, int(start + growth * number)) for number in range(20)
    ]


@pytest.mark.parametrize(
    ("growth", "start", "keeps_up"),
    [(0, 3, True), (50, 0, False), (0, 5000, True), (0.4, 200, True)],
)
def test_a_host_keeps_up_if_what_is_unread_does_not_grow(growth, start, keeps_up):
    """More than the ring holds, and growing by a twentieth of what is given."""
    device = DeviceSettings(step_seconds=0.01, result_bytes=1000)
    made = facts(device, np.arange(1, 101) * 10 * MS, looks=looks(growth, start))
    found = section.results_section(made, used())

    assert found["keeps_up"] == keeps_up
    assert found["growth_per_second"] == pytest.approx(10 * growth, abs=2)
    assert found["unread_bytes_most"] == 1000 * int(start + 19 * growth)
    assert ("results_pile_up" in warned(made)) != keeps_up


def test_at_most_two_hundred_samples_are_kept():
    """Evenly, from the first element on."""
    many = [(number * 50 * MS, 1, 0) for number in range(12_345)]
    depths = section.depths(busy(looks=many))

    assert 100 < len(depths) <= 200
    assert depths[0]["seconds"] == pytest.approx(-0.01)
    gaps = np.diff([look["seconds"] for look in depths])
    assert np.allclose(gaps, gaps[0])


def sweep(au_at_period, late=0.0, ended=False):
    points = tuple(
        Point(step, used(au=au, late=late, starved=1 - au))
        for step, au in ((0.005, 0.5), (0.01, au_at_period), (0.02, 1.0))
    )
    return Knee(0.01, points, ended)


def test_a_knee_that_is_off_is_warned_of_and_an_even_one_is_not():
    """By where, how far, and what may be behind it."""
    device = DeviceSettings(step_seconds=0.01, knee=True)
    ends = np.arange(1, 101) * 10 * MS

    reported = warned(facts(device, ends, sweep=sweep(0.8)))["knee_deviates"]
    assert "step of 10 ms the AU is 80%" in reported
    assert "would reach 100%" in reported
    assert "bursts" in reported
    assert warned(facts(device, ends, sweep=sweep(0.97))) == {}
    assert warned(facts(device, ends, sweep=sweep(0.8, late=0.2))) == {}
    assert "knee_cut_short" in warned(facts(device, ends, sweep=sweep(1.0, ended=True)))
    assert "knee_cut_short" in warned(facts(device, ends))


def test_a_sweep_that_was_interrupted_is_not_laid_on_the_dataset():
    """The warning about the interruption covers it; the dataset may never end."""
    device = DeviceSettings(step_seconds=0.01, knee=True)
    made = facts(device, np.arange(1, 101) * 10 * MS)

    assert "knee_cut_short" in warned(made)
    assert "knee_cut_short" not in warned(dataclasses.replace(made, interrupted=True))


def test_the_period_is_that_of_the_knee_then_of_the_run_then_of_the_dataset_alone():
    """As far as each of them saw the pipeline's own pace."""
    device = DeviceSettings(step_seconds=0.01)
    made = busy()
    alone = find_steady(np.arange(1, 1001) * MS, False)
    with_alone = section.DeviceFacts(made.run, device, 0, 256, alone, None, None, None)
    with_knee = section.DeviceFacts(
        made.run, device, 0, 256, alone, None, sweep(1.0), None
    )

    assert section.period(with_knee, used()) == 0.01
    all_starved = used(starved=0.5, waits=1.0)
    assert section.period(with_alone, all_starved) == pytest.approx(0.01)
    assert section.period(with_alone, used()) == pytest.approx(1e-3)
    # A few long waits: the other steps went at the device's pace.
    few_starved = used(starved=0.5, waits=0.1)
    assert section.period(with_alone, few_starved) == pytest.approx(1e-3)
    assert section.period(made, few_starved) is None
    assert section.period(made, used()) is None


def test_the_rows_answer_the_questions_of_a_user():
    """Verdict, AU with its bar, starved, overhead, period."""
    ends = np.arange(1, 101) * 224 * MS
    made = facts(DeviceSettings(preset="resnet50-h100"), ends, free=used(au=0.999))
    rows = dict(device_rows(section.device_section(made), None))

    assert rows["verdict"] == "device-bound: the pipeline keeps it busy"
    assert rows["utilisation (AU)"].startswith(
        "100.0% with steps of 224 ms (resnet50-h100)"
    )
    assert "MLPerf's bar of 90% is reached" in rows["utilisation (AU)"]
    assert "a free source gets an AU of 99.9%" in rows["overhead"]
    assert rows["results"] is None
    assert rows["knee"] is None


def test_a_wait_until_the_end_stands_next_to_the_au_of_the_time_before(monkeypatch):
    """Else "host-bound" would stand above an AU of 100 % that was starved 0 %."""
    made = busy()
    made.run.raw.counters["finished_ns"] += 2000 * MS
    stats = types.SimpleNamespace
    waited = (stats(device_waited_s=2.0), stats(device_waited_s=0.0))
    monkeypatch.setattr(section, "waits", lambda run: waited)

    found = section.device_section(made)
    rows = dict(device_rows(found, None))

    assert found["verdict"] == "host-bound"
    assert found["last_wait_seconds"] == pytest.approx(1.99)  # less a whole step
    assert rows["verdict"].endswith("pipeline; it waited for the last 1.99 s")
    assert rows["utilisation (AU)"].startswith("before that: 100.0%")
    assert rows["starved"].startswith("before that: 0.0%")
    assert "the table is of the time before" in _device({"device": found})


def test_a_run_that_does_not_wait_at_its_end_has_no_last_wait():
    """The rows say nothing of it."""
    found = section.device_section(busy())

    assert found["last_wait_seconds"] is None
    assert "before" not in str(device_rows(found, None))


def test_a_dataset_that_stalls_until_the_end_is_the_slowest_link():
    """The rate alone is of the time before the wait, for which no hand-over is to blame."""
    alone = find_steady(np.arange(1, 1001) * MS, False)

    assert slowest_link("host-bound", 100.0, alone) == "infeed"
    stalled = slowest_link("host-bound", 100.0, alone, waits_at_end=True)
    assert stalled == "dataset"


def test_without_a_device_the_row_names_one_that_would_be_kept_busy():
    """The pipeline's period; nothing without a rate."""
    assert _keeps_busy(None) is None
    assert "step takes 12.5 ms or longer" in _keeps_busy({"elements_per_second": 80.0})


def test_the_knee_is_one_line_of_points():
    """Each step time with its AU, and the furthest."""
    made = facts(
        DeviceSettings(step_seconds=0.01, knee=True),
        np.arange(1, 101) * 10 * MS,
        sweep=sweep(0.9),
    )
    text = _knee(section.device_section(made))

    assert text.startswith("5 ms 50%, 10 ms 90%, 20 ms 100%")
    assert "-10.0 points" in text


def test_a_point_at_which_the_simulation_was_late_is_marked():
    """Its AU is not a figure of the pipeline's."""
    made = facts(
        DeviceSettings(step_seconds=0.01, knee=True),
        np.arange(1, 101) * 10 * MS,
        sweep=sweep(0.7, late=0.2),
    )

    assert "10 ms 70%*" in _knee(section.device_section(made))
    assert "the simulation was late" in _knee(section.device_section(made))


def test_a_host_that_falls_behind_is_named_in_the_summary():
    """With rate, size, and how much was unread."""
    device = DeviceSettings(step_seconds=0.01, result_bytes=1000)
    made = facts(device, np.arange(1, 101) * 10 * MS, looks=looks(50))
    text = _results(section.results_section(made, used()))

    assert (
        "results of 1 kB a second: the host falls behind, at most 950 were unread"
        in text
    )
