"""Dropout: the kept fraction, the same mask in both passes, and the seed's rules."""

import numpy as np
import pytest
import styles
import tensorflow as tf

from ipufeed import no_effect
from ipufeed.device.config.config import IPUConfig
from ipufeed.device.program.scopes import ipu_scope
from ipufeed.device.program.strategy import IPUStrategy
from ipufeed.device.system import seeds
from ipufeed.ops.rand_ops import dropout
from ipufeed.parallel.pipeline.options import OptimizerFunctionOutput
from ipufeed.parallel.pipeline.pipeline import pipeline
from ipufeed.parallel.pipeline.schedules import PipelineSchedule
from ipufeed.queues import IPUInfeedQueue, IPUOutfeedQueue

pytestmark = pytest.mark.usefixtures("clean_system")
v1 = tf.compat.v1


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.75])
@pytest.mark.parametrize("dtype", [tf.float16, tf.float32])
def test_the_fraction_that_is_kept_is_one_minus_the_rate(rate, dtype):
    """Within four deviations; what is kept is scaled, and the gradient has the mask."""
    x = tf.ones([64, 64, 4], dtype)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = dropout(x, rate)
    gradient = tape.gradient(y, x).numpy()
    keep = 1 - rate

    share = np.mean(y.numpy() != 0)
    assert abs(share - keep) < 4 * np.sqrt(keep * rate / x.shape.num_elements())
    np.testing.assert_allclose(y.numpy()[y.numpy() != 0], 1 / keep, rtol=1e-3)
    np.testing.assert_array_equal(gradient, y.numpy())


def test_a_noise_shape_drops_whole_axes():
    """Along an axis of size 1; [] and None are none; rate 0 changes nothing."""
    x = tf.ones([64, 64, 4])
    whole = dropout(x, noise_shape=[64, 64, 1]).numpy()

    assert {*np.unique(whole.sum(-1))} == {0.0, 8.0}
    for shape in ([], None, tf.constant([64, 64, 4])):
        assert dropout(x, noise_shape=shape, seed=[1, 2]).numpy().sum(-1).max() == 8
    np.testing.assert_array_equal(dropout(x, 0), x)
    np.testing.assert_array_equal(
        np.unique(dropout(tf.ones([99], tf.int32), 0.5, ref=True)), [0, 2]
    )


@pytest.mark.parametrize("how", ["graph", "tape"])
def test_rows_that_are_taken_of_a_dropped_table_have_a_gradient(how):
    """A gather's gradient is slices; that of the table is a tensor with the mask."""

    @tf.function(jit_compile=True)
    def program(table):
        with tf.GradientTape() as tape:
            tape.watch(table)
            dropped = dropout(table, seed=[5, 6])
            rows = tf.gather(dropped, [2, 0, 2])
        if how == "tape":
            return dropped, tape.gradient(rows, table)
        return dropped, tf.gradients(rows, [table])[0]

    dropped, gradient = program(tf.ones([4, 100]))
    assert 100 < np.count_nonzero(dropped) < 300
    times = np.array([[1.0], [0.0], [2.0], [0.0]])
    np.testing.assert_array_equal(gradient, times * dropped)


def test_a_seed_of_its_own_is_the_same_mask_everywhere():
    """On the host, on an IPU, compiled, in each iteration."""
    x = tf.ones([100])
    expected = dropout(x, seed=[5, 6]).numpy()
    with ipu_scope("/device:IPU:0"):
        np.testing.assert_array_equal(dropout(x, seed=tf.constant([5, 6])), expected)
    with styles.entered("graph", "xla") as style:
        outfeed = IPUOutfeedQueue()
        style.run(
            lambda: style.repeat(
                2, lambda: outfeed.enqueue(dropout(tf.ones([100]), seed=[5, 6])), []
            )
        )
        found = style.read(outfeed.dequeue())
    np.testing.assert_array_equal(found, [expected] * 2)
    assert 20 < np.count_nonzero(expected) < 80


def test_tensorflows_seed_counts_on_the_host():
    """Where there is not an IPU's seed to reset."""

    def two():
        tf.random.set_seed(4)
        return [dropout(tf.ones([50])).numpy() for _ in range(2)]

    first, again = two(), two()
    np.testing.assert_array_equal(first, again)
    assert (first[0] != first[1]).any()


