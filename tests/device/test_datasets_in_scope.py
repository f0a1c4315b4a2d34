"""Datasets that are built in the scope of an IPU have their state on the host."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.data.experimental.ops import global_shuffle_op

import ipufeed as ipu
from ipufeed.device.config.config import IPUConfig
from ipufeed.device.program.strategy import IPUStrategy

SIZE = 24


@pytest.fixture(scope="module", autouse=True)
def one_ipu():
    config = IPUConfig()
    config.auto_select_ipus = 1
    config.configure_ipu_system()


def in_strategy():
    return IPUStrategy().scope()


def on_device():
    return tf.device("/device:IPU:0")


def in_ipu_scope():
    return ipu.scopes.ipu_scope("/device:IPU:0")


SCOPES = (in_strategy, on_device, in_ipu_scope)
DATASETS = {
    "shuffle": lambda data: data.shuffle(12, seed=1),
    "shuffle and batch": lambda data: data.shuffle(12, seed=1).batch(2).unbatch(),
    "shuffle, then cache": lambda data: data.cache().shuffle(12, seed=1),
    "random": lambda data: tf.data.Dataset.random(
        seed=3, rerandomize_each_iteration=True
    ).take(SIZE),
    "shuffle and repeat": lambda data: data.apply(
        tf.data.experimental.shuffle_and_repeat(12, 2, seed=1)
    ),
    "global shuffle": lambda data: global_shuffle_op._global_shuffle(data, seed=1),
}


def iterations(name, scope=None, derived=(False,)):
    """The elements of iterations over the dataset, or one that is made of it outside."""
    tf.random.set_seed(5)
    data = tf.data.Dataset.range(SIZE)
    if scope is None:
        dataset = DATASETS[name](data)
    else:
        with scope():
            dataset = DATASETS[name](data)
    return [
        [int(each) for each in (dataset.skip(0) if is_derived else dataset)]
        for is_derived in derived
    ]


@pytest.mark.parametrize(
    "derived", [(False,) * 3, (True,) * 3, (True, False, True)], ids=str
)
@pytest.mark.parametrize("name", DATASETS)
def test_each_iteration_has_the_order_that_it_has_outside_of_a_scope(name, derived):
    """Three different ones; shuffle_and_repeat draws its seeds in another way."""
    expected = iterations(name, derived=derived)
    different = 1 if any(derived) and name == "shuffle and repeat" else 3

    assert len({tuple(each) for each in expected}) == different
    for scope in SCOPES:
        assert iterations(name, scope, derived) == expected


def test_an_infeed_has_the_order_of_each_iteration():
    """Of one dataset, whose queue begins again."""
    tf.random.set_seed(5)
    expected = list(tf.data.Dataset.range(SIZE).shuffle(12, seed=1))
    tf.random.set_seed(5)
    with IPUStrategy().scope():
        dataset = tf.data.Dataset.range(SIZE).shuffle(12, seed=1)
    dataset = dataset.map(lambda x: tf.cast(x, tf.int32))
    found = []
    for _ in range(3):
        infeed, outfeed = ipu.IPUInfeedQueue(dataset), ipu.IPUOutfeedQueue()
        _ = infeed.initializer

        @tf.function(jit_compile=True)
        def program(infeed=infeed, outfeed=outfeed):
            ipu.loops.repeat(SIZE, outfeed.enqueue, [], infeed)

        IPUStrategy().run(program)
        found.append(outfeed.dequeue().numpy())
        _ = infeed.deleter

    assert found[0].tolist() == [int(each) for each in expected]
    assert len({each.tobytes() for each in found}) == 3
    assert all(np.array_equal(np.sort(each), np.arange(SIZE)) for each in found)


def test_a_cache_is_filled_once():
    """The pass that fills it calls the function; later ones do not."""
    calls = []

    def count(x):
        calls.append(int(x))
        return x

    with IPUStrategy().scope():
        dataset = tf.data.Dataset.range(SIZE)
        dataset = dataset.map(lambda x: tf.py_function(count, [x], tf.int64)).cache()
    for _ in range(3):
        assert [int(each) for each in dataset.skip(0)] == list(range(SIZE))

    assert calls == list(range(SIZE))


def table():
    keys = tf.lookup.KeyValueTensorInitializer([1, 2], [10, 20])
    return tf.lookup.StaticHashTable(keys, -1).lookup


def generator():
    numbers = tf.random.Generator.from_seed(1)
    return lambda x: x + numbers.uniform([], maxval=9, dtype=tf.int32)


def layer():
    return tf.keras.layers.RandomFlip(seed=3)


def variable():
    number = tf.Variable(3)
    return lambda x: x * number


def constant():
    number = tf.constant(3)
    return lambda x: x * number


@pytest.mark.parametrize("make", [table, generator, layer, variable])
def test_a_function_that_uses_memory_of_an_ipu_is_refused(make):
    """When the infeed is initialised; made on the host the same can be used."""
    data = tf.data.Dataset.from_tensor_slices(np.ones([4, 2, 2, 1], np.int32))
    if make is layer:
        data = data.map(lambda x: tf.cast(x, tf.float32))
    with IPUStrategy().scope():
        dataset = data.map(make()).repeat(2)
    infeed = ipu.IPUInfeedQueue(dataset)

    with pytest.raises(
        ValueError, match=r"Dataset_map_.* of /device:IPU:0, and runs on"
    ):
        _ = infeed.initializer

    _ = ipu.IPUInfeedQueue(data.map(make())).initializer


def test_a_function_may_use_a_tensor_of_an_ipu():
    """It is copied."""
    data = tf.data.Dataset.from_tensor_slices([1, 2, 3])
    with IPUStrategy().scope():
        infeed = ipu.IPUInfeedQueue(data.map(constant()))
    outfeed = ipu.IPUOutfeedQueue()
    _ = infeed.initializer

    @tf.function(jit_compile=True)
    def program():
        ipu.loops.repeat(3, outfeed.enqueue, [], infeed)

    IPUStrategy().run(program)

    assert outfeed.dequeue().numpy().tolist() == [3, 6, 9]


@pytest.mark.parametrize("scope", SCOPES)
def test_a_function_in_a_graph_is_the_hosts(scope):
    """Also in a strategy's scope, whose device TensorFlow gives to functions inside it."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        with scope():
            dataset = tf.data.Dataset.range(1, 4)
            dataset = dataset.map(lambda x: tf.cast(2 * x, tf.float32))
            dataset = dataset.filter(lambda x: x > 2.0)
            infeed = ipu.IPUInfeedQueue(dataset)

            def program():
                return ipu.loops.repeat(2, lambda x, y: x + y, [0.0], infeed)

            total = ipu.ipu_compiler.compile(program)
        session.run(infeed.initializer)

        assert session.run(total) == [10.0]
