"""Random operations on an IPU draw what the device's seed says, wherever they run."""

import json
import sys

import children
import numpy as np
import pytest
import styles
import tensorflow as tf
from helpers import DEADLOCK_S, run_python
from seeded_programs import configure, different, raw_seed, seed_of
from tensorflow.python.eager import context

from ipufeed.device.program import executor as params
from ipufeed.device.program.scopes import ipu_scope
from ipufeed.device.random import ops as random_ops
from ipufeed.device.system.seeds import reset_ipu_seed
from ipufeed.device.system.state import SYSTEM
from ipufeed.device.system.system import reset_ipu_configuration
from ipufeed.queues import IPUOutfeedQueue

pytestmark = [pytest.mark.usefixtures("clean_system"), pytest.mark.long]


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


def warnings_of_seeds(caplog):
    """The messages of lost seeds."""
    return [each for each in caplog.messages if "reset_ipu_seed" in each]


@pytest.mark.parametrize("change", [lambda: configure(2), reset_ipu_configuration])
def test_a_configuration_that_loses_seeds_warns_once_and_names_the_devices(
    change, caplog
):
    """A later change has no seed to lose."""
    reset_ipu_seed(5)
    reset_ipu_seed(5, "/device:IPU:3")
    change()
    reset_ipu_configuration()

    assert warnings_of_seeds(caplog) == [
        "The change of the IPU configuration has reset the seed that reset_ipu_seed had "
        "set for /device:IPU:0, /device:IPU:3: call reset_ipu_seed after "
        "configure_ipu_system."
    ]


def test_a_configuration_without_seeds_or_changes_does_not_warn(caplog):
    """An equal configuration keeps the seed."""
    configure(2)
    reset_ipu_seed(5)
    configure(2)

    assert warnings_of_seeds(caplog) == []
    assert SYSTEM.seeds[0].seed == 5


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
            timeout=DEADLOCK_S,
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
