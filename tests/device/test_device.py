"""The simulated IPU as TensorFlow sees it: a device like any other, with its own threads.

tf.device("/device:IPU:n") --> ops, functions, variables, gradients --> host by copy
"""

import threading

import numpy as np
import pytest
import tensorflow as tf
from helpers import DEADLOCK_S, run_python

from ipufeed.device.system.topology import NUM_IPUS
from ipufeed.errors import DeviceOrdinalError
from ipufeed.queues import IPUOutfeedQueue

v1 = tf.compat.v1
IPU = "/device:IPU:1"


def on_ipu(tensor):
    return tensor.device.endswith(IPU)


def test_sixteen_ipus_are_there():
    """Physical and logical devices of the type IPU, numbered from 0."""
    physical = tf.config.list_physical_devices("IPU")
    logical = [device.name for device in tf.config.list_logical_devices("IPU")]

    assert len(physical) == NUM_IPUS == 16
    assert logical == [f"/device:IPU:{n}" for n in range(16)]


def test_nothing_lands_on_an_ipu_unasked():
    """The CPU remains the default, in eager mode and in functions."""
    assert (tf.constant(1.0) + 1.0).device.endswith("CPU:0")
    assert tf.function(lambda: tf.constant(1.0) + 1.0)().device.endswith("CPU:0")


def test_eager_ops_run_on_it():
    """The result says so, and is right."""
    with tf.device(IPU):
        a = tf.constant([[1.0, 2.0], [3.0, 4.0]])
        product = tf.matmul(a, a)

    assert on_ipu(a)
    assert on_ipu(product)
    assert product.numpy().tolist() == [[7.0, 10.0], [15.0, 22.0]]


@pytest.mark.parametrize("jit", [True, False])
def test_functions_run_on_it(jit):
    """Compiled or by the executor."""
    function = tf.function(lambda x: tf.nn.softmax(x * 2.0), jit_compile=jit)
    with tf.device(IPU):
        result = function(tf.constant([1.0, 1.0]))

    assert on_ipu(result)
    assert result.numpy().tolist() == [0.5, 0.5]


@pytest.mark.parametrize(
    "dtype", ["float16", "float32", "int32", "int8", "uint8", "bool"]
)
def test_values_are_copied_to_it_and_back_bit_for_bit(dtype):
    """From host arrays, from CPU tensors, and between two IPUs."""
    values = np.random.default_rng(1).integers(0, 2, [3, 5]).astype(dtype)
    host = tf.constant(values)
    with tf.device(IPU):
        there = tf.identity(host)
    with tf.device("/device:IPU:2"):
        elsewhere = tf.identity(there)
    with tf.device("/device:CPU:0"):
        back = tf.identity(elsewhere)

    assert on_ipu(there)
    assert elsewhere.device.endswith("IPU:2")
    assert back.device.endswith("CPU:0")
    np.testing.assert_array_equal(there.numpy(), values)
    np.testing.assert_array_equal(back.numpy(), values)


def test_a_copy_is_not_a_view():
    """What changes on the host afterwards does not change there."""
    values = np.zeros(4, np.float32)
    with tf.device(IPU):
        there = tf.constant(values)
    values[:] = 1.0

    assert there.numpy().tolist() == [0.0] * 4


