"""What the model promises: a wait passes the blame on, and predictions follow."""

from dataclasses import replace

import pytest

from ipufeed.benchmark.graph.pipeline_graph import Step
from ipufeed.benchmark.stages.costs import build_model
from ipufeed.benchmark.stages.probe_run import Reading, StageRun

MS = 1_000_000
ELEMENTS = 1000


def step(node, *inputs, op=None):
    return Step(node, op or f"{node}Dataset", inputs, None, None)


def reading(wall_ms, cpu_ms=0.0, *, pool_ms=None, workers=-1, booked_ms=0.0):
    """Per element; a pool makes the step asynchronous."""
    return Reading(
        elements=ELEMENTS,
        wall_ns=round(wall_ms * MS * ELEMENTS),
        cpu_ns=round(cpu_ms * MS * ELEMENTS),
        model_ns=round((pool_ms or booked_ms) * MS * ELEMENTS),
        is_async=0 if pool_ms is None else 1,
        parallelism=workers,
        buffer_elements=-1,
        buffered_bytes=0,
        tuned=0,
    )


def model_of(steps, readings, period_ms, cpu_ms=0.0, cpus=4, **options):
    run = StageRun(
        readings=readings,
        wall_ns=round(period_ms * MS * ELEMENTS),
        cpu_ns=round(cpu_ms * MS * ELEMENTS),
        others=0.0,
        elements=ELEMENTS,
    )
    return build_model(steps, run, cpus, **options)


@pytest.fixture
def serial():
    """A source of 1 ms -> decode 3 ms, in one thread."""
    return model_of(
        [step("source"), step("decode", "source")],
        {"source": reading(1.0), "decode": reading(4.0)},
        4.0,
    )


@pytest.fixture
def overlapping():
    """A source of 4 ms -> prefetch -> decode 2 ms: decode waits for the source."""
    return model_of(
        [step("source"), step("fetch", "source"), step("decode", "fetch")],
        {
            "source": reading(4.0),
            "fetch": reading(2.0, pool_ms=0.0),
            "decode": reading(4.0),
        },
        4.0,
    )


def test_steps_of_a_thread_share_its_time(serial):
    """A step has what it takes beyond its inputs."""
    assert serial.costs["source"].share == pytest.approx(0.25)
    assert serial.costs["decode"].share == pytest.approx(0.75)


def test_twice_as_fast_in_a_thread_gives_what_is_left(serial):
    """4 ms become 2.5 ms."""
    assert serial.predict({"decode": 0.5}) == pytest.approx(4 / 2.5)
    assert serial.predict({"decode": 0.0}) == pytest.approx(4)
    assert serial.next_limit({"decode": 0.0}) == "source"


def test_workers_of_its_own_take_a_step_out_of_its_thread(serial):
    """With four of them, decode is overlapped by the source."""
    assert serial.predict({}, {"decode": 4.0}) == pytest.approx(4.0)


def test_a_stage_that_waits_passes_its_share_on(overlapping):
    """That decode takes 2 ms does not matter: it has time to wait."""
    assert overlapping.costs["source"].share == pytest.approx(1.0)
    assert overlapping.costs["decode"].share == pytest.approx(0.0)


def test_a_hidden_step_gains_nothing(overlapping):
    """It takes 2 ms next to a source of 4 ms."""
    assert overlapping.predict({"decode": 0.0}) == pytest.approx(1.0)
    assert overlapping.predict({"source": 0.5}) == pytest.approx(2.0)


def test_a_pool_that_is_waited_for_is_to_blame():
    """12 ms with three workers are 4 ms; its input is fast."""
    model = model_of(
        [step("source"), step("decode", "source")],
        {
            "source": reading(0.1),
            "decode": reading(4.0, pool_ms=12.0, workers=3),
        },
        4.0,
    )

    assert model.costs["decode"].share == pytest.approx(1.0)
    assert model.predict({"decode": 0.5}) == pytest.approx(2.0)


def test_a_slow_input_of_a_pool_is_to_blame():
    """The workers idle while the source takes its 4 ms."""
    model = model_of(
        [step("source"), step("decode", "source")],
        {
            "source": reading(4.0),
            "decode": reading(4.0, pool_ms=3.0, workers=3),
        },
        4.0,
    )

    assert model.costs["source"].share == pytest.approx(1.0)
    assert model.costs["decode"].share == pytest.approx(0.0)


def test_more_workers_than_cpus_give_nothing_when_the_cpus_are_busy():
    """8 ms of CPU on two CPUs are 4 ms, however many workers there are."""
    model = model_of(
        [step("source"), step("decode", "source")],
        {
            "source": reading(0.0),
            "decode": reading(4.0, pool_ms=16.0, workers=4),
        },
        4.0,
        cpu_ms=8.0,
        cpus=2,
    )

    assert model.cpu_bound
    assert model.predict({}, {"decode": 8.0}) == pytest.approx(1.0)
    assert model.predict({"decode": 0.5}) == pytest.approx(2.0)


