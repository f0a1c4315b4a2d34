"""The order in which stages and pipelines run, and counts and IPUs that do not fit."""

import itertools
import threading

import numpy as np
import pytest
import tensorflow as tf
from helpers import DEADLOCK_S
from models import Pipelined, v1
from pipeline_stages import STAGES, numbers, program_of
from replicated import configure

from ipufeed.device.program import clock
from ipufeed.device.program.strategy import IPUStrategy
from ipufeed.parallel.pipeline.options import OptimizerFunctionOutput
from ipufeed.parallel.pipeline.schedules import PipelineSchedule
from ipufeed.parallel.timelines import timeline

pytestmark = pytest.mark.long


@pytest.fixture(autouse=True)
def four_ipus(clean_system):
    """A device of four IPUs."""
    configure(4)


def test_a_device_with_too_few_ipus_is_refused():
    """With how many it needs, and what to do."""
    configure(2)
    run, _ = program_of(numbers(100), STAGES, 6)

    with pytest.raises(
        tf.errors.InternalError,
        match=r"with 2 IPUs and 4 shards\..*`auto_select_ipus`.*`device_mapping`",
    ):
        run()


def test_a_count_that_does_not_fit_is_refused_with_the_original_text():
    """Inside a program as well, with none of the compiler's around it."""
    run, _ = program_of(numbers(100), STAGES, 7)

    with pytest.raises(
        tf.errors.FailedPreconditionError,
        match=r"The number of iterations of the pipeline must be a multiple of 3, but it "
        r"is 7\. This number might be called `gradient_accumulation_count`",
    ):
        run()


def test_two_pipelines_of_one_device_run_one_after_the_other():
    """Each waits for the other's end: two that share IPUs must not wait for each other."""
    programs = [program_of(numbers(1000), STAGES, 6, repeat_count=20) for _ in range(2)]
    threads = [threading.Thread(target=run) for run, _ in programs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLOCK_S)

    assert not any(thread.is_alive() for thread in threads)
    for _, outfeed in programs:
        np.testing.assert_array_equal(outfeed.dequeue(), (np.arange(120) + 1) * 2 - 1)


@pytest.mark.parametrize("kind", PipelineSchedule)
def test_two_runs_are_equal_to_the_last_bit(kind):
    """The order of all sums is the schedule's, not the threads'."""
    configure(2)

    def train():
        model = Pipelined(
            lambda: v1.train.AdamOptimizer(0.01),
            2,
            8,
            pipeline_schedule=kind,
            repeat_count=4,
        )
        return model.train()

    one, other = train(), train()

    np.testing.assert_array_equal(one.losses, other.losses)
    for left, right in zip(one.weights, other.weights, strict=True):
        np.testing.assert_array_equal(left, right)


# ---- The order in which it really happens


@pytest.mark.parametrize("kind", PipelineSchedule)
def test_each_ipu_works_in_the_order_of_its_schedule(kind):
    """Stage by stage and mini-batch by mini-batch, as the table of the schedule says."""
    model = Pipelined(
        lambda: v1.train.GradientDescentOptimizer(0.1), 3, 12, pipeline_schedule=kind
    )
    with timeline.record() as executed:
        model.train()

    from ipufeed.parallel.pipeline.schedules import Schedule

    table = Schedule(kind, ((0,), (1,), (2,)), training=True)
    for ipu in range(3):
        planned = [
            (position.label, mini_batch)
            for step in table.steps(12)
            for position, mini_batch in step
            if position.device == ipu
        ]
        done = [
            (each.label, each.mini_batch) for each in executed.slices if each.ipu == ipu
        ]
        assert done == planned
    assert all(0 < share <= 1 for share in executed.utilisation().values())
    assert executed.to_svg().count("<rect") == 6 + 6 * 12 + 2  # and the weight update


@pytest.mark.parametrize(
    ("kind", "mapping", "ipus"),
    [
        (PipelineSchedule.Sequential, [0, 1, 2], 4),
        (PipelineSchedule.Interleaved, [0, 1, 0, 1], 2),
    ],
)
def test_only_one_stage_works_at_a_time_where_mini_batches_do_not_overlap(
    kind, mapping, ipus
):
    """Also in inference, where nothing comes back by itself."""
    configure(ipus)  # for one copy: two would work side by side
    stages = [*STAGES[: len(mapping) - 1], lambda x: clock.wait(x * 3.0, 0.002)]
    run, _ = program_of(
        numbers(100), stages, 20, pipeline_schedule=kind, device_mapping=mapping
    )
    with timeline.record() as executed:
        run()

    ends = [each.end_ns for each in executed.slices]
    starts = [each.start_ns for each in executed.slices]
    assert all(end <= start for end, start in zip(ends, starts[1:], strict=False))


@pytest.mark.parametrize(
    ("kind", "mapping"),
    [
        *((kind, [0, 1]) for kind in PipelineSchedule),
        (PipelineSchedule.Grouped, [0, 0]),
        (PipelineSchedule.Sequential, [0, 0]),
    ],
)
def test_a_stage_comes_after_the_one_before_it_though_it_needs_nothing_of_it(
    kind, mapping
):
    """The gradient of a linear stage could be computed before the loss is."""
    configure(max(mapping) + 1)
    with IPUStrategy().scope():
        first, second = tf.Variable(1.0), tf.Variable(1.0)

    def linear(x):
        # What its backward stage waits for is for its own weight alone.
        return x * 2.0 + clock.wait(tf.stop_gradient(x) * second, 0.004)

    run, _ = program_of(
        numbers(8).repeat(),
        [lambda x: x * first, linear],
        8,
        device_mapping=mapping,
        pipeline_schedule=kind,
        optimizer_function=lambda loss: OptimizerFunctionOutput(
            v1.train.GradientDescentOptimizer(0.01), loss
        ),
    )
    with timeline.record() as executed:
        run()

    found = {(each.label, each.mini_batch): each for each in executed.slices}
    assert len(found) == 4 * 8
    for mini_batch in range(8):
        way = [found[stage, mini_batch] for stage in ("F0", "F1", "B1", "B0")]
        for one, after in itertools.pairwise(way):
            assert one.end_ns <= after.start_ns, (one, after)
        if kind is PipelineSchedule.Sequential and mini_batch > 0:
            assert found["B0", mini_batch - 1].end_ns <= way[0].start_ns


def test_assignments_and_reads_of_a_stage_keep_their_order():
    """They have no tensor in common, only the order in which the stage makes them."""
    strategy = IPUStrategy()
    with strategy.scope():
        variable = tf.Variable(1.0)

    def first(x):
        variable.assign_add(1.0)
        added = variable.read_value()
        variable.assign(variable * 3.0)
        multiplied = variable.read_value()
        variable.assign(variable - 2.0)
        return x, added, multiplied

    def through(*values):
        return values

    stages = [first, through, through, through]
    run, outfeed = program_of(numbers(100), stages, 4, strategy)
    run()

    _, added, multiplied = (tensor.numpy().tolist() for tensor in outfeed.dequeue())
    assert added == [2.0, 5.0, 14.0, 41.0]
    assert multiplied == [6.0, 15.0, 42.0, 123.0]
    assert variable.numpy() == 121.0