def replicas(identical):
    """Masks of a loop of 2 iterations with 2 calls, of each replica, in two runs."""
    with styles.entered("function", "xla") as style:
        outfeed = IPUOutfeedQueue()
        go = style.build(
            lambda: style.repeat(
                2,
                lambda: outfeed.enqueue([dropout(tf.ones([64])) for _ in range(2)]),
                [],
            )
        )
        found = []
        for _ in range(2):
            seeds.reset_ipu_seed(9, experimental_identical_replicas=identical)
            go()
            go()
            one, two = (np.reshape(each, [4, 2, 64]) for each in outfeed.dequeue())
            found.append(np.stack([one, two]))
    np.testing.assert_array_equal(*found)
    return found[0]


def test_masks_follow_the_devices_seed():
    """Equal after a reset; other runs, iterations, calls and replicas differ."""
    config = IPUConfig()
    config.auto_select_ipus = 2
    config.configure_ipu_system()
    apart, equal = replicas(False), replicas(True)

    assert len({each.tobytes() for each in apart.reshape([-1, 64])}) == 16
    np.testing.assert_array_equal(equal[:, :, 0], equal[:, :, 1])


def train(schedule, recompute):
    """What the first stage gives, and the sum of the gradients: the masks."""
    config = IPUConfig()
    config.auto_select_ipus = 2
    config.allow_recompute = recompute
    config.configure_ipu_system()
    strategy = IPUStrategy()
    infeed = IPUInfeedQueue(tf.data.Dataset.from_tensors(np.ones(32, "f")).repeat())
    outfeed = IPUOutfeedQueue()
    _ = infeed.initializer
    with strategy.scope():
        weights = tf.Variable(tf.ones([32]))

    def last(x):
        return tf.reduce_sum(x), x

    @tf.function(jit_compile=True)
    def program():
        return pipeline(
            [lambda x: dropout(x * weights, 0.75), last],
            gradient_accumulation_count=4,
            repeat_count=2,
            infeed_queue=infeed,
            outfeed_queue=outfeed,
            optimizer_function=lambda loss, *_: OptimizerFunctionOutput(
                v1.train.GradientDescentOptimizer(1.0), loss
            ),
            pipeline_schedule=schedule,
        )

    seeds.reset_ipu_seed(8)
    with strategy.scope():
        strategy.run(program)
    return outfeed.dequeue()[1].numpy() != 0, weights.numpy()


def test_the_mask_is_the_same_in_all_schedules_recomputed_and_backward():
    """Each kept element has the gradient 1 / 0.25 in its mini-batch."""
    expected, _ = train(PipelineSchedule.Grouped, False)
    assert len({each.tobytes() for each in expected}) == 8
    for schedule in PipelineSchedule:
        masks, weights = train(schedule, True)
        np.testing.assert_array_equal(masks, expected)
        np.testing.assert_allclose(weights, 1 - 4.0 * masks.sum(axis=0))


def test_an_argument_that_dropout_does_not_have_is_named(caplog):
    no_effect.forget()
    dropout(tf.ones([4]), raet=0.1)

    assert "`dropout(raet=)` has no effect" in caplog.text


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"x": ["a"]}, "`x` must be of numbers or bools, got a tensor of string"),
        ({"seed": {"a": 1}}, "`seed` must be a tensor, or a value that converts"),
        ({"seed": [10**30, 1]}, "`seed` must be a tensor, or a value that converts"),
        ({"noise_shape": "a"}, "`noise_shape` must be a list of sizes, .* got str 'a'"),
        ({"noise_shape": 2.5}, r"`noise_shape` must be .*, got float 2\.5"),
        ({"noise_shape": [-1, 3]}, r"`noise_shape` must be .*, got list \[-1, 3\]"),
    ],
)
def test_arguments_of_dropout_are_named(arguments, words):
    """TensorFlow's conversions had errors without a name."""
    with pytest.raises((TypeError, ValueError), match=words):
        dropout(**{"x": np.ones([2, 3], np.float32), **arguments})