def test_the_bottleneck_of_a_free_pipeline_is_its_consumer():
    """No stage of it is to blame for what the copies take."""
    model = model_of([step("source")], {"source": reading(0.1)}, period_ms=4.0)

    assert model.costs["source"].share == pytest.approx(0.025)


def calls(fetch_ms, function_ms, workers, period_ms, cpus=4):
    """A source, and a parallel map whose calls fetch from it."""
    return model_of(
        [step("source"), step("decode", "source", op="ParallelMapDatasetV2")],
        {
            "source": reading(fetch_ms),
            "decode": reading(period_ms, pool_ms=function_ms, workers=workers),
        },
        period_ms,
        cpus=cpus,
    )


def test_one_call_at_a_time_overlaps_with_nothing():
    """It fetches, then computes: 4 ms and 4 ms are 8, and each of them is half."""
    model = calls(4.0, 4.0, workers=1, period_ms=8.0)

    assert model.costs["source"].share == pytest.approx(0.5)
    assert model.costs["decode"].share == pytest.approx(0.5)
    assert model.predict({"source": 0.0}) == pytest.approx(2)
    assert model.predict({"decode": 0.0}) == pytest.approx(2)
    assert model.predict({}, {"decode": 2.0}) == pytest.approx(2)
    assert model.predict_prefetch("source") == pytest.approx(2)
    assert model.next_limit({"decode": 0.0}) == "source"


def test_two_calls_alternate_in_fetching_and_computing():
    """1 ms and 9 ms in two calls are 5 ms, of which the fetching is a tenth."""
    model = calls(1.0, 9.0, workers=2, period_ms=5.0)

    assert model.costs["decode"].share == pytest.approx(0.9)
    assert model.costs["source"].share == pytest.approx(0.1)
    assert model.predict({"source": 0.0}) == pytest.approx(5 / 4.5)


def test_calls_that_queue_for_their_elements_are_not_to_blame():
    """5 ms for each element, whatever is done with it."""
    model = calls(5.0, 4.0, workers=2, period_ms=5.0)

    assert model.costs["source"].share == pytest.approx(1.0)
    assert model.predict({"decode": 0.0}) == pytest.approx(1.0)


def test_a_pool_that_all_functions_fill_is_shared_by_their_time():
    """22 ms and 5.6 ms in two threads are 13.8: what little else waits, waits for them."""
    model = model_of(
        [
            step("files", op="ParallelInterleaveDatasetV4"),
            step("augment", "files", op="MapAndBatchDataset"),
        ],
        {
            "files": reading(5.8, pool_ms=22.0, workers=2),
            "augment": reading(13.8, pool_ms=5.6, workers=2),
        },
        13.8,
        cpus=2,
    )

    assert model.costs["files"].share == pytest.approx(22 / 27.6, abs=0.01)
    assert model.costs["augment"].share == pytest.approx(5.6 / 27.6, abs=0.01)
    assert model.predict({"files": 0.0}) == pytest.approx(13.8 / 2.8)
    assert model.predict({"augment": 0.0}) == pytest.approx(13.8 / 11)


def test_workers_of_one_step_are_threads_that_others_want_too():
    """6, 19 and 10 ms in two threads are 17.5 ms, however many workers the second gets."""
    steps = [
        step("first", op="MapDataset"),
        step("second", "first", op="MapDataset"),
        step("third", "second", op="MapAndBatchDataset"),
    ]
    steps = [replace(each, functions={"f": each.node}) for each in steps]
    model = model_of(
        steps,
        {
            "first": reading(6.0),
            "second": reading(25.0),
            "third": reading(35.0, pool_ms=10.0, workers=1),
        },
        35.0,
        cpus=2,
    )

    assert model.predict({}, {"second": 2.0}) == pytest.approx(2)


def test_functions_of_one_node_that_fill_the_pool_get_the_fraction_of_its_waiters():
    """7 ms in two calls for each 4 ms: a serial function's 3.9 ms are mostly waiting."""
    fetch = step("fetch", "source", op="ParallelMapDatasetV2")
    last = replace(step("last", "fetch", op="MapDataset"), functions={"f": "last"})
    model = model_of(
        [step("source"), fetch, last],
        {
            "source": reading(0.0),
            "fetch": reading(0.1, pool_ms=7.0, workers=2),
            "last": reading(4.0),
        },
        4.0,
        cpus=2,
    )

    assert model.overbooked
    assert model.costs["fetch"].share == pytest.approx(7 / 10.9, abs=0.01)
    assert model.costs["last"].share == pytest.approx(3.9 / 10.9, abs=0.01)


def test_serial_functions_behind_buffers_fill_a_pool_together():
    """Three of 2 ms in two threads are 3 ms, though each has a thread that asks."""
    steps = [replace(step("a", op="MapDataset"), functions={"f": "a"})]
    readings = {"a": reading(3.0, booked_ms=2.0)}
    for name, before in (("b", "a"), ("c", "b")):
        steps += [
            step(f"to_{name}", before, op="PrefetchDataset"),
            replace(step(name, f"to_{name}", op="MapDataset"), functions={"f": name}),
        ]
        readings[f"to_{name}"] = reading(0.0, pool_ms=0.0)
        readings[name] = reading(3.0, booked_ms=2.0)
    model = model_of(steps, readings, 3.0, cpus=2)

    assert model.pool_full
    for name in ("a", "b", "c"):
        assert model.costs[name].share == pytest.approx(1 / 3)
    assert model.predict_pool(4, {}) == pytest.approx(1.5)


