"""Copies of a pipeline: each trains with its own mini-batches, and all stay the same."""

import re
import textwrap

import numpy as np
import pytest
import styles
import tensorflow as tf
from helpers import ROOT
from models import Pipelined, alone, assert_equal, unsplit, v1
from replicated import configure, on

from ipufeed.device.program.strategy import IPUStrategy
from ipufeed.parallel.collectives import ops as collectives
from ipufeed.parallel.optimizers.optimizers import CrossReplicaOptimizer
from ipufeed.parallel.pipeline.options import OptimizerFunctionOutput
from ipufeed.parallel.pipeline.pipeline import pipeline
from ipufeed.parallel.pipeline.schedules import PipelineSchedule
from ipufeed.parallel.timelines import timeline
from ipufeed.queues import IPUOutfeedQueue

pytestmark = [pytest.mark.usefixtures("clean_system"), pytest.mark.long]

GROUPED, INTERLEAVED, SEQUENTIAL = PipelineSchedule

OPTIMIZERS = {
    "sgd": lambda: v1.train.GradientDescentOptimizer(0.1),
    "momentum": lambda: v1.train.MomentumOptimizer(0.05, 0.9),
    "adam": lambda: v1.train.AdamOptimizer(0.02),
}


def numbers(count=1000):
    return tf.data.Dataset.range(count).map(lambda i: tf.cast(i, tf.float32))


def results_of(style, stages, count, **arguments):
    """What the outfeed of a pipeline gets, whose infeed counts; it runs once."""
    infeed, outfeed = style.feed(numbers), IPUOutfeedQueue()
    style.run(
        lambda: pipeline(
            stages, count, infeed_queue=infeed, outfeed_queue=outfeed, **arguments
        )
    )
    return style.read(alone(outfeed.dequeue()))


TWO = [lambda x: x + 1.0, lambda x: x * 2.0]


@pytest.mark.parametrize(
    ("kind", "layers", "replicas", "optimizer"),
    [
        (GROUPED, 2, 2, "adam"),
        (INTERLEAVED, 2, 2, "momentum"),
        (SEQUENTIAL, 2, 2, "sgd"),
        (GROUPED, 2, 4, "momentum"),
        (GROUPED, 3, 2, "sgd"),
    ],
)
def test_copies_of_a_pipeline_train_as_the_unsplit_model(
    kind, layers, replicas, optimizer
):
    """Losses and weights, with the mean of all copies' gradients."""
    shards = 2 if layers == 2 else 4
    configure(shards * replicas)
    count = 2 * layers
    model = Pipelined(
        lambda: CrossReplicaOptimizer(OPTIMIZERS[optimizer]()),
        layers,
        count,
        pipeline_schedule=kind,
        repeat_count=3,
    )

    expected = unsplit(OPTIMIZERS[optimizer], layers, count, 3, replicas)
    assert_equal(model.train(), expected)


def test_a_keras_optimizer_averages_as_the_page_describes():
    """With the class of docs/pipelines.md."""
    configure(4)
    text = (ROOT / "docs" / "pipelines.md").read_text()
    (source,) = re.findall(r"```python\n[^`]*?(  class Averaging[^`]*)```", text)
    names = {"tf": tf, "copies": 2}
    exec(textwrap.dedent(source), names)
    model = Pipelined(lambda: names["AveragingSGD"](0.1), 2, 4, repeat_count=3)

    expected = unsplit(lambda: tf.keras.optimizers.SGD(0.1), 2, 4, 3, replicas=2)
    assert_equal(model.train(), expected)


def test_two_runs_of_several_copies_are_equal_to_the_last_bit():
    """The copies' gradients are added in the order of their numbers."""
    configure(4)

    def train():
        model = Pipelined(
            lambda: CrossReplicaOptimizer(OPTIMIZERS["adam"]()), 2, 8, repeat_count=4
        )
        return model.train()

    one, other = train(), train()

    np.testing.assert_array_equal(one.losses, other.losses)
    for left, right in zip(one.weights, other.weights, strict=True):
        np.testing.assert_array_equal(left, right)