def test_gradients_are_computed_on_it():
    """With a tape, eagerly and inside a compiled function."""

    def slope(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = x * x * x
        return tape.gradient(y, x)

    with tf.device(IPU):
        x = tf.constant(2.0)
        eager, compiled = slope(x), tf.function(slope, jit_compile=True)(x)

    assert on_ipu(eager)
    assert on_ipu(compiled)
    assert float(eager) == float(compiled) == 12.0


@pytest.mark.parametrize("jit", [True, False])
def test_resource_variables_live_on_it(jit):
    """They are read, assigned, added to and scattered into, eagerly and in functions."""
    with tf.device(IPU):
        variable = tf.Variable([1.0, 2.0, 3.0])

        @tf.function(jit_compile=jit)
        def update():
            variable.assign_add([1.0, 1.0, 1.0])
            variable.scatter_update(tf.IndexedSlices([9.0], [0]))
            return variable * 2

        result = update()
        variable.assign_sub([0.0, 0.0, 1.0])

    assert on_ipu(variable)
    assert result.numpy().tolist() == [18.0, 6.0, 8.0]
    assert variable.numpy().tolist() == [9.0, 3.0, 3.0]


def test_a_checkpoint_saves_and_restores_its_variables(tmp_path):
    """Also into a variable on another IPU."""
    with tf.device(IPU):
        variable = tf.Variable([1.0, 2.0])
    path = tf.train.Checkpoint(v=variable).save(str(tmp_path / "saved"))
    with tf.device("/device:IPU:7"):
        other = tf.Variable([0.0, 0.0])
    tf.train.Checkpoint(v=other).restore(path).assert_consumed()

    assert other.numpy().tolist() == [1.0, 2.0]
    assert other.device.endswith("IPU:7")


def test_random_numbers_come_from_it():
    """Stateless ones are those of the CPU."""
    here = tf.random.stateless_normal([100], [1, 2])
    with tf.device(IPU):
        there = tf.random.stateless_normal([100], [1, 2])
        free = tf.random.normal([100])

    np.testing.assert_array_equal(here, there)
    assert on_ipu(free)
    assert 0.5 < float(tf.math.reduce_std(free)) < 2.0


def test_text_and_control_flow_work_on_it():
    """What TensorFlow can do on a CPU, it can do there."""
    with tf.device(IPU):

        @tf.function
        def count(text):
            words = tf.strings.split(text)
            total = 0
            for word in words:
                if tf.strings.length(word) > 2:
                    total += 1
            return total

        assert int(count(tf.constant("an ant met a bee"))) == 3


def test_a_session_with_placeholders_on_the_cpu_runs_a_graph_on_it():
    """With and without soft placement; what is fetched comes back to the host."""
    with tf.Graph().as_default():
        with tf.device("/device:CPU:0"):
            a, b = v1.placeholder(tf.float32, [2]), v1.placeholder(tf.float32, [2])
        with tf.device(IPU):
            total = a * b + 1.0
            weight = v1.get_variable("w", [2], initializer=v1.ones_initializer())
            update = weight.assign_add(total)
        for soft in (True, False):
            options = v1.ConfigProto(allow_soft_placement=soft)
            with v1.Session(config=options) as session:
                session.run(v1.global_variables_initializer())
                feed = {a: [1.0, 2.0], b: [3.0, 4.0]}
                assert session.run(total, feed).tolist() == [4.0, 9.0]
                assert session.run(update, feed).tolist() == [5.0, 10.0]
        assert total.device == IPU


def test_a_session_lists_the_ipus():
    """As many as its configuration asks for."""
    with v1.Session(config=v1.ConfigProto(device_count={"IPU": 2})) as session:
        names = [device.name for device in session.list_devices()]

    assert sum("IPU" in name for name in names) == 2


@pytest.mark.parametrize("name", ["/device:IPU:16", "/ipu:99"])
def test_an_ordinal_that_is_not_there_is_refused(name):
    """In eager mode, in a function and in a graph: soft placement would take the CPU."""

    def compute():
        with tf.device(name):
            return tf.constant(1.0) + 1.0

    for call in (compute, tf.function(compute)):
        with pytest.raises(DeviceOrdinalError, match=name):
            call()
    with tf.Graph().as_default(), pytest.raises(DeviceOrdinalError, match=name):
        compute()


def test_several_ipus_run_programs_at_a_time():
    """Each thread has its own device, and its own results."""
    outfeeds = [IPUOutfeedQueue(device_ordinal=n) for n in range(4)]
    together = threading.Barrier(4, timeout=DEADLOCK_S)

    def work(n):
        outfeed = outfeeds[n]

        @tf.function(jit_compile=True)
        def program():
            for i in tf.range(200):
                outfeed.enqueue(i * 10 + n)

        together.wait()
        with tf.device(f"/device:IPU:{n}"):
            program()

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLOCK_S)

    for n, outfeed in enumerate(outfeeds):
        assert outfeed.dequeue().numpy().tolist() == [10 * i + n for i in range(200)]


@pytest.mark.process
def test_its_threads_are_its_own():
    """They carry its name, and start with its first work: another IPU has none."""
    done = run_python(
        "import os, ipufeed, tensorflow as tf\n"
        "def names():\n"
        "    tasks = '/proc/self/task'\n"
        "    return [open(f'{tasks}/{t}/comm').read().strip() for t in os.listdir(tasks)]\n"
        "assert not [n for n in names() if 'ipu3' in n]\n"
        "with tf.device('/device:IPU:3'):\n"
        "    tf.function(lambda x: tf.reduce_sum(tf.exp(x)))(tf.ones([999, 999]))\n"
        "print(len([n for n in names() if 'ipu3' in n]) > 0)\n"
        "print(len([n for n in names() if 'ipu4' in n]))\n"
    )

    assert done.stdout.split() == ["True", "0"], done.stderr


@pytest.mark.process
def test_tensorflow_must_not_have_started_before():
    """It lists its devices once; ipufeed says what to do, instead of having none."""
    done = run_python("import tensorflow as tf; tf.constant(1.0); import ipufeed")

    assert "TensorFlowStartedError" in done.stderr
    assert "Put `import ipufeed` before the first use" in done.stderr
