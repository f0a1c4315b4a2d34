"""What IPUStrategy promises: functions run on its IPU, to their end."""

import numpy as np
import pytest
import tensorflow as tf

from ipufeed.device.program.strategy import IPUStrategy, IPUStrategyV1
from ipufeed.errors import DeviceOrdinalError
from ipufeed.queues import IPUInfeedQueue, IPUOutfeedQueue, IPUOwnedIterator


def numbers():
    return tf.data.Dataset.range(1000).map(lambda n: tf.cast(n, tf.float32))


def test_variables_of_its_scope_are_on_its_ipu():
    """And so are tensors; behind it nothing is."""
    with IPUStrategy("/device:IPU:2").scope():
        variable, tensor = tf.Variable(1.0), tf.constant(1.0) + 1.0

    assert variable.device.endswith("/device:IPU:2")
    assert tensor.device.endswith("/device:IPU:2")
    assert (tf.constant(1.0) + 1.0).device.endswith("/device:CPU:0")


@pytest.mark.parametrize("jit", [True, False, None])
def test_a_function_runs_on_its_ipu(executor, strategy, jit):
    """Compiled or not, and its results come back with their structure."""

    @tf.function(jit_compile=jit)
    def function(x, *, scale):
        return {"x": x * scale, "more": [x + 1.0]}

    results = strategy.run(function, [tf.constant(2.0)], {"scale": 3.0})

    assert float(results["x"]) == 6.0
    assert float(results["more"][0]) == 3.0
    assert results["x"].device.endswith("/device:IPU:0")
    older = strategy.experimental_run_v2(function, args=[2.0], kwargs={"scale": 4.0})
    assert float(older["x"]) == 8.0


def test_a_concrete_function_runs(executor, strategy):
    """What get_concrete_function gives is a function too."""
    function = tf.function(lambda x: x * 2.0, jit_compile=True)
    concrete = function.get_concrete_function(tf.TensorSpec([], tf.float32))

    assert float(strategy.run(concrete, (tf.constant(4.0),))) == 8.0


def test_inside_a_function_a_plain_one_may_be_run(executor, strategy):
    """`run` in a tf.function is a part of it."""

    @tf.function(jit_compile=True)
    def function(x):
        return strategy.run(lambda y: y + 1.0, args=(x,))

    assert float(function(tf.constant(1.0))) == 2.0


@pytest.mark.parametrize("jit_compile", [True, None])
def test_an_object_whose_call_is_a_function_may_be_run(executor, strategy, jit_compile):
    """A tf.Module's, for example, which creates its variables in its first call."""

    class Scale(tf.Module):
        factor = None

        @tf.function(jit_compile=jit_compile)
        def __call__(self, x):
            if self.factor is None:
                self.factor = tf.Variable(2.0)
            return x * self.factor.assign_add(1.0)

    with strategy.scope():
        first, second = Scale(), Scale()
        assert float(strategy.run(first, [tf.constant(2.0)])) == 6.0
        assert float(strategy.run(first, [tf.constant(2.0)])) == 8.0
        assert float(strategy.run(second, [tf.constant(2.0)])) == 6.0


def test_a_plain_function_is_refused_in_eager_mode(strategy):
    """In the words of the original, with the remedy."""
    with pytest.raises(
        ValueError, match=r"does not support eager execution. Either conv"
    ):
        strategy.run(lambda: 1.0)


@pytest.mark.parametrize("device", ["/device:CPU:0", "IPU", None])
def test_what_is_not_an_ipu_is_refused(device):
    """When the strategy is made."""
    with pytest.raises(DeviceOrdinalError, match="must name an IPU"):
        IPUStrategy(device)


def test_a_host_is_named_by_a_text():
    """When the strategy is made."""
    with pytest.raises(TypeError, match="`cpu_device` must be a str, got int 0"):
        IPUStrategy(cpu_device=0)


def test_a_wrong_ordinal_is_refused():
    """TensorFlow would place it on the CPU without a warning."""
    with pytest.raises(ValueError, match=r"There is no /device:IPU:16"):
        IPUStrategy("/device:IPU:16")


def test_both_names_are_the_same_class():
    """And it is a strategy of one replica."""
    assert IPUStrategy is IPUStrategyV1
    assert IPUStrategy().num_replicas_in_sync == 1
    assert isinstance(IPUStrategy(), tf.distribute.Strategy)


