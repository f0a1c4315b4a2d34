"""A stage that fails, gets no data or must stop: all others stop, with its error."""

import re
import threading
import time

import numpy as np
import pytest
import tensorflow as tf
from dependence import check_chained, compiled_modules
from helpers import DEADLOCK_S, sleeping
from models import Pipelined, alone, v1
from pipeline_stages import STAGES, numbers, program_of
from replicated import configure

from ipufeed.device.program import clock, compiler, loops
from ipufeed.device.program import executor as params
from ipufeed.device.program.scopes import ipu_scope
from ipufeed.device.program.strategy import IPUStrategy
from ipufeed.parallel.collectives import ops as collectives
from ipufeed.parallel.pipeline.options import OptimizerFunctionOutput
from ipufeed.parallel.pipeline.pipeline import pipeline
from ipufeed.parallel.pipeline.schedules import PipelineSchedule
from ipufeed.queues import IPUInfeedQueue, IPUOutfeedQueue, set_stall_report

pytestmark = pytest.mark.long


@pytest.fixture(autouse=True)
def four_ipus(clean_system):
    """A device of four IPUs."""
    configure(4)


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


def test_an_assertion_holds_in_a_stage():
    """Though XLA leaves TensorFlow's own out."""

    def checked(x):
        with tf.control_dependencies([tf.debugging.Assert(x < 3, ["small"])]):
            return tf.identity(x)

    run, _ = program_of(numbers(100), [STAGES[0], checked], 8)

    with pytest.raises(
        tf.errors.InternalError,
        match=r"(?s)failed: \[small\].*\(Stage F1 on IPU \d of the pipeline's device",
    ):
        run()


@pytest.mark.parametrize("has_values", [False, True], ids=["text", "values"])
def test_an_assertion_of_the_last_stage_holds_back_the_results_after_it(has_values):
    """Those of the mini-batches before are there."""

    def checked(x):
        tf.debugging.Assert(x < 12, ["small", x] if has_values else ["small"])
        return x

    run, outfeed = program_of(numbers(100), [*STAGES, checked], 16)

    with (
        compiled_modules() as modules,
        pytest.raises(tf.errors.InternalError, match=r"failed: \[small\]"),
    ):
        run()
    results = outfeed.dequeue().numpy()
    np.testing.assert_array_equal(results, [1.0, 3.0, 5.0, 7.0, 9.0, 11.0])
    # That none came after it may be luck. That the enqueue needs the assertion is none.
    assert max(check_chained(each) for each in modules) == 2


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
        slow = tf.data.Dataset.range(6).concatenate(sleeping(60.0))
        infeed = IPUInfeedQueue(slow.map(lambda i: tf.cast(i, tf.float32)))
        outfeed = IPUOutfeedQueue()
        with ipu_scope("/device:IPU:0"):
            program = compiler.compile(
                lambda: pipeline(STAGES, 6, infeed_queue=infeed, outfeed_queue=outfeed)
            )
        session = v1.Session()
        session.run(infeed.initializer)
        session.run(program)  # compiles, however long that takes
        threading.Timer(1.0, session.close).start()
        start = time.monotonic()
        # The first stage's error has more than those that wait for it.
        text = (
            r"while dequeuing from infeed queue .* \(Stage F0 on IPU 0 of the pipeline"
        )
        with pytest.raises(tf.errors.CancelledError, match=text):
            session.run(program)

    assert time.monotonic() - start < DEADLOCK_S
