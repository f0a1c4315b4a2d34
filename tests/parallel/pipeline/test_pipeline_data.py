"""What goes through a pipeline, and what comes out of it."""

import numpy as np
import pytest
import tensorflow as tf
from models import alone, v1
from replicated import configure

from ipufeed.device.config.config import IPUConfig
from ipufeed.device.program import compiler, steps
from ipufeed.device.program import executor as params
from ipufeed.device.program.scopes import ipu_scope
from ipufeed.device.program.strategy import IPUStrategy
from ipufeed.parallel.pipeline.options import OptimizerFunctionOutput
from ipufeed.parallel.pipeline.pipeline import pipeline
from ipufeed.parallel.pipeline.schedules import PipelineSchedule
from ipufeed.queues import IPUInfeedQueue, IPUOutfeedQueue

pytestmark = pytest.mark.long

GROUPED, INTERLEAVED, SEQUENTIAL = PipelineSchedule


@pytest.fixture(autouse=True)
def two_ipus(clean_system):
    """A device for one copy of what has two stages."""
    configure(2)


def counting(width=2):
    """0, 1, 2, ..., as float32 [width]."""
    return tf.data.Dataset.range(1000).map(
        lambda i: tf.fill([width], tf.cast(i, tf.float32))
    )


def run(stages, count, *inputs, dataset=None, **arguments):
    """Runs a pipeline once; gives what its outfeed has got."""
    outfeed = IPUOutfeedQueue()
    infeed = IPUInfeedQueue(counting() if dataset is None else dataset)
    _ = infeed.initializer

    @tf.function(jit_compile=True)
    def program(*values):
        return pipeline(
            stages,
            count,
            inputs=list(values),
            infeed_queue=infeed,
            outfeed_queue=outfeed,
            **arguments,
        )

    IPUStrategy().run(program, [tf.constant(each) for each in inputs])
    results = alone(outfeed.dequeue())
    return tf.nest.map_structure(lambda each: each.numpy(), results)


@pytest.mark.parametrize("kind", PipelineSchedule)
def test_inference_gives_each_mini_batch_in_order(kind):
    """Inputs are the same for all; the second execution goes on where the first ends."""
    configure(4)
    results = run(
        [
            lambda scale, x: (scale, x + 1.0),
            lambda scale, x: (scale, x * 2.0),
            lambda scale, x: x * scale,
        ],
        6,
        10.0,
        repeat_count=2,
        pipeline_schedule=kind,
    )

    assert results.shape == (12, 2)
    np.testing.assert_array_equal(results[:, 0], (np.arange(12) + 1) * 20)


def test_stages_share_ipus_as_they_are_mapped():
    """Four stages on two IPUs, there and back."""
    results = run(
        [lambda x: x + 1.0, lambda x: x * 2.0, lambda x: x + 3.0, lambda x: x * 5.0],
        8,
        device_mapping=[0, 1, 1, 0],
    )

    np.testing.assert_array_equal(results[:, 0], ((np.arange(8) + 1) * 2 + 3) * 5)


def test_concurrent_stages_get_the_same_and_give_all():
    """Their results are the next stage's arguments, one branch's after the other's."""
    configure(4)
    results = run(
        [
            lambda x: x + 1.0,
            [lambda x: x * 2.0, lambda x: (x * 3.0, x)],
            lambda double, triple, x: {"all": double + triple, "x": x},
        ],
        6,
        device_mapping=[0, [1, 2], 2],
    )

    np.testing.assert_array_equal(results["all"][:, 0], (np.arange(6) + 1) * 5)
    np.testing.assert_array_equal(results["x"][:, 1], np.arange(6) + 1)


def test_the_first_stage_may_be_concurrent():
    """Both branches get the infeed's element."""
    configure(4)
    results = run(
        [[lambda x: x + 1.0, lambda x: x * 2.0], lambda one, two: one + two],
        4,
        device_mapping=[[0, 1], 2],
    )

    np.testing.assert_array_equal(results[:, 0], np.arange(4) * 3 + 1)


