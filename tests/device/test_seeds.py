"""Random operations on an IPU draw what the device's seed says, wherever they run."""

import ctypes
import json
import sys

import children
import numpy as np
import pytest
import styles
import tensorflow as tf
from helpers import run_python
from tensorflow.python.eager import context

from ipufeed import _native
from ipufeed.device.config.config import IPUConfig
from ipufeed.device.program import executor as params
from ipufeed.device.program.scopes import ipu_scope
from ipufeed.device.program.strategy import IPUStrategy
from ipufeed.device.random import ops as random_ops
from ipufeed.device.system import system
from ipufeed.device.system.seeds import reset_ipu_seed
from ipufeed.queues import IPUOutfeedQueue

pytestmark = pytest.mark.usefixtures("clean_system")
v1 = tf.compat.v1


@pytest.fixture(autouse=True)
def _as_before():
    """Neither a seed of TensorFlow's stays, nor an executor."""
    yield
    context.context()._seed = None
    params.set_executor("xla")


# Each stateful op, by what a program calls.
OPS = {
    "uniform": lambda: tf.random.uniform([37]),
    "uniform float16": lambda: tf.random.uniform([37], dtype=tf.float16),
    "uniform bfloat16": lambda: tf.random.uniform([37], dtype=tf.bfloat16),
    "uniform int": lambda: tf.random.uniform([37], -5, 100, tf.int32),
    "uniform int64": lambda: tf.random.uniform([37], -5, 10**12, tf.int64),
    "normal": lambda: tf.random.normal([37]),
    "truncated normal": lambda: tf.random.truncated_normal([37], dtype=tf.float16),
    "categorical": lambda: tf.random.categorical(tf.zeros([3, 50]), 11),
    "shuffle": lambda: tf.random.shuffle(tf.range(37)),
    "dropout": lambda: tf.nn.dropout(tf.ones([37]), 0.5),
    "raw": lambda: tf.raw_ops.RandomStandardNormal(shape=[37], dtype=tf.float32),
}


def sent(op):
    """What an op draws, in a dtype that outfeeds carry."""
    value = op()
    return tf.cast(value, tf.float32 if value.dtype.is_floating else tf.int32)


def configure(*num_ipus):
    config = IPUConfig()
    config.auto_select_ipus = list(num_ipus)
    system.configure_ipu_system(config)


def splitmix(z):
    """One step, by the book."""
    z = (z + 0x9E3779B97F4A7C15) % 2**64
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
    return z ^ (z >> 31)


def seed_of(seed, *numbers):
    """The chain over run, replica, op and execution, as two int32."""
    key = splitmix(seed % 2**64)
    for number in numbers:
        key = splitmix(key ^ number % 2**64)
    return np.array([key], np.uint64).view(np.int32).tolist()


def raw_seed(o=0):
    """The op that draws a seed."""
    return _native.load().ipufeed_seed(tf.zeros([2], tf.int32), o=o)


def run(net, *values):
    """The results of a program that was compiled."""
    program = tf.function(net, jit_compile=True)
    strategy = IPUStrategy()
    with strategy.scope():
        return tf.nest.map_structure(
            lambda each: each.numpy(), strategy.run(program, values)
        )


def different(values):
    """Whether no two rows are equal."""
    rows = [np.asarray(each).tobytes() for each in values]
    return len(set(rows)) == len(rows)


def test_the_first_seed_is_the_one_that_the_definition_gives():
    """Seed 5, run 1, replica 1, op 0, execution 0."""
    reset_ipu_seed(5)
    with ipu_scope("/device:IPU:0"):
        first = raw_seed().numpy().tolist()

    assert first == [-2117531744, -772190657] == seed_of(5, 1, 1, 0, 0)


def test_run_replica_op_and_execution_are_numbers_of_the_chain():
    """Seed -1, run 3, replica 2, op 4, execution 7."""
    configure(2)
    with styles.entered("function", "xla") as style:
        outfeed = IPUOutfeedQueue()
        run = style.build(
            lambda: style.repeat(8, lambda: outfeed.enqueue(raw_seed(4)), [])
        )
        reset_ipu_seed(-1)
        for _ in range(3):
            run()
        seeds = np.asarray(outfeed.dequeue()).reshape([3, 8, 2, 2])

    assert seeds[2, 7, 1].view(np.uint64)[0] == 0x2FFF44147763A128
    for place in np.ndindex(3, 8, 2):
        n, c, r = place
        assert seeds[place].tolist() == seed_of(-1, n + 1, r + 1, 4, c)


DISTRIBUTIONS = {
    random_ops.Distribution.UNIFORM: tf.random.stateless_uniform,
    random_ops.Distribution.NORMAL: tf.random.stateless_normal,
    random_ops.Distribution.TRUNCATED_NORMAL: tf.random.stateless_truncated_normal,
}


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("count", [0, 1, 4, 1003])
def test_numbers_are_those_of_tensorflows_stateless_ops(distribution, dtype, count):
    """Bit for bit those of the host, compiled or not."""

    def numbers(seed):
        return random_ops.numbers([count], seed, tf.as_dtype(dtype), distribution)

    for seed in ([-2117531744, -772190657], [3, 0]):
        expected = DISTRIBUTIONS[distribution]([count], seed, dtype=dtype).numpy()
        for jit in (False, True):
            found = tf.function(numbers, jit_compile=jit)(tf.constant(seed)).numpy()
            assert found.tobytes() == expected.tobytes()


