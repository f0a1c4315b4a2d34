"""A gradient_accumulation_count that only the running program knows."""

import numpy as np
import pytest
import tensorflow as tf
from models import Pipelined, assert_equal, unsplit, v1
from replicated import configure, on

from ipufeed.device.config.config import IPUConfig
from ipufeed.device.program import executor
from ipufeed.executable import stats
from ipufeed.parallel.optimizers.optimizers import CrossReplicaOptimizer
from ipufeed.parallel.pipeline.pipeline import pipeline
from ipufeed.parallel.pipeline.schedules import PipelineSchedule, Schedule, refusal
from ipufeed.parallel.timelines import timeline
from ipufeed.queues import IPUOutfeedQueue
from ipufeed.queues.outfeed import IPUOutfeedMode

pytestmark = [pytest.mark.usefixtures("clean_system"), pytest.mark.long]

GROUPED, INTERLEAVED, SEQUENTIAL = PipelineSchedule


def momentum():
    return v1.train.MomentumOptimizer(0.05, 0.9)


def assert_same(one, other):
    """To the last bit."""
    np.testing.assert_array_equal(one.losses, other.losses)
    for left, right in zip(one.weights, other.weights, strict=True):
        np.testing.assert_array_equal(left, right)


@pytest.mark.parametrize(
    ("kind", "reduction"),
    [
        (GROUPED, "SUM"),
        pytest.param(GROUPED, "MEAN", marks=pytest.mark.soak),
        (INTERLEAVED, "RUNNING_MEAN"),
        pytest.param(INTERLEAVED, "MEAN", marks=pytest.mark.soak),
        (SEQUENTIAL, "MEAN"),
        pytest.param(SEQUENTIAL, "SUM", marks=pytest.mark.soak),
    ],
)
def test_a_tensor_trains_as_the_number_does(kind, reduction):
    """To the last bit, with each schedule and each reduction."""
    configure(2)
    arguments = {
        "pipeline_schedule": kind,
        "reduction_method": reduction,
        "repeat_count": 3,
    }
    number = Pipelined(momentum, 2, 8, **arguments)
    tensor = Pipelined(momentum, 2, 0, **arguments)

    assert_same(tensor.train(8), number.train())


def test_counts_of_one_program_share_what_is_compiled():
    """The value is an input: it is in no key, and each run has its own."""
    configure(2)
    model = Pipelined(momentum, 2, 0)
    model.train(4)
    before = stats().compiles
    losses = [model.train(count).losses for count in (12, 8)]

    assert stats().compiles == before
    assert [len(each) for each in losses] == [12, 8]


def test_a_timeline_knows_how_many_mini_batches_there_were():
    """The program does not; what is ideal depends on it."""
    configure(2)
    model = Pipelined(momentum, 2, 0)
    for count in (4, 12):
        with timeline.record() as executed:
            model.train(count)

        (execution,) = executed.executions
        assert f" {count} mini-batches" in execution.schedule
        ideal = [share.ideal for share in executed.utilisation().values()]
        assert ideal == pytest.approx([count / (count + 1)] * 2)


def test_copies_of_a_pipeline_take_a_tensor():
    """Each copy runs all of the tensor's mini-batches."""
    configure(4)
    model = Pipelined(lambda: CrossReplicaOptimizer(momentum()), 2, 0, repeat_count=2)

    assert_equal(model.train(8), unsplit(momentum, 2, 8, 2, replicas=2))


def test_stages_that_are_recomputed_take_a_tensor():
    """Nothing of it depends on how many mini-batches there are."""
    results = []
    for recompute in (False, True):
        config = IPUConfig()
        config.auto_select_ipus = 2
        config.allow_recompute = recompute
        config.configure_ipu_system()
        results.append(Pipelined(momentum, 2, 0).train(12))

    assert_equal(*results)