@pytest.mark.parametrize("dtype", [tf.float16, np.float16, lambda output: tf.float16])
def test_sums_leave_once_in_an_execution(dtype):
    """In the requested dtype."""
    results = run(
        [lambda x: x + 0.5, lambda x: x * 2.0],
        4,
        repeat_count=3,
        accumulate_outfeed=True,
        accumulate_outfeed_dtype=dtype,
    )

    assert results.dtype == np.float16
    assert results.shape == (3, 2)
    sums = (np.arange(12) * 2 + 1).reshape(3, 4).sum(axis=1)
    np.testing.assert_array_equal(results[:, 0], sums)


def test_truth_values_are_summed_as_numbers_or_refused():
    """A sum of bool does not exist; the error says what to give."""
    stages = [lambda x: x + 1.0, lambda x: tf.reduce_all(x > 2.0)]
    options = {"repeat_count": 1, "accumulate_outfeed": True}

    counts = run(stages, 4, accumulate_outfeed_dtype=tf.int32, **options)
    with pytest.raises(TypeError, match="type bool, which has no sum"):
        run(stages, 4, **options)

    np.testing.assert_array_equal(counts, [2])


def test_batch_serialization_runs_a_stage_several_times_for_a_mini_batch():
    """All on one IPU, one after the other."""
    configure(1)
    results = run(
        [lambda x: x + 1.0, lambda x: x * 2.0], 3, batch_serialization_iterations=2
    )

    np.testing.assert_array_equal(results[:, 0], (np.arange(6) + 1) * 2)


def test_each_stage_has_steps_of_its_own():
    """One begins when the IPU's own last one has ended, whatever the others do."""

    def first(x):
        return x, steps.step(0.004)

    def second(x, times):
        return {"first": times, "second": steps.step(0.004), "x": x}

    results = run([first, second], 8)

    for stage in ("first", "second"):
        times = steps.to_times(results[stage])
        # Later where a send waited for room; with one clock for both never equal.
        assert (times.free[1:] >= times.end[:-1]).all()
        assert (times.free[1:] == times.end[:-1]).any()


# ---- Training


def train(stages, count, loss, variable, **arguments):
    """Runs a training pipeline once with SGD of rate 1; gives outfeed and variable."""

    def optimizer_function(*outputs):
        return OptimizerFunctionOutput(
            v1.train.GradientDescentOptimizer(1.0), loss(*outputs)
        )

    results = run(stages, count, optimizer_function=optimizer_function, **arguments)
    return results, variable.numpy()


@pytest.fixture
def weight():
    """A variable of value 2."""
    with IPUStrategy().scope():
        return tf.Variable(2.0)


# The gradient of x is its value: 0 + 1 + 2 + 3 = 6.
@pytest.mark.parametrize(
    ("method", "expected"), [("sum", -4.0), ("mean", 0.5), ("running_mean", 0.5)]
)
@pytest.mark.parametrize("kind", [GROUPED, SEQUENTIAL])
def test_gradients_are_reduced_as_asked(weight, method, expected, kind):
    """SUM adds them, MEAN and RUNNING_MEAN divide by their number."""
    _, after = train(
        [lambda x: x[0] * weight, lambda x: x],
        4,
        lambda x: x,
        weight,
        reduction_method=method,
        pipeline_schedule=kind,
    )

    np.testing.assert_allclose(after, expected, rtol=1e-6)


def test_gradients_of_shared_weights_are_added(weight):
    """A variable that two stages on two IPUs use gets both of its gradients."""
    _, after = train(
        [lambda x: x[0] + weight, lambda x: x * weight], 4, lambda x: x, weight
    )

    # d/dw (x + w) w = x + 2 w = x + 4, for x = 0, 1, 2, 3
    np.testing.assert_allclose(after, 2.0 - (6 + 16))


