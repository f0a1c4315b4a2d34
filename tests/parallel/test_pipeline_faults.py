"""A stage that fails, gets no data or must stop: all others stop, with its error."""

import itertools
import re
import threading
import time

import numpy as np
import pytest
import tensorflow as tf
from helpers import sleeping
from models import Pipelined, alone, v1
from replicated import configure

from ipufeed.device.program import clock, compiler, loops
from ipufeed.device.program import executor as params
from ipufeed.device.program.scopes import ipu_scope
from ipufeed.device.program.strategy import IPUStrategy
from ipufeed.parallel.collectives import ops as collectives
from ipufeed.parallel.pipeline.options import OptimizerFunctionOutput
from ipufeed.parallel.pipeline.pipeline import pipeline
from ipufeed.parallel.pipeline.schedules import PipelineSchedule
from ipufeed.parallel.timelines import timeline
from ipufeed.queues import IPUInfeedQueue, IPUOutfeedQueue, set_stall_report

DEADLOCK_S = 180.0


@pytest.fixture(autouse=True)
def four_ipus(clean_system):
    """A device of four IPUs."""
    configure(4)


def program_of(dataset, stages, count, strategy=None, **arguments):
    """A pipeline in a tf.function, and what runs it."""
    infeed, outfeed = IPUInfeedQueue(dataset), IPUOutfeedQueue()
    _ = infeed.initializer

    @tf.function(jit_compile=True)
    def program():
        return pipeline(
            stages, count, infeed_queue=infeed, outfeed_queue=outfeed, **arguments
        )

    return lambda: (strategy or IPUStrategy()).run(program), outfeed


def numbers(count):
    return tf.data.Dataset.range(count).map(lambda i: tf.cast(i, tf.float32))


STAGES = [lambda x: x + 1.0, lambda x: x * 2.0, lambda x: x - 1.0]


@pytest.mark.parametrize("kind", PipelineSchedule)
def test_a_dataset_that_ends_too_early_stops_all_stages(kind):
    """The error is the infeed's, and names the IPU that wanted an element."""
    run, _ = program_of(numbers(10), STAGES, 6, repeat_count=2, pipeline_schedule=kind)

    with pytest.raises(
        tf.errors.OutOfRangeError,
        match=r"more elements .*\(Stage F0 on IPU 0 of the pipeline's device\.\)",
    ):
        run()


def test_the_copy_that_gets_no_data_is_named():
    """A dataset that ends in the middle of a round ends all copies."""
    configure(4)
    run, _ = program_of(numbers(9), STAGES[:2], 4, repeat_count=3)

    with pytest.raises(
        tf.errors.OutOfRangeError,
        match=r"\(Stage F0 on IPU [02] of the pipeline's device\.\) "
        r"\(Replica [01] of 2\.\)",
    ):
        run()


@pytest.mark.parametrize("ipus", [2, 4])
def test_the_stage_that_fails_is_named(ipus):
    """Though the first stage waits for the last, and the last one for nothing."""
    configure(ipus)

    def bad(x):
        return collectives.cross_replica_sum(x, replica_group_size=3)

    run, _ = program_of(numbers(100), [STAGES[0], bad], 4)

    with pytest.raises(
        tf.errors.InvalidArgumentError,
        match=r"`replica_group_size` of a sum \(cross_replica_sum\) must divide .*"
        r"\(Stage F1 on IPU [13] of the pipeline's device",
    ):
        run()


@pytest.mark.parametrize("ipus", [4, 8])
def test_a_stage_that_stalls_is_named(ipus, capfd):
    """By those that wait for it, before and behind; each in the copy that it is in."""
    configure(ipus)
    stalls = [STAGES[0], lambda x: clock.wait(x, 1.5), STAGES[2]]
    run, _ = program_of(
        numbers(100), stalls, 3, pipeline_schedule=PipelineSchedule.Sequential
    )
    set_stall_report(0.3)
    try:
        run()
    finally:
        set_stall_report(30)

    output = capfd.readouterr().err
    for first, copy in (
        [(0, "")] if ipus == 4 else [(0, " (replica 0 of 2)"), (4, " (replica 1 of 2)")]
    ):
        for waiting, queue, awaited, more in (
            ("F2", "F1 to F2", "F1", ""),
            ("F2", "F1 to F2", "F1", " more"),
            ("F0", "F2 to F0", "F2", ""),
            ("F0", "F2 to F0", "F2", " more"),
        ):
            on, to = (first + int(stage[1]) for stage in (waiting, awaited))
            assert re.search(
                rf"Stage {waiting} on IPU {on} of /device:IPU:0{re.escape(copy)} has "
                rf"waited for [\d.]+ s: pipeline queue '{queue}' is empty and stage "
                rf"{awaited} on IPU {to} has sent nothing{more}\. It goes on waiting\.",
                output,
            ), output


def test_an_execution_that_fails_updates_no_weights():
    """Though most of its mini-batches have gone through all stages."""
    configure(2)
    model = Pipelined(lambda: v1.train.GradientDescentOptimizer(0.1), 2, 1200)
    before = [each.numpy() for each in model.variables]

    with pytest.raises(tf.errors.OutOfRangeError):  # after 1000 elements
        model.train()

    for variable, value in zip(model.variables, before, strict=True):
        np.testing.assert_array_equal(variable.numpy(), value)