def test_numbers_have_their_distribution():
    """Means and deviations within four standard errors."""
    reset_ipu_seed(1)
    logits = np.log([0.1, 0.2, 0.7]).astype(np.float32)
    with ipu_scope("/device:IPU:0"):
        normal = tf.random.normal([40000], 3.0, 2.0).numpy()
        drawn = tf.random.categorical(logits[None], 40000).numpy()
        integers = tf.random.uniform([40000], 0, 4, tf.int32).numpy()
        shuffled = tf.random.shuffle(tf.range(100)).numpy()

    assert abs(normal.mean() - 3) < 4 * 2 / 200
    assert abs(normal.std() - 2) < 4 * 2 / 200 / np.sqrt(2)
    for shares, found in (([0.1, 0.2, 0.7], drawn), ([0.25] * 4, integers)):
        counts = np.bincount(found.ravel(), minlength=len(shares))
        for share, count in zip(shares, counts, strict=True):
            assert abs(count / 40000 - share) < 4 * np.sqrt(share * (1 - share)) / 200
    assert sorted(shuffled) == list(range(100)) != list(shuffled)


@pytest.mark.parametrize("style", styles.TWO, ids=", ".join, indirect=True)
@pytest.mark.parametrize("name", OPS)
def test_a_reset_repeats_a_sequence_of_runs(style, name):
    """P1 and P2: runs, iterations and ops differ, and come again after a reset."""
    op = OPS[name]
    outfeed = IPUOutfeedQueue()
    go = style.build(
        lambda: style.repeat(3, lambda: outfeed.enqueue([sent(op), sent(op)]), [])
    )

    def sequence():
        reset_ipu_seed(11)
        go()
        go()
        return style.read(outfeed.dequeue())

    first, again = sequence(), sequence()

    flat = [each for two in first for each in two]
    assert different(flat)
    assert len(flat) == 12
    for one, other in zip(first, again, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("name", OPS)
def test_all_ways_of_running_give_the_same(name):
    """P4: both styles, compiled and on the executor, in a loop and op by op."""
    found = {}
    for kind in ("graph", "function"):
        for executor in ("xla", "tensorflow"):
            with styles.entered(kind, executor) as style:
                outfeed = IPUOutfeedQueue()
                go = style.build(
                    lambda s=style, queue=outfeed: s.repeat(
                        2, lambda: queue.enqueue([sent(OPS[name]), sent(OPS[name])]), []
                    )
                )
                reset_ipu_seed(2**40)
                go()
                found[kind, executor] = style.read(outfeed.dequeue())
    first = found.pop(("graph", "xla"))
    for other in found.values():
        for one, two in zip(first, other, strict=True):
            np.testing.assert_array_equal(one, two)
    reset_ipu_seed(2**40)
    with ipu_scope("/device:IPU:0"):
        np.testing.assert_array_equal(sent(OPS[name]).numpy(), first[0][0])


PROGRAM = """
import json, sys
import numpy as np
import ipufeed
import tensorflow as tf
from ipufeed.device.program import loops
from ipufeed.device.system import seeds
from ipufeed.device.program.strategy import IPUStrategy

def extra():
    return tf.random.uniform([2])

for _ in range(int(sys.argv[1])):      # other functions before it
    with IPUStrategy().scope():
        tf.function(lambda: extra() + 1, jit_compile=True)()

@tf.function(jit_compile=True)
def program(x):
    def body(x):
        return tf.nn.dropout(x, 0.25) + tf.random.normal([5])
    return loops.repeat(4, body, [x])

strategy = IPUStrategy()
seeds.reset_ipu_seed(9)
with strategy.scope():
    runs = [strategy.run(program, [tf.ones([5])]).numpy().tobytes().hex()
            for _ in range(2)]
print(json.dumps(runs))
"""


@pytest.mark.process
def test_another_process_draws_the_same_from_a_cached_program_too(
    tmp_path, monkeypatch
):
    """P1: compiled, loaded from its file, and with other functions traced before."""
    monkeypatch.setenv("TF_POPLAR_FLAGS", f"--executable_cache_path={tmp_path}")
    output = []
    files = []
    for before in ("0", "0", "3"):
        done = children.run(
            [sys.executable, "-c", PROGRAM, before],
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        output.append(json.loads(done.stdout))
        files.append(len(list(tmp_path.glob("*.poplar_exec"))))

    assert output[0] == output[1] == output[2]
    assert output[0][0] != output[0][1]
    assert files == [1, 1, 2]  # the third process has another program, too


@pytest.mark.process
def test_two_processes_without_a_reset_differ():
    """Each device begins with a seed of the system's entropy."""
    code = PROGRAM.replace("seeds.reset_ipu_seed(9)", "").replace(
        "int(sys.argv[1])", "0"
    )
    first, second = (run_python(code) for _ in range(2))

    assert first.returncode == second.returncode == 0
    assert json.loads(first.stdout) != json.loads(second.stdout)


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