def test_iterating_over_a_dataset_feeds_the_ipu(executor, strategy):
    """An iterator is an argument of the function; the next run goes on behind the last."""
    outfeed = IPUOutfeedQueue()

    @tf.function(jit_compile=True)
    def function(iterator, n):
        for _ in tf.range(n):
            outfeed.enqueue(next(iterator))

    iterator = iter(numbers())
    strategy.run(function, [iterator, tf.constant(3)])
    strategy.run(function, [iterator, tf.constant(2)])

    assert isinstance(iterator, IPUOwnedIterator)
    assert outfeed.dequeue().numpy().tolist() == [0, 1, 2, 3, 4]


def test_without_dataset_iterators_tensorflows_own_come():
    """`enable_dataset_iterators=False`, as outside of any scope."""
    with IPUStrategy(enable_dataset_iterators=False).scope():
        iterator = iter(numbers())

    assert float(next(iterator)) == 0.0


def test_outside_of_a_scope_iteration_is_tensorflows_own():
    """Another strategy's scope changes nothing either."""
    IPUStrategy()
    assert [float(x) for x in numbers().take(2)] == [0.0, 1.0]
    with tf.distribute.OneDeviceStrategy("/cpu:0").scope():
        assert float(next(iter(numbers()))) == 0.0


def test_queues_made_in_its_scope_are_of_its_ipu():
    """Infeeds and outfeeds, unless they name another."""
    with IPUStrategy("/device:IPU:5").scope():
        assert IPUInfeedQueue(numbers())._device_ordinal == 5
        assert IPUOutfeedQueue()._device_ordinal == 5
        assert IPUOutfeedQueue(device_ordinal=1)._device_ordinal == 1
    assert IPUOutfeedQueue()._device_ordinal == 0


def test_a_keras_model_is_trained_in_a_compiled_loop(executor, strategy):
    """Model, loss and optimizer of Keras; the loss falls and the weights are the host's."""
    x = tf.random.stateless_uniform([64, 8], [1, 2])
    y = tf.reduce_sum(x, 1, keepdims=True)
    dataset = tf.data.Dataset.from_tensor_slices((x, y)).batch(16, drop_remainder=True)
    model = tf.keras.Sequential(
        [tf.keras.layers.Dense(16, activation="relu"), tf.keras.layers.Dense(1)]
    )
    model.build([16, 8])
    optimizer = tf.keras.optimizers.Adam(0.01)
    optimizer.build(model.trainable_variables)
    outfeed = IPUOutfeedQueue()

    @tf.function(jit_compile=True)
    def train(iterator, steps):
        for _ in tf.range(steps):
            x, y = next(iterator)
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.square(model(x, training=True) - y))
            gradients = tape.gradient(loss, model.trainable_variables)
            optimizer.apply_gradients(
                zip(gradients, model.trainable_variables, strict=True)
            )
            outfeed.enqueue(loss)

    iterator = iter(dataset.repeat())
    means = []
    for _ in range(4):
        strategy.run(train, [iterator, tf.constant(40)])
        means.append(float(tf.reduce_mean(outfeed.dequeue())))

    assert means == sorted(means, reverse=True)
    assert means[-1] < means[0] / 10
    assert int(optimizer.iterations) == 160


def test_a_function_that_fails_leaves_the_device_usable(executor, strategy):
    """The error is TensorFlow's own, and the next function runs."""

    @tf.function(jit_compile=True)
    def function(iterator):
        return next(iterator)

    iterator = iter(numbers().take(1))
    assert float(strategy.run(function, [iterator])) == 0.0
    with pytest.raises(
        tf.errors.OutOfRangeError, match="Are you trying to dequeue more"
    ):
        strategy.run(function, [iterator])

    assert float(strategy.run(function, [iter(numbers())])) == 0.0


def test_results_of_a_run_are_complete_when_it_returns(executor, strategy):
    """It blocks until the device is done: nothing is missing behind it."""
    outfeed = IPUOutfeedQueue()

    @tf.function(jit_compile=True)
    def function():
        for i in tf.range(1000):
            outfeed.enqueue(i)

    for _ in range(5):
        strategy.run(function)
        assert outfeed.dequeue().numpy().tolist() == list(range(1000))