@pytest.mark.parametrize(
    "dtype",
    [lambda variable: tf.float16, np.float16, tf.float16, "float16"],
    ids=["by variable", "of NumPy", "of TensorFlow", "by name"],
)
def test_sums_of_gradients_have_the_requested_dtype(weight, dtype):
    """One for all, or that of a function of the variable; the optimizer sees it."""
    seen = []

    class Casting(v1.train.GradientDescentOptimizer):
        def apply_gradients(self, pairs, *args, **kwargs):
            pairs = list(pairs)
            seen.extend(gradient.dtype for gradient, _ in pairs)
            pairs = [(tf.cast(g, v.dtype), v) for g, v in pairs]
            return super().apply_gradients(pairs, *args, **kwargs)

    run(
        [lambda x: x[0] * weight, lambda x: x],
        4,
        optimizer_function=lambda x: OptimizerFunctionOutput(Casting(1.0), x),
        gradient_accumulation_dtype=dtype,
    )

    assert seen == [tf.float16]
    np.testing.assert_allclose(weight.numpy(), -4.0)


def test_recomputation_changes_nothing_but_what_is_kept(weight):
    """With allow_recompute a backward stage computes again what it needs."""
    stages = [lambda x: tf.sin(x[0] * weight), lambda x: tf.exp(x)]
    start = weight.numpy()
    _, kept = train(stages, 4, lambda x: x, weight)
    weight.assign(start)
    config = IPUConfig()
    config.auto_select_ipus = 2
    config.allow_recompute = True
    config.configure_ipu_system()
    _, again = train(stages, 4, lambda x: x, weight)

    np.testing.assert_array_equal(kept, again)


def test_a_loop_in_a_stage_is_differentiated(weight):
    """What TensorFlow keeps of its iterations cannot wait; the loop runs again."""

    def first(x):
        _, value = tf.while_loop(
            lambda i, _: i < 3,
            lambda i, value: (i + 1, value * weight),
            [0, x[0]],
            maximum_iterations=3,
        )
        return value

    _, after = train([first, lambda x: x], 4, lambda x: x, weight)

    # d/dw x w^3 = 3 x w^2 = 12 x
    np.testing.assert_allclose(after, 2.0 - 12 * 6, rtol=1e-6)


def test_a_stage_may_assign_to_its_variables(weight):
    """As batch normalisation does: once for each mini-batch, in order."""
    with IPUStrategy().scope():
        mean = tf.Variable(0.0)

    def first(x):
        mean.assign(mean * 0.5 + x[0])
        return x[0] * weight + tf.stop_gradient(mean)

    results, _ = train([first, lambda x: x], 4, lambda x: x, weight)

    expected = [0.0]
    for x in range(4):
        expected.append(expected[-1] * 0.5 + x)
    np.testing.assert_allclose(mean.numpy(), expected[-1])
    np.testing.assert_allclose(results, np.arange(4) * 2 + expected[1:])


@pytest.mark.parametrize("executor", ["xla", "tensorflow"])
def test_a_version_1_program_trains_with_a_rate_that_is_fed(executor):
    """The rate is an input that all stages hand on, and variables come of get_variable.

    So do the optimizer's, which are made once, however the code around the pipeline is run.
    """
    with (
        params.executor_scope(executor),
        tf.Graph().as_default(),
        v1.Session() as session,
    ):
        infeed, outfeed = IPUInfeedQueue(counting()), IPUOutfeedQueue()

        def first(rate, x):
            weight = v1.get_variable("w", [], initializer=v1.constant_initializer(2.0))
            return rate, x[0] * weight

        def optimizer_function(rate, loss):
            return OptimizerFunctionOutput(v1.train.MomentumOptimizer(rate, 0.5), loss)

        def net(rate):
            return pipeline(
                [first, lambda rate, x: (rate, x)],
                4,
                inputs=[rate],
                infeed_queue=infeed,
                outfeed_queue=outfeed,
                optimizer_function=optimizer_function,
                outfeed_loss=True,
            )

        with tf.device("cpu"):
            rate = v1.placeholder(tf.float32, [])
        with ipu_scope("/device:IPU:0"):
            program = compiler.compile(net, [rate])
        losses = outfeed.dequeue()
        session.run(v1.global_variables_initializer())
        session.run(infeed.initializer)
        session.run(program, {rate: 0.5})
        first_weight = session.run(v1.trainable_variables()[0])
        session.run(program, {rate: 0.0})

        np.testing.assert_allclose(first_weight, 2.0 - 0.5 * 6)
        assert len(v1.global_variables()) == 2  # the weight, and its momentum
        np.testing.assert_allclose(session.run(losses), [0, 2, 4, 6, -4, -5, -6, -7])
