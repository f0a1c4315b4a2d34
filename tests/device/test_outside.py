"""outside_compilation_scope: ops of a program that run on the host.

program --scope inside?--> TensorFlow's executor --> host ops at their place
"""

import numpy as np
import pytest
import tensorflow as tf
from styles import only

from ipufeed.device.program import compiler, loops
from ipufeed.device.program import executor as params
from ipufeed.device.program.outside_compilation import outside_compilation_scope
from ipufeed.device.program.scopes import ipu_scope
from ipufeed.device.program.strategy import IPUStrategy
from ipufeed.queues import IPUInfeedQueue, IPUOutfeedQueue

v1 = tf.compat.v1


@pytest.fixture
def seen():
    return []


@pytest.fixture
def body(seen):
    """A function that gives 2 * x + 1; the host does the doubling, and notes x."""

    def doubled(x):
        seen.append(float(x))
        return np.float32(x * 2)

    def run(x):
        with outside_compilation_scope():
            y = tf.numpy_function(doubled, [x], tf.float32)
            y.set_shape([])
        return y + 1

    return run


@pytest.mark.parametrize("use_while_v1", [True, False])
@pytest.mark.parametrize("executor", params._EXECUTORS)
def test_a_graph_calls_the_host_in_each_iteration(body, seen, executor, use_while_v1):
    """In both loops and both modes: the values in order, and the results go on."""
    with tf.Graph().as_default(), params.executor_scope(executor):
        with tf.device("cpu"):
            first = v1.placeholder(tf.float32, [])
        with ipu_scope("/device:IPU:0"):
            result = compiler.compile(
                lambda x: loops.repeat(4, body, [x], use_while_v1=use_while_v1), [first]
            )
        with v1.Session() as session:
            assert session.run(result, {first: 1.0}) == [31.0]

    assert seen == [1.0, 3.0, 7.0, 15.0]


def test_a_strategy_runs_a_function_that_calls_the_host(body, seen):
    """A tf.function(jit_compile=True), as often as one likes, with feeds around."""
    infeed = IPUInfeedQueue(
        tf.data.Dataset.range(100).map(lambda n: tf.cast(n, tf.float32))
    )
    outfeed = IPUOutfeedQueue()

    def step(total, n):
        return total + body(n), outfeed.enqueue(total)

    strategy = IPUStrategy()
    with strategy.scope():

        @tf.function(jit_compile=True)
        def program(total):
            return loops.repeat(3, step, [total], infeed)

        infeed.initializer  # noqa: B018
        assert strategy.run(program, [0.0]).numpy() == 1 + 3 + 5
        assert strategy.run(program, [0.0]).numpy() == 7 + 9 + 11
    assert seen == [0, 1, 2, 3, 4, 5]
    np.testing.assert_array_equal(outfeed.dequeue(), [0, 1, 4, 0, 7, 16])
    infeed.deleter  # noqa: B018


def test_strings_stay_on_the_host(seen):
    """Within one scope tensors may be of types that no program on the IPU can hold."""

    def program(x):
        with outside_compilation_scope("text"):
            text = tf.strings.as_string(x)
            done = tf.py_function(lambda t: seen.append(t.numpy()), [text], [])
        with tf.control_dependencies([done]):
            return x + 1

    with ipu_scope("/device:IPU:0"):
        assert compiler.compile(program, [41])[0].numpy() == 42
    assert seen == [b"41"]


def test_only_programs_have_an_outside(body):
    """Elsewhere, and inside another such scope, it is an error."""
    with pytest.raises(ValueError, match="only allowed in XLA context"):
        body(tf.constant(1.0))
    with (
        pytest.raises(ValueError, match="only allowed in XLA context"),
        tf.Graph().as_default(),
    ):
        body(tf.constant(1.0))

    def nested(x):
        with outside_compilation_scope():
            return body(x)

    with (
        pytest.raises(ValueError, match="Illegal nesting of outside_compilation_scope"),
        ipu_scope("/device:IPU:0"),
    ):
        compiler.compile(nested, [1.0])


@pytest.mark.parametrize("name", [object(), 3, b"x"])
def test_the_name_of_an_outside_is_a_text(name):
    def program(x):
        with outside_compilation_scope(name):
            return x

    with (
        pytest.raises(TypeError, match="`name` must be a str or None, got"),
        ipu_scope("/device:IPU:0"),
    ):
        compiler.compile(program, [1.0])


def test_a_function_that_cannot_be_taken_back_is_refused(body):
    """Compiled by its own decorator and called directly, or by another function."""
    compiled = tf.function(body, jit_compile=True)
    with pytest.raises(ValueError, match=r"needs\s+IPUStrategy.run or"):
        compiled(tf.constant(1.0))
    strategy = IPUStrategy()
    with strategy.scope(), pytest.raises(ValueError, match="and not one that calls it"):
        strategy.run(tf.function(lambda x: compiled(x)), [1.0])


def test_what_has_an_effect_on_the_host_runs_without_a_consumer(seen, style):
    """In the program and in a loop's body: a print, a summary that is written."""

    def note(x):
        with outside_compilation_scope():
            tf.py_function(lambda value: seen.append(float(value)), [x], [])

    def body(x):
        note(x)
        return x + 1

    def net(x):
        note(x - 100)
        return style.repeat(3, body, [x])

    assert only(style.run(net, 1.0)) == 4.0
    assert sorted(seen) == [-99.0, 1.0, 2.0, 3.0]
