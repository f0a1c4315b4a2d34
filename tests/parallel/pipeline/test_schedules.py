"""The three schedules, step by step, and what they need of counts and FIFOs."""

import pytest

from ipufeed.parallel.pipeline.schedules import (
    PipelineSchedule,
    Schedule,
    read,
    refusal,
    rotations,
)

GROUPED, INTERLEAVED, SEQUENTIAL = PipelineSchedule


def rows(schedule: Schedule, count: int) -> list[str]:
    """A line for each device: what it does in each step, as in "F0:2"."""
    steps = schedule.steps(count)
    devices = sorted({each.device for each in schedule.positions})
    lines = []
    for device in devices:
        cells = []
        for step in steps:
            own = [
                f"{position.label}:{mini_batch}"
                for position, mini_batch in step
                if position.device == device
            ]
            cells.append("+".join(own) or "-")
        lines.append(" ".join(cells))
    return lines


def test_schedules_are_shown_by_their_names():
    """Also from Python 3.11 on, where an IntEnum is shown as its number."""
    assert [str(each) for each in PipelineSchedule] == [
        "PipelineSchedule.Grouped",
        "PipelineSchedule.Interleaved",
        "PipelineSchedule.Sequential",
    ]


def test_grouped_training_runs_all_of_a_devices_stages_in_each_step():
    """Two stages, four mini-batches: ramp-up, one full step, ramp-down."""
    schedule = Schedule(GROUPED, ((0,), (1,)), training=True)

    assert rows(schedule, 4) == [
        "F0:0 F0:1 F0:2 F0:3+B0:0 B0:1 B0:2 B0:3",
        "- F1:0 F1:1+B1:0 F1:2+B1:1 F1:3+B1:2 B1:3 -",
    ]


def test_interleaved_training_alternates_forward_and_backward():
    """A device has one stage in a step, and a mini-batch starts in every second one."""
    schedule = Schedule(INTERLEAVED, ((0,), (1,)), training=True)

    assert rows(schedule, 4) == [
        "F0:0 - F0:1 B0:0 F0:2 B0:1 F0:3 B0:2 - B0:3",
        "- F1:0 B1:0 F1:1 B1:1 F1:2 B1:2 F1:3 B1:3 -",
    ]


def test_sequential_training_runs_one_stage_at_a_time():
    """The next mini-batch starts when the one before has gone forth and back."""
    schedule = Schedule(SEQUENTIAL, ((0,), (1,)), training=True)

    assert rows(schedule, 2) == [
        "F0:0 - - B0:0 F0:1 - - B0:1",
        "- F1:0 B1:0 - - F1:1 B1:1 -",
    ]


@pytest.mark.parametrize("kind", [GROUPED, INTERLEAVED])
def test_inference_starts_a_mini_batch_in_each_step(kind):
    """Three stages, each a step behind the one before."""
    schedule = Schedule(kind, ((0,), (1,), (2,)), training=False)

    assert rows(schedule, 3) == [
        "F0:0 F0:1 F0:2 - -",
        "- F1:0 F1:1 F1:2 -",
        "- - F2:0 F2:1 F2:2",
    ]


def test_sequential_inference_runs_one_stage_at_a_time():
    """Nothing overlaps."""
    schedule = Schedule(SEQUENTIAL, ((0,), (1,)), training=False)

    assert rows(schedule, 2) == ["F0:0 - F0:1 -", "- F1:0 - F1:1"]


def test_concurrent_stages_work_on_a_mini_batch_in_the_same_step():
    """Both branches of the second stage, and then the third."""
    schedule = Schedule(GROUPED, ((0,), (1, 2), (2,)), training=False)

    assert rows(schedule, 3) == [
        "F0:0 F0:1 F0:2 - -",
        "- F1:0 F1:1 F1:2 -",
        "- F1.1:0 F1.1:1+F2:0 F1.1:2+F2:1 F2:2",
    ]


@pytest.mark.parametrize(
    ("kind", "training", "expected"),
    [
        (GROUPED, False, 4),
        (GROUPED, True, 8),
        (INTERLEAVED, False, 4),
        (INTERLEAVED, True, 4),
        (SEQUENTIAL, False, 1),
        (SEQUENTIAL, True, 1),
    ],
)
def test_the_overlap_of_four_stages_is_the_original_systems(kind, training, expected):
    """F or 2F for Grouped, F for Interleaved, 1 for Sequential."""
    schedule = Schedule(kind, ((0,), (1,), (2,), (3,)), training)

    assert schedule.overlap == expected