def test_in_a_graph_a_strategy_builds_a_part_of_it(executor):
    """Version 1: `run` calls the function, and a session runs what it built."""
    with tf.Graph().as_default():
        strategy = IPUStrategy()
        with strategy.scope():
            weight = tf.compat.v1.get_variable("weight", initializer=tf.constant(2.0))
            result = strategy.run(lambda: weight * 3.0)
        with tf.compat.v1.Session() as session:
            session.run(weight.initializer)
            assert session.run(result) == 6.0
        assert weight.device.endswith("/device:IPU:0")


def test_a_dataset_from_a_function_is_that_dataset():
    """It has a length; the function gets the context of the one pipeline."""
    contexts = []

    def make(context):
        contexts.append((context.num_input_pipelines, context.input_pipeline_id))
        return tf.data.Dataset.range(4)

    strategy = IPUStrategy()
    dataset = strategy.distribute_datasets_from_function(make)

    assert isinstance(dataset, tf.data.Dataset)
    assert len(dataset) == 4
    assert contexts == [(1, 0)]
    assert strategy.supports_loss_scaling is True


@pytest.mark.parametrize("iterates", [True, False])
@pytest.mark.parametrize("value", [5, None, [1], "x"])
def test_only_datasets_are_distributed(value, iterates):
    """Given as they are, or returned by a function."""
    strategy = IPUStrategy(enable_dataset_iterators=iterates)
    got = f"got {type(value).__name__}"
    with pytest.raises(TypeError, match=rf"`dataset` must be a tf\.data\.Da.*{got}"):
        strategy.experimental_distribute_dataset(value)
    with pytest.raises(TypeError, match=f"`dataset_fn` must be a function, {got}"):
        strategy.distribute_datasets_from_function(value)
    with pytest.raises(TypeError, match=f"`dataset_fn` must return a tf.*{got}"):
        strategy.distribute_datasets_from_function(lambda context: value)
    made = strategy.experimental_distribute_dataset(tf.data.Dataset.range(3))
    assert strategy.experimental_distribute_dataset(made).cardinality() == 3


def test_arrays_become_a_dataset_of_their_rows():
    """StrategyV1's method, also in a version-1 graph, where a session holds them."""
    arrays = (np.arange(6.0).reshape(3, 2), np.arange(3))

    rows = list(IPUStrategy().experimental_make_numpy_dataset(arrays))
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        made = IPUStrategy().experimental_make_numpy_dataset(arrays[1], session=session)
        iterator = tf.compat.v1.data.make_initializable_iterator(made)
        session.run(iterator.initializer)
        number = iterator.get_next()
        numbers = [session.run(number) for _ in range(3)]

    assert [row[1].numpy() for row in rows] == [0, 1, 2] == numbers
    np.testing.assert_array_equal(rows[2][0], [4.0, 5.0])
    for wrong in (5, None, [], "x", [1, 2], np.float32(1.0)):
        with pytest.raises(TypeError, match="`numpy_input` must be arrays of at least"):
            IPUStrategy().experimental_make_numpy_dataset(wrong)


@pytest.mark.parametrize("kind", ["sum", "SUM", tf.distribute.ReduceOp.SUM])
def test_a_reduction_needs_no_axis(kind):
    """As that of a strategy of version 1, which the original's is."""
    strategy, value = IPUStrategy(), tf.constant([1.0, 2.0])
    assert strategy.reduce(kind, value).numpy().tolist() == [1.0, 2.0]
    assert strategy.reduce(kind, value, 0).numpy() == 3.0
    assert strategy.reduce("MEAN", value, axis=0).numpy() == 1.5


@pytest.mark.parametrize("axis", [None, 0])
@pytest.mark.parametrize(
    ("kind", "error", "text"),
    [
        (None, TypeError, "Expected `reduce_op` to be .*not: None. Give .*SUM, MEAN"),
        (5, TypeError, "Expected `reduce_op` to be .*not: 5. Give .*SUM, MEAN"),
        ("x", ValueError, "'X' is not a valid ReduceOp. Give one of SUM, MEAN"),
    ],
)
def test_a_wrong_reduction_is_refused(kind, error, text, axis):
    with pytest.raises(error, match=text):
        IPUStrategy().reduce(kind, tf.constant([1.0, 2.0]), axis=axis)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ((3,), "`fn` must be a function, got int"),
        ((None,), "`fn` must be a function, got NoneType"),
        ((abs, 3), "`args` must be a list or tuple, got int"),
        ((abs, "text"), "`args` must be a list or tuple, got str"),
    ],
)
def test_run_reports_what_its_arguments_must_be(given, message):
    with pytest.raises(TypeError, match=message):
        IPUStrategy().run(*given)
