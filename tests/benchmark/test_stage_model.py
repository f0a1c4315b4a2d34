"""What the model promises: who waits passes the blame on, and predictions follow."""

import pytest

from ipufeed.benchmark.pipeline_graph import Step
from ipufeed.benchmark.stage_model import build_model
from ipufeed.benchmark.stage_run import Reading, StageRun

MS = 1_000_000
ELEMENTS = 1000


def step(node, *inputs):
    return Step(node, f"{node}Dataset", inputs, None, None)


def reading(wall_ms, cpu_ms=0.0, *, pool_ms=None, workers=-1):
    """Per element; a pool makes the step asynchronous."""
    return Reading(
        elements=ELEMENTS,
        wall_ns=round(wall_ms * MS * ELEMENTS),
        cpu_ns=round(cpu_ms * MS * ELEMENTS),
        model_ns=round((pool_ms or 0.0) * MS * ELEMENTS),
        inner_ns=0,
        inner_elements=0,
        is_async=0 if pool_ms is None else 1,
        parallelism=workers,
        buffer_elements=-1,
        buffered_bytes=0,
        tuned=0,
    )


def model_of(steps, readings, period_ms, cpu_ms=0.0, cpus=4):
    run = StageRun(
        readings=readings,
        wall_ns=round(period_ms * MS * ELEMENTS),
        cpu_ns=round(cpu_ms * MS * ELEMENTS),
        others=0.0,
        elements=ELEMENTS,
    )
    return build_model(steps, run, cpus)


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
    """With four of them, decode hides behind the source."""
    assert serial.predict({}, {"decode": 4.0}) == pytest.approx(4.0)


def test_who_waits_passes_the_blame_on(overlapping):
    """That decode takes 2 ms does not matter: it has time to wait."""
    assert overlapping.costs["source"].share == pytest.approx(1.0)
    assert overlapping.costs["decode"].share == pytest.approx(0.0)


def test_a_hidden_step_gains_nothing(overlapping):
    """It takes 2 ms beside a source of 4 ms."""
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


def test_a_free_pipeline_is_held_up_by_its_consumer():
    """Nobody in it is to blame for what the copies take."""
    model = model_of([step("source")], {"source": reading(0.1)}, period_ms=4.0)

    assert model.costs["source"].share == pytest.approx(0.025)