def test_turns_of_a_list_that_meets_itself_are_left_out():
    """A device that is used twice allows some turns only."""
    assert rotations([(0,), (1,), (2,)]) == (0, 1, 2)
    assert rotations([(0,), (1,), (1,), (0,)]) == (0, 2)
    assert rotations([(0,), (1,), (0,)]) == (0,)
    assert rotations([(0,), (0,)]) == (0,)


@pytest.mark.parametrize("kind", PipelineSchedule)
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("mapping", [(0, 1), (0, 1, 2, 3), (0, 0, 1), (2, 0, 1)])
def test_no_schedule_loses_or_repeats_work(kind, training, mapping):
    """Each position has each mini-batch once, in order, and at its lag and phase."""
    schedule = Schedule(kind, tuple((each,) for each in mapping), training)
    count = 2 * schedule.overlap

    seen: dict[tuple[str, int], int] = {}
    for number, step in enumerate(schedule.steps(count)):
        for position, mini_batch in step:
            assert (position.label, mini_batch) not in seen
            seen[position.label, mini_batch] = number
        if kind is INTERLEAVED:
            devices = [position.device for position, _ in step]
            assert len(devices) == len(set(devices))

    assert len(seen) == count * schedule.length
    for mini_batch in range(count):
        times = [seen[each.label, mini_batch] for each in schedule.positions]
        assert times == sorted(times)
    for position in schedule.positions:
        start = schedule.start(5) + position.index
        turn = 5 + schedule.lag(position)
        assert start == turn * schedule.stride + schedule.phase(position)


def ideal(kind, devices, training, count):
    """Of each IPU."""
    schedule = Schedule(kind, tuple((each,) for each in devices), training)
    return schedule.ideal_utilisation(count)


def test_the_ideal_share_of_work_is_that_of_a_full_pipeline():
    """N / (N + S - 1), for a stage on each IPU."""
    for kind in (GROUPED, INTERLEAVED):
        assert ideal(kind, [0, 1, 2, 3], False, 32) == dict.fromkeys(range(4), 32 / 35)


def test_the_ideal_of_training_has_both_directions_on_an_ipu():
    """N / (N + F - 1), of Sequential 1 / F: an IPU waits for its inputs, for no step."""
    for kind in (GROUPED, INTERLEAVED):
        assert ideal(kind, [0, 1], True, 4) == {0: 4 / 5, 1: 4 / 5}
        assert ideal(kind, range(4), True, 32) == dict.fromkeys(range(4), 32 / 35)
    assert ideal(SEQUENTIAL, [0, 1], True, 4) == {0: 1 / 2, 1: 1 / 2}


def test_the_ideal_of_ipus_with_unequal_work_is_unequal():
    """An IPU with two stages keeps the others waiting; alone, it waits for none."""
    assert ideal(GROUPED, [0, 0, 1], False, 4) == {0: 8 / 9, 1: 4 / 9}
    assert ideal(GROUPED, [0, 0], True, 8) == {0: 1.0}
    assert ideal(SEQUENTIAL, [0, 1, 0], False, 5) == {0: 10 / 15, 1: 5 / 15}


def test_the_ideal_of_mini_batches_that_do_not_overlap_is_that_of_one():
    """A mapping whose starts are uneven: each waits until the one before is through."""
    assert ideal(INTERLEAVED, [0, 1, 0, 1], False, 6) == {0: 1 / 2, 1: 1 / 2}


@pytest.mark.parametrize("kind", PipelineSchedule)
@pytest.mark.parametrize("training", [False, True])
def test_a_schedule_is_read_from_its_text(kind, training):
    """Concurrent stages included; other text is none."""
    schedule = Schedule(kind, ((0,), (1, 12), (2,)), training)

    assert read(schedule.text(12)) == (schedule, 12)
    assert read("something else") is None


COUNT_NAMES = (
    "This number might be called `gradient_accumulation_count`, "
    "`gradient_accumulation_steps_per_replica` or `steps_per_execution` depending on "
    "the API used."
)


def test_counts_that_do_not_fit_are_refused_with_the_original_words():
    """A multiple of L, and at least L; L + 2 with I/O tiles, and no multiple."""
    schedule = Schedule(GROUPED, ((0,), (1,)), training=True)

    assert refusal(schedule, 8) == ""
    assert refusal(schedule, 10) == (
        "The number of iterations of the pipeline must be a multiple of 4, but it is 10. "
        + COUNT_NAMES
    )
    assert refusal(schedule, 2) == (
        "The number of iterations of the pipeline must be at least 4, but it is 2. "
        + COUNT_NAMES
    )
    assert refusal(schedule, 7, io_tiles=True) == ""
    assert "at least 6, but it is 5" in refusal(schedule, 5, io_tiles=True)
