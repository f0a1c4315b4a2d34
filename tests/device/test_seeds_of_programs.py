"""Seeds of replicas, gradients, functions and synthetic data."""

import ctypes

import numpy as np
import pytest
import styles
import tensorflow as tf
from seeded_programs import configure, different, raw_seed, seed_of, splitmix
from tensorflow.python.eager import context

from ipufeed import _native
from ipufeed.device.program import compiler
from ipufeed.device.program import executor as params
from ipufeed.device.program.scopes import ipu_scope
from ipufeed.device.program.strategy import IPUStrategy
from ipufeed.device.system.seeds import reset_ipu_seed
from ipufeed.queues import IPUOutfeedQueue

pytestmark = pytest.mark.usefixtures("clean_system")


@pytest.fixture(autouse=True)
def _as_before():
    """Neither a seed of TensorFlow's stays, nor an executor."""
    yield
    context.context()._seed = None
    params.set_executor("xla")


def run(net, *values):
    """The results of a program that was compiled."""
    program = tf.function(net, jit_compile=True)
    strategy = IPUStrategy()
    with strategy.scope():
        return tf.nest.map_structure(
            lambda each: each.numpy(), strategy.run(program, values)
        )


def draws_of(replicas, identical, processes=(1, 0)):
    """What each replica of a process draws in two iterations: [2, replicas, 5]."""
    configure(replicas)
    count, index = processes
    entry = _native.entry()
    # What is called for collectives, of which the program has none.
    collective = ctypes.CFUNCTYPE(None)(lambda: None)
    entry.ipufeed_set_processes(count, index, ctypes.cast(collective, ctypes.c_void_p))
    try:
        with styles.entered("function", "xla") as style:
            outfeed = IPUOutfeedQueue()
            reset_ipu_seed(21, experimental_identical_replicas=identical)
            style.run(
                lambda: style.repeat(
                    2, lambda: outfeed.enqueue(tf.random.normal([5])), []
                )
            )
            return np.asarray(outfeed.dequeue()).reshape([2, replicas, 5])
    finally:
        entry.ipufeed_set_processes(1, 0, None)


def test_replicas_differ_unless_they_are_to_be_identical():
    """P3, and all their iterations."""
    own = draws_of(4, identical=False)
    same = draws_of(4, identical=True)

    assert different(own.reshape([-1, 5]))
    assert different(same[:, 0])
    for replica in range(1, 4):
        np.testing.assert_array_equal(same[:, replica], same[:, 0])


def test_four_replicas_are_two_processes_with_two():
    """P3: by their number among all."""
    whole = draws_of(4, identical=False)
    halves = [draws_of(2, False, processes=(2, index)) for index in range(2)]

    np.testing.assert_array_equal(whole, np.concatenate(halves, axis=1))


@pytest.mark.parametrize("executor", ["xla", "tensorflow"])
def test_gradients_have_the_mask_of_the_forward_pass(executor):
    """P5: in a loop, so that each iteration has another one."""
    params.set_executor(executor)

    def net(x):
        def body(i, masks, gradients):
            with tf.GradientTape() as tape:
                tape.watch(x)
                dropped = tf.nn.dropout(x, 0.5)
                scaled = dropped * tf.random.uniform([64], 1.0, 2.0)
            gradient = tape.gradient(scaled, x)
            where = tf.one_hot(i, 3)[:, None]
            return i + 1, masks + where * scaled, gradients + where * gradient

        state = [tf.constant(0), tf.zeros([3, 64]), tf.zeros([3, 64])]
        return tf.while_loop(lambda i, *_: i < 3, body, state)[1:]

    masks, gradients = run(net, tf.ones([64]))

    np.testing.assert_allclose(masks, gradients)
    assert different(masks)
    assert 0 < np.count_nonzero(masks) < masks.size