@pytest.mark.parametrize("style", ["graph", "graph, while v2", "function"])
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_inference_takes_a_tensor_in_each_style(style, dtype):
    """An argument of the program, or a placeholder."""
    with on(2, style) as ready:
        infeed = ready.feed(lambda: tf.data.Dataset.range(100).map(as_float))
        outfeed = IPUOutfeedQueue()
        run = ready.build(
            lambda count: pipeline(
                [lambda x: x + 1.0, lambda x: x * 2.0],
                count,
                repeat_count=2,
                infeed_queue=infeed,
                outfeed_queue=outfeed,
            ),
            dtype(2),
        )
        run(dtype(4))
        run(dtype(2))
        results = ready.read(outfeed.dequeue())

    np.testing.assert_array_equal(results, (np.arange(12) + 1) * 2)


def as_float(number):
    return tf.cast(number, tf.float32)


LEAVING = {
    "each": ({}, lambda losses: losses),
    "the last": ({"mode": IPUOutfeedMode.LAST}, lambda losses: losses[-1]),
    "the loss": ({"outfeed_loss": True}, lambda losses: losses),
    "sums": (
        {"accumulate_outfeed": True},
        lambda losses: losses.reshape(2, 8).sum(axis=1),
    ),
}


@pytest.mark.parametrize("case", LEAVING)
def test_what_leaves_is_the_same_with_a_tensor(case):
    """Each mini-batch's loss, the last one, or their sums."""
    configure(2)
    given, picked = LEAVING[case]
    arguments = dict(given)
    mode = arguments.pop("mode", IPUOutfeedMode.ALL)
    model = Pipelined(momentum, 2, 0, repeat_count=2, **arguments)
    model.outfeed = IPUOutfeedQueue(outfeed_mode=mode)
    expected = picked(unsplit(momentum, 2, 8, 2).losses)

    np.testing.assert_allclose(model.train(8).losses, np.reshape(expected, -1), 1e-4)


def test_batch_serialization_takes_a_tensor():
    """Each stage runs that many times more."""
    configure(1)
    arguments = {"batch_serialization_iterations": 2}
    number = Pipelined(momentum, 2, 3, **arguments)
    tensor = Pipelined(momentum, 2, 0, **arguments)

    assert_same(tensor.train(3), number.train())


@pytest.mark.parametrize(
    ("kind", "ipus"),
    [
        *((kind, 2) for kind in PipelineSchedule),
        (GROUPED, 4),
        *(
            pytest.param(kind, 4, marks=pytest.mark.soak)
            for kind in (INTERLEAVED, SEQUENTIAL)
        ),
    ],
)
def test_a_value_that_does_not_fit_is_an_error_of_the_run(kind, ipus):
    """With the rule and the value, before an element is taken; the next run is whole."""
    configure(ipus)
    model = Pipelined(
        lambda: CrossReplicaOptimizer(momentum()), 2, 0, pipeline_schedule=kind
    )
    schedule = Schedule(kind, ((0,), (1,)), training=True)
    bad = [each for each in (-4, 0, 1, 2, 6, 7) if refusal(schedule, each)]
    before = [each.numpy() for each in model.variables]

    for count in bad:
        with pytest.raises(tf.errors.FailedPreconditionError) as raised:
            model.train(count)
        text = f"Pipeline depth is invalid. {refusal(schedule, count)}"
        assert text in raised.value.message
        for variable, value in zip(model.variables, before, strict=True):
            np.testing.assert_array_equal(variable.numpy(), value)

    assert_equal(model.train(8), unsplit(momentum, 2, 8, 1, replicas=ipus // 2))


def test_a_value_that_the_ipus_cannot_count_is_refused():
    """They count in 32 bits."""
    configure(2)
    model = Pipelined(momentum, 2, 0)
    wanted = r"must be at most 2147483643, but it is 1099511627776"

    with pytest.raises(tf.errors.FailedPreconditionError, match=wanted):
        model.strategy.run(model.program, [tf.constant(2**40, tf.int64)])


def test_tensorflows_executor_takes_a_tensor():
    """What is around the IPUs' programs is run op by op there."""
    configure(2)
    with executor.executor_scope("tensorflow"):
        model = Pipelined(momentum, 2, 0)
        with pytest.raises(
            tf.errors.FailedPreconditionError, match="a multiple of 4, but it is 6"
        ):
            model.train(6)

        assert_equal(model.train(8), unsplit(momentum, 2, 8, 1))