def test_datasets_inside_an_interleave_have_had_what_others_left_of_the_pool():
    """4.4 ms in two calls and 1.4 ms in a thread are 2.9: what is more was waiting."""
    files = step("files", op="ParallelInterleaveDatasetV4")
    last = replace(step("last", "files", op="MapDataset"), functions={"f": "last"})
    inside = replace(reading(0.0, pool_ms=0.01, workers=2), inner_wall_ns=5_800_000_000)
    model = model_of(
        [files, last],
        {"files": inside, "last": reading(2.9, booked_ms=1.4)},
        2.9,
        cpus=2,
    )

    assert model.pool_full
    assert model.costs["files"].seconds == pytest.approx(4.4e-3)
    assert model.costs["files"].share == pytest.approx(4.4 / 5.8)
    assert model.predict({"files": 0.0}) == pytest.approx(2.9 / 1.4)
    assert model.predict_pool(8, {"files": 8.0}) == pytest.approx(2.9 / 1.4)


def test_serial_functions_that_take_their_turns_fill_no_pool():
    """One after the other they keep one thread busy, of a pool that has one."""
    first, second = (
        replace(step(name, *inputs, op="MapDataset"), functions={"f": name})
        for name, inputs in (("first", ()), ("second", ("first",)))
    )
    readings = {"first": reading(1.0), "second": reading(4.0)}
    model = model_of([first, second], readings, 4.0, cpus=1)

    assert not model.pool_full


def test_gaps_between_hand_overs_are_not_what_a_quick_function_takes():
    """0.05 ms in two calls, and elements that come each 0.5 ms, 0.08 of it in between."""
    model = calls(0.42, 0.05, workers=2, period_ms=0.5)

    assert model.costs["decode"].share < 0.2
    assert model.costs["source"].share > 0.8


def test_a_buffer_takes_along_what_a_step_is_made_of_and_no_more():
    """Behind the one source of two: the other one stays in its thread."""
    model = model_of(
        [step("left"), step("right"), step("zip", "left", "right")],
        {"left": reading(1.0), "right": reading(5.0), "zip": reading(6.0)},
        6.0,
    )

    assert model.predict_prefetch("right") == pytest.approx(6 / 5)
    assert model.predict_prefetch("left") == pytest.approx(6 / 5)


def test_a_larger_pool_frees_serial_functions_from_waiting_for_a_thread():
    """3 ms in four calls and 1 ms in a thread, with two threads: 2 ms; else 1 ms."""
    source = step("source")
    fetch = step("fetch", "source", op="ParallelMapDatasetV2")
    last = replace(step("last", "fetch", op="MapDataset"), functions={"f": "last"})
    model = model_of(
        [source, fetch, last],
        {
            "source": reading(0.0),
            "fetch": reading(0.0, pool_ms=3.0, workers=4),
            "last": reading(2.0, booked_ms=1.0),
        },
        2.0,
        cpus=2,
    )

    assert model.pool_full
    assert model.costs["last"].seconds == pytest.approx(1e-3)
    assert model.costs["last"].share == pytest.approx(0.25)
    assert model.predict({"fetch": 0.0}) == pytest.approx(2)
    assert model.predict_pool(8, {}) == pytest.approx(2)
    assert model.predict_pool(2, {}) < 1.4  # 3 ms by two


def test_a_pool_of_the_users_size_is_not_full_with_as_many_functions_as_cpus():
    """Two calls of 6 ms keep two of eight threads busy; more calls have room."""
    steps = [step("source"), step("fetch", "source", op="ParallelMapDatasetV2")]
    readings = {
        "source": reading(0.0),
        "fetch": reading(3.0, pool_ms=6.0, workers=2),
    }
    model = model_of(steps, readings, 3.0, cpus=2, pool=8)

    assert not model.pool_full
    assert model.predict({}, {"fetch": 8.0}) == pytest.approx(4)
    small = model_of(steps, readings, 3.0, cpus=2)
    assert small.pool_full
    assert small.predict({}, {"fetch": 8.0}) == pytest.approx(1)
    assert small.predict_pool(8, {"fetch": 8.0}) == pytest.approx(4)


def test_workers_with_threads_of_their_own_are_all_counted():
    """Four datasets that wait 8 ms, on two CPUs: 2 ms, which no kernel has booked."""
    files = step("files", op="ParallelInterleaveDatasetV4")
    model = model_of(
        [files],
        {"files": reading(2.0, pool_ms=0.01, workers=4)},
        2.0,
        cpus=2,
        own_threads=frozenset({"files"}),
    )

    assert model.costs["files"].seconds == pytest.approx(8e-3, rel=0.15)
    assert model.predict({}, {"files": 16.0}) > 3