def test_the_gradient_through_a_loop_has_its_masks():
    """Of a tape around the loop."""

    def net(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.while_loop(
                lambda i, _: i < 4,
                lambda i, y: (i + 1, tf.nn.dropout(y, 0.1)),
                [tf.constant(0), x],
                maximum_iterations=4,
            )[1]
        return y, tape.gradient(y, x)

    y, gradient = run(net, tf.ones([256]))

    np.testing.assert_allclose(y, gradient, rtol=1e-6)
    assert 0 < np.count_nonzero(y) < 256


@pytest.mark.parametrize("executor", ["xla", "tensorflow"])
def test_a_function_called_twice_draws_twice_and_always_the_same(executor):
    """By numbers of their own in the program, whatever was traced before."""
    params.set_executor(executor)

    @tf.function
    def layer(x):
        return tf.while_loop(
            lambda i, _: i < 2,
            lambda i, y: (i + 1, y + tf.random.uniform([4])),
            [tf.constant(0), x],
        )[1]

    def twice():
        return layer(tf.zeros([4])), layer(tf.zeros([4])), tf.random.uniform([4])

    def once():
        return layer(tf.zeros([4]))

    found = []
    for programs in ([twice, once], [once, twice]):
        reset_ipu_seed(4)
        results = {}
        for program in programs:
            reset_ipu_seed(4)
            results[program] = run(program)
        found.append(results)

    assert different(found[0][twice])
    np.testing.assert_array_equal(found[0][twice], found[1][twice])
    np.testing.assert_array_equal(found[0][once], found[1][once])
    # Its op is the first in both programs.
    np.testing.assert_array_equal(found[0][once], found[0][twice][0])


def test_seeds_of_ops_and_graphs_count():
    """tf.random.set_seed, and the argument of an op: as the definition mixes them."""

    def net():
        return tf.random.uniform([3]), tf.random.uniform([3], seed=7)

    found = []
    for seed in (None, 1, 2):
        if seed is not None:
            tf.random.set_seed(seed)
        reset_ipu_seed(3)
        found.append(run(net))

    assert different([each for two in found for each in two])
    first = tf.random.stateless_uniform([3], seed_of(3, 1, 1, 0, 0)).numpy()
    mixed = splitmix((2**32 * 87654321 + 7) % 2**64)  # TensorFlow's default graph seed
    second = tf.random.stateless_uniform([3], seed_of(3, 1, 1, 1 ^ mixed, 0)).numpy()
    np.testing.assert_array_equal(found[0], [first, second])


def test_the_host_and_datasets_draw_as_without_ipus():
    """tf.random.set_seed alone determines them, inside an IPU's scope too."""

    def drawn():
        tf.random.set_seed(5)
        with ipu_scope("/device:IPU:0"), tf.device("cpu"):
            there = tf.random.uniform([3]).numpy()
        tf.random.set_seed(5)
        dataset = tf.data.Dataset.range(3).map(lambda _: tf.random.uniform([3]))
        return there, [each.numpy() for each in dataset]

    tf.random.set_seed(5)
    plain = tf.random.uniform([3]).numpy()
    reset_ipu_seed(1)
    there, elements = drawn()
    reset_ipu_seed(2)
    again = drawn()[1]
    with IPUStrategy(enable_dataset_iterators=False).scope():
        inside = drawn()[1]

    np.testing.assert_array_equal(plain, there)
    np.testing.assert_array_equal(elements, again)
    np.testing.assert_array_equal(elements, inside)


def test_a_function_is_the_hosts_on_the_host_and_the_ipus_on_the_ipu():
    """Whichever comes first."""
    types = []

    @tf.function
    def net():
        value = tf.random.uniform([2])
        types.append(value.op.type)
        return value

    net()
    with ipu_scope("/device:IPU:0"):
        net()
    net()

    assert types == ["RandomUniform", "IpufeedRandom"]


def test_synthetic_seeds_are_always_the_same(monkeypatch):
    """Seed 0 and run 1, whatever is reset."""
    monkeypatch.setenv("TF_POPLAR_FLAGS", "--synthetic_data_categories=seed")
    configure(1)
    with ipu_scope("/device:IPU:0"):
        first = raw_seed().numpy().tolist()
        reset_ipu_seed(5)
        second = raw_seed().numpy().tolist()

    assert first == second == seed_of(0, 1, 1, 0, 0)


def test_devices_have_seeds_of_their_own():
    """A reset of one does not touch another."""
    configure(1, 1)

    def drawn(ordinal):
        with ipu_scope(f"/device:IPU:{ordinal}"):
            return tf.random.uniform([3]).numpy().tolist()

    reset_ipu_seed(1, "/device:IPU:0")
    reset_ipu_seed(1, "/device:IPU:1")
    first = drawn(0)
    reset_ipu_seed(1, "/device:IPU:0")

    assert drawn(0) == first == drawn(1)


def test_keras_dropout_draws_the_devices_seeds():
    """After a reset; without one Keras's own seeds count."""
    strategy = IPUStrategy()

    def dropping(scope):
        tf.keras.utils.set_random_seed(3)
        with scope:
            layer = tf.keras.layers.Dropout(0.5)
        return tf.function(
            lambda: layer(tf.ones([64]), training=True), jit_compile=True
        )

    program = dropping(strategy.scope())
    stock = dropping(tf.device("cpu"))

    def runs():
        with strategy.scope():
            return [strategy.run(program).numpy() for _ in range(2)]

    unset = runs()
    np.testing.assert_array_equal(unset, [stock().numpy() for _ in range(2)])
    reset_ipu_seed(6)
    first = runs()
    reset_ipu_seed(6)
    second = runs()

    np.testing.assert_array_equal(first, second)
    assert different([*first, *unset])


@pytest.mark.parametrize("style", styles.TWO, ids=", ".join, indirect=True)
def test_an_infeed_and_random_ops_stay_in_step(style):
    """A dropout in a training loop takes nothing from the elements' order."""
    infeed = style.feed(
        lambda: tf.data.Dataset.range(50).map(lambda n: tf.cast(n, tf.float32))
    )
    outfeed = IPUOutfeedQueue()

    def body(x):
        noise = tf.random.uniform([1000])
        return outfeed.enqueue(x + 0.0 * tf.reduce_sum(noise))

    style.run(lambda: style.repeat(50, body, [], infeed))

    np.testing.assert_array_equal(style.read(outfeed.dequeue()), np.arange(50.0))


def test_initializers_in_a_program_keep_their_seeds():
    """A variable built in `compile` starts as the seed of its initializer says."""
    found = []
    for _ in range(2):
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:

            def net():
                start = tf.compat.v1.glorot_uniform_initializer(seed=64)
                weights = tf.compat.v1.get_variable("w", [3, 4], initializer=start)
                return weights * 1.0

            with ipu_scope("/device:IPU:0"):
                (result,) = compiler.compile(net, [])
            session.run(tf.compat.v1.global_variables_initializer())
            found.append(session.run(result))

    assert np.array_equal(*found)