@pytest.mark.parametrize("style", styles.STYLES)
@pytest.mark.parametrize("kind", PipelineSchedule)
def test_elements_are_dealt_out_to_the_copies(style, kind):
    """Element k * R + r goes to copy r, whose result is at [k, r]."""
    with on(4, style) as ready:
        results = results_of(ready, TWO, 4, repeat_count=2, pipeline_schedule=kind)

    np.testing.assert_array_equal(results, (np.arange(16) + 1).reshape(8, 2) * 2)


def test_sums_of_an_execution_have_the_axis_too():
    """[repeat_count, R]."""
    with on(4) as style:
        results = results_of(style, TWO, 4, repeat_count=3, accumulate_outfeed=True)

    each = (np.arange(24) + 1).reshape(3, 4, 2) * 2
    np.testing.assert_array_equal(results, each.sum(axis=1))


@pytest.mark.parametrize("kind", PipelineSchedule)
def test_stages_reduce_with_the_same_stage_of_other_copies(kind):
    """Every stage of every mini-batch, also two collectives on one IPU."""

    def first(x):
        total = collectives.cross_replica_sum(x)
        return x, total, collectives.cross_replica_mean(total * 10.0)

    def second(x, total, mean):
        index = tf.cast(collectives.replication_index(), tf.float32)
        everyone = collectives.all_gather(x, 4)
        return tf.concat([[total, mean, index], everyone], 0)

    with on(8) as style:
        results = results_of(style, [first, second], 12, pipeline_schedule=kind)

    elements = np.arange(48.0).reshape(12, 4)
    totals = np.repeat(elements.sum(axis=1, keepdims=True), 4, axis=1)
    np.testing.assert_array_equal(results[..., 0], totals)
    np.testing.assert_array_equal(results[..., 1], totals * 10)
    np.testing.assert_array_equal(results[..., 2], np.tile(np.arange(4), (12, 1)))
    for copy in range(4):
        np.testing.assert_array_equal(results[:, copy, 3:], elements)


def test_a_collective_in_a_stage_is_differentiated():
    """The gradient of what others have used comes back from them."""

    def optimizer_function(loss):
        descent = v1.train.GradientDescentOptimizer(1.0)
        return OptimizerFunctionOutput(CrossReplicaOptimizer(descent), loss)

    with on(4) as style:
        with IPUStrategy().scope():
            weight = tf.Variable(2.0)
        stages = [
            lambda x: collectives.cross_replica_sum(x * weight),
            lambda x: x * 3.0,
        ]
        results_of(style, stages, 4, optimizer_function=optimizer_function)

    # Each copy's loss is 3 w (a + b), so that dw of their sum is 6 a on one, 6 b on the
    # other; the mean of both, for all of 0 ... 7.
    np.testing.assert_allclose(weight.numpy(), 2.0 - 3 * 28)


@pytest.mark.parametrize("style", ["graph", "function"])
def test_the_executor_runs_one_copy_of_a_pipeline(style):
    """On its IPUs; where there are more, the error says how many are enough."""
    configure(2)
    with styles.entered(style, "tensorflow") as ready:
        results = results_of(ready, TWO, 4, repeat_count=2)
        configure(4)
        with pytest.raises(
            tf.errors.UnimplementedError,
            match=r"has 4 IPUs for 2 copies. Set `auto_select_ipus` to 2",
        ):
            results_of(ready, TWO, 4)

    np.testing.assert_array_equal(results, (np.arange(8) + 1) * 2)


def test_each_copy_has_rows_of_its_own_in_the_picture():
    """Its stages are on IPUs of its own."""
    configure(4)
    model = Pipelined(
        lambda: CrossReplicaOptimizer(v1.train.GradientDescentOptimizer(0.1)), 2, 4
    )
    with timeline.record() as executed:
        model.train()

    assert {each.ipu for each in executed.slices} == {0, 1, 2, 3}
    for ipu in range(4):
        done = [each for each in executed.slices if each.ipu == ipu]
        assert sorted(each.mini_batch for each in done) == [0, 0, 1, 1, 2, 2, 3, 3]
    updates = [each.ipu for each in executed.updates]
    assert sorted(updates) == [0, 2]
    assert executed.to_svg().count("<rect") == 8 + 4 * 8 + 2 * 2