@pytest.mark.parametrize(("executor", "kept"), [("xla", 0), ("tensorflow", 2)])
def test_what_an_error_leaves_of_several_executions_is_the_executors(executor, kept):
    """Compiled, none of the program's updates; in TensorFlow's executor those before."""
    with params.executor_scope(executor):
        configure(2)
        with IPUStrategy().scope():
            weight = tf.Variable(1.0)

        def optimizer(loss):
            return OptimizerFunctionOutput(v1.train.GradientDescentOptimizer(1.0), loss)

        run, outfeed = program_of(
            numbers(10),  # of the 12 that three executions take
            [lambda x: x, lambda x: x * 0.0 + weight],
            4,
            repeat_count=3,
            optimizer_function=optimizer,
        )
        with pytest.raises(tf.errors.OutOfRangeError):
            run()

        assert weight.numpy() == 1.0 - 4 * kept
        assert len(alone(outfeed.dequeue())) >= 8


def test_an_error_of_the_dataset_arrives_with_its_text():
    """As it does without a pipeline."""

    def fail(x):
        if x == 7:
            raise ValueError("seven is broken")
        return x

    dataset = tf.data.Dataset.range(100).map(
        lambda x: tf.ensure_shape(
            tf.cast(tf.py_function(fail, [x], tf.int64), tf.float32), []
        )
    )
    run, _ = program_of(dataset, STAGES, 12)

    with pytest.raises(tf.errors.OpError, match="seven is broken"):
        run()


@pytest.mark.parametrize("ipus", [1, 2])
def test_a_loop_that_fails_in_a_function_updates_no_variable(ipus):
    """Of any shape and dtype: what variables lend to a program they get back."""
    configure(ipus)
    made = [tf.zeros([4]), tf.zeros([200, 200]), tf.constant(0), tf.constant(0.0)]
    with IPUStrategy().scope():
        variables = [tf.Variable(each) for each in made]

    def run(elements):
        infeed = IPUInfeedQueue(numbers(elements * ipus))
        _ = infeed.initializer

        def body(x):
            for each in variables:
                each.assign_add(tf.ones_like(each) + tf.cast(0.0 * x, each.dtype))

        @tf.function(jit_compile=True)
        def program():
            return loops.repeat(10, body, [], infeed)

        IPUStrategy().run(program)

    with pytest.raises(tf.errors.OutOfRangeError):
        run(7)
    for each in variables:
        assert (each.numpy() == 0).all()
    run(10)
    with pytest.raises(tf.errors.OutOfRangeError):
        run(7)
    for each in variables:
        assert (each.numpy() == 10).all()


def test_a_pipeline_that_fails_in_a_function_updates_no_variable():
    """Neither weights nor the optimizer's count, though two executions were done."""
    configure(2)
    strategy = IPUStrategy()
    with strategy.scope():
        weight, vector = tf.Variable(2.0), tf.Variable(tf.ones([3]))
        optimizer = tf.keras.optimizers.Adam(0.1)

    def optimizer_function(loss):
        return OptimizerFunctionOutput(optimizer, loss, variables=[weight, vector])

    stages = [
        lambda x: x * weight,
        lambda y: tf.reduce_sum(y * vector),
    ]
    run, _ = program_of(
        numbers(10),
        stages,
        4,
        strategy,
        repeat_count=3,
        optimizer_function=optimizer_function,
    )
    with pytest.raises(tf.errors.OutOfRangeError):
        run()

    assert weight.numpy() == 2.0
    assert (vector.numpy() == 1.0).all()
    assert optimizer.iterations.numpy() == 0


def test_the_next_program_runs_after_one_that_failed():
    """Nothing of the pipeline that failed is left on the IPUs."""
    run, _ = program_of(numbers(4), STAGES, 6)
    with pytest.raises(tf.errors.OutOfRangeError):
        run()

    again, outfeed = program_of(numbers(12), STAGES, 6)
    again()

    np.testing.assert_array_equal(outfeed.dequeue(), (np.arange(6) + 1) * 2 - 1)


def test_closing_the_session_ends_a_pipeline_that_waits_for_data():
    """From another thread, while every stage waits."""
    with tf.Graph().as_default():
        slow = sleeping(60.0).map(lambda i: tf.cast(i, tf.float32))
        infeed, outfeed = IPUInfeedQueue(slow), IPUOutfeedQueue()
        with ipu_scope("/device:IPU:0"):
            program = compiler.compile(
                lambda: pipeline(STAGES, 6, infeed_queue=infeed, outfeed_queue=outfeed)
            )
        session = v1.Session()
        session.run(infeed.initializer)
        threading.Timer(1.0, session.close).start()
        start = time.monotonic()
        # The first stage's error has more than those that wait for it.
        text = (
            r"while dequeuing from infeed queue .* \(Stage F0 on IPU 0 of the pipeline"
        )
        with pytest.raises(tf.errors.CancelledError, match=text):
            session.run(program)

    assert time.monotonic() - start < DEADLOCK_S


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
