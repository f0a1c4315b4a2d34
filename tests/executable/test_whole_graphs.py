"""Graphs without ipu_compiler.compile, and functions without jit_compile, are programs.

Session.run(fetches, feeds) --> what is on an IPU --> one program, compiled once
"""

import logging

import numpy as np
import pytest
import tensorflow as tf

import ipufeed
from ipufeed.device.config.config import IPUConfig
from ipufeed.device.config.enums import DeviceConnectionType
from ipufeed.device.program import compiler
from ipufeed.device.program import executor as params
from ipufeed.device.program.scopes import ipu_jit_scope, ipu_scope
from ipufeed.device.program.strategy import IPUStrategy
from ipufeed.errors import RecompileError
from ipufeed.executable.store import counters
from ipufeed.queues import IPUInfeedQueue, IPUOutfeedQueue

v1 = tf.compat.v1
IPU = "/device:IPU:0"


@pytest.fixture(autouse=True)
def fresh(clean_system):
    """No device holds a program, and the counters are at 0."""
    counters.reset_stats()


@pytest.fixture
def graph():
    with tf.Graph().as_default() as made:
        yield made


def compiles():
    return counters.stats().compiles


def configure(connection):
    config = IPUConfig()
    config.auto_select_ipus = 1
    config.device_connection.type = connection
    config.device_connection.version = "ipu2"
    config.device_connection.enable_remote_buffers = True
    config.configure_ipu_system()


class Counter:
    """Programs that are compiled from one look to the next."""

    def __init__(self):
        self.before = compiles()

    def new(self):
        self.before, before = compiles(), self.before
        return self.before - before


def placeholders(*shapes):
    with tf.device("cpu"):
        return [v1.placeholder(tf.float32, shape) for shape in shapes]


def network(x, y, optimizer):
    """Some sixty operations, with two layers of weights."""
    for layer, units in enumerate((8, 4)):
        weights = v1.get_variable(f"w{layer}", [x.shape[1], units])
        biases = v1.get_variable(
            f"b{layer}", [units], initializer=tf.zeros_initializer()
        )
        x = tf.nn.relu(tf.matmul(x, weights) + biases)
    loss = tf.reduce_mean((x - y) ** 2)
    return loss, optimizer.minimize(loss)


FEEDS = np.linspace(-1, 1, 32, dtype=np.float32).reshape(4, 8), np.ones([4, 4])


@pytest.mark.parametrize(
    "optimizer",
    [
        v1.train.GradientDescentOptimizer(0.1),
        v1.train.MomentumOptimizer(0.1, 0.9),
        v1.train.AdamOptimizer(0.01),
    ],
    ids=lambda each: each.get_name(),
)
def test_a_training_graph_is_one_program_and_so_is_its_initialisation(graph, optimizer):
    """Variables are updated in it, the optimizer's own as well."""
    x, y = placeholders([4, 8], [4, 4])
    with ipu_scope(IPU):
        fetches = network(x, y, optimizer)
    assert len(graph.get_operations()) > 50
    programs = Counter()
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        assert programs.new() == 1
        feeds = dict(zip((x, y), FEEDS, strict=True))
        losses = [session.run(fetches, feeds)[0] for _ in range(20)]
        assert programs.new() == 1
    assert losses[-1] < losses[0]


def test_it_computes_what_compile_computes(graph):
    """From the same weights, step by step."""
    trained = []
    x, y = placeholders([4, 8], [4, 4])
    for build in (lambda net: net(x, y), lambda net: compiler.compile(net, [x, y])):
        with ipu_scope(IPU), v1.variable_scope(f"net{len(trained)}"):
            fetches = build(
                lambda a, b: network(a, b, v1.train.MomentumOptimizer(0.1, 0.9))
            )
        scope = f"net{len(trained)}/"
        variables = [v for v in v1.trainable_variables() if v.name.startswith(scope)]
        others = [v for v in v1.global_variables() if v.name.startswith(scope)]
        rng = np.random.default_rng(1)
        with v1.Session() as session:
            session.run(v1.variables_initializer(others))
            for variable in variables:
                value = rng.normal(size=variable.shape)
                session.run(
                    variable.initializer, {variable.initializer.inputs[1]: value}
                )
            for _ in range(5):
                session.run(fetches, dict(zip((x, y), FEEDS, strict=True)))
            trained.append(session.run(variables))
    for one, other in zip(*trained, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)


def test_each_pair_of_feeds_and_fetches_is_a_program(graph):
    """And the same pair again is none."""
    a, b = placeholders([3], [3])
    with ipu_scope(IPU):
        total, difference = a + b, a - b
    feeds = {a: [1, 2, 3], b: [4, 5, 6]}
    programs = Counter()
    with v1.Session() as session:
        for fetches, count in (
            (total, 1),
            (difference, 1),
            ([total, difference], 1),
            (total, 0),
            (difference, 0),
        ):
            session.run(fetches, feeds)
            assert programs.new() == count
        assert session.run(total, {total: [9, 9, 9]}).tolist() == [9, 9, 9]
        assert programs.new() == 0
        np.testing.assert_array_equal(session.run(difference, feeds), [-3, -3, -3])


def test_a_function_without_jit_compile_is_one_program(caplog):
    """With its variables, and by its name; the second call compiles nothing."""
    caplog.set_level(logging.INFO, "ipufeed")
    strategy = IPUStrategy()
    with strategy.scope():
        weights = tf.Variable(tf.eye(3) * 2)

        @tf.function
        def power(x):
            for _ in range(4):
                x = tf.matmul(x, weights)
            weights.assign_add(tf.eye(3))
            return x

        programs = Counter()
        first = strategy.run(power, [tf.eye(3)])
        assert programs.new() == 1
        second = strategy.run(power, [tf.eye(3)])
        assert programs.new() == 0
    np.testing.assert_allclose(first, np.eye(3) * 16)
    np.testing.assert_allclose(second, np.eye(3) * 81)
    assert "Compiled power in" in caplog.text


@pytest.mark.parametrize("write", ["function", "v1 loops", "v2 loops"])
def test_loops_and_conditionals_are_in_the_program(write):
    """A branch that is not taken does not run."""
    strategy = IPUStrategy()

    # A program that another test has compiled would not be compiled again.
    limit = {"function": 4.0, "v1 loops": 4.25, "v2 loops": 4.5}[write]

    def compute(x, n):
        def body(i, y):
            y = tf.cond(tf.reduce_sum(y) > limit, lambda: y - 1.0, lambda: y * 2.0)
            return i + 1, y

        return tf.while_loop(lambda i, _: i < n, body, [tf.constant(0), x])[1]

    expected = np.ones(2)
    for _ in range(5):
        expected = expected - 1 if expected.sum() > limit else expected * 2
    programs = Counter()
    if write == "function":
        result = strategy.run(tf.function(compute), [tf.ones([2]), tf.constant(5)])
    else:
        with tf.Graph().as_default():
            enabled = v1.control_flow_v2_enabled()
            (
                v1.enable_control_flow_v2
                if write[:2] == "v2"
                else v1.disable_control_flow_v2
            )()
            try:
                (x,) = placeholders([2])
                with ipu_scope(IPU):
                    result = compute(x, tf.constant(5))
                with v1.Session() as session:
                    result = session.run(result, {x: [1, 1]})
            finally:
                (v1.enable_control_flow_v2 if enabled else v1.disable_control_flow_v2)()
    np.testing.assert_allclose(result, expected)
    assert programs.new() == 1


@pytest.mark.parametrize("style", ["graph", "function"])
def test_what_cannot_be_compiled_runs_between_two_programs_and_is_named_once(
    style, caplog
):
    """Its values come from the one and go into the other."""

    def compute(x):
        x = tf.tanh(x) + 1.0
        y = tf.py_function(lambda a: a * 2, [x], tf.float32, name=f"host_{style}")
        y.set_shape([3])
        return tf.exp(y) - 1.0

    programs = Counter()
    for _ in range(2):
        if style == "function":
            result = IPUStrategy().run(tf.function(compute), [tf.zeros([3])])
        else:
            with tf.Graph().as_default(), v1.Session() as session:
                (x,) = placeholders([3])
                with ipu_scope(IPU):
                    fetch = compute(x)
                result = session.run(fetch, {x: np.zeros(3)})
        np.testing.assert_allclose(result, [np.exp(2) - 1] * 3, rtol=1e-6)
    assert programs.new() == 2
    named = [line for line in caplog.messages if f"host_{style}" in line]
    assert len(named) <= 1
    for line in named:
        assert "cannot be compiled" in line
        assert "EagerPyFunc" in line


@pytest.mark.parametrize("style", ["graph", "function"])
def test_asserts_are_checked(style):
    """By the executor: XLA would drop them."""

    def compute(x):
        with tf.control_dependencies([tf.debugging.assert_positive(x, "wrong sign")]):
            return tf.tanh(x) * 2.0

    if style == "function":
        with pytest.raises(tf.errors.InvalidArgumentError, match="wrong sign"):
            IPUStrategy().run(tf.function(compute), [tf.constant([-1.0, 2.0])])
        return
    with tf.Graph().as_default(), v1.Session() as session:
        (x,) = placeholders([2])
        with ipu_scope(IPU):
            fetch = compute(x)
        np.testing.assert_allclose(session.run(fetch, {x: [1, 2]}), np.tanh([1, 2]) * 2)
        with pytest.raises(tf.errors.InvalidArgumentError, match="wrong sign"):
            session.run(fetch, {x: [-1, 2]})


@pytest.mark.parametrize("style", ["graph", "function"])
def test_the_executor_runs_op_by_op_if_it_is_asked_to(style):
    """Nothing is compiled."""
    programs = Counter()
    with params.executor_scope("tensorflow"):
        if style == "function":
            result = IPUStrategy().run(
                tf.function(lambda x: tf.tanh(x) + x * 3), [tf.zeros([2])]
            )
        else:
            with tf.Graph().as_default(), v1.Session() as session:
                (x,) = placeholders([2])
                with ipu_scope(IPU):
                    fetch = tf.tanh(x) + x * 3
                result = session.run(fetch, {x: [0, 0]})
    np.testing.assert_array_equal(result, [0, 0])
    assert programs.new() == 0


def test_ops_of_two_jit_scopes_are_two_programs(graph):
    """What is in none is in neither."""
    (x,) = placeholders([3])
    with ipu_scope(IPU):
        with ipu_jit_scope(0):
            y = tf.tanh(x) * 2.0
        with ipu_jit_scope(1):
            z = tf.exp(y) + 1.0
    programs = Counter()
    with v1.Session() as session:
        np.testing.assert_allclose(session.run(z, {x: np.zeros(3)}), [2, 2, 2])
    assert programs.new() == 2


def test_queues_are_called_in_the_program():
    """A function without jit_compile is a program like any other."""
    infeed = IPUInfeedQueue(
        tf.data.Dataset.range(9).map(lambda n: tf.cast(n, tf.float32))
    )
    outfeed = IPUOutfeedQueue()
    strategy = IPUStrategy()
    infeed.initializer  # noqa: B018

    @tf.function
    def one():
        x = infeed._dequeue()
        outfeed.enqueue(x * x + 1.0)

    programs = Counter()
    for _ in range(6):
        strategy.run(one)
    assert programs.new() == 1
    np.testing.assert_allclose(outfeed.dequeue(), np.arange(6.0) ** 2 + 1)
    infeed.deleter  # noqa: B018


def test_a_program_that_must_not_be_compiled_is_refused(graph):
    """no_recompile() counts it as what it is."""
    (x,) = placeholders([3])
    with ipu_scope(IPU):
        y = tf.tanh(x) * 0.53125
    with (
        v1.Session() as session,
        pytest.raises(RecompileError, match="cluster"),
        ipufeed.no_recompile(),
    ):
        session.run(y, {x: [0, 0, 0]})


@pytest.mark.parametrize("style", ["graph", "function"])
def test_precompiling_gives_zeros(style, flags, tmp_path):
    """As of a program of `compile`; the cache folder has it."""
    flags(f"--executable_cache_path={tmp_path}")
    configure(DeviceConnectionType.PRE_COMPILE)
    programs = Counter()
    if style == "function":
        result = IPUStrategy().run(
            tf.function(lambda x: tf.exp(x) + 7), [tf.zeros([2])]
        )
    else:
        with tf.Graph().as_default(), v1.Session() as session:
            (x,) = placeholders([2])
            with ipu_scope(IPU):
                fetch = tf.exp(x) + 7.5
            result = session.run(fetch, {x: [0, 0]})
    np.testing.assert_array_equal(result, [0, 0])
    assert programs.new() == 1
    assert len(list(tmp_path.glob("*.poplar_exec"))) == 1


@pytest.mark.parametrize("style", ["graph", "function"])
def test_without_a_connection_it_is_compiled_and_then_refused(style):
    """The original's words; initialisation, too, is a program."""
    configure(DeviceConnectionType.NEVER)
    programs = Counter()
    refused = pytest.raises(tf.errors.InvalidArgumentError, match="compilation only")
    if style == "function":
        function = tf.function(lambda x: tf.exp(x) + 8)
        with refused:
            IPUStrategy().run(function, [tf.zeros([2])])
    else:
        with tf.Graph().as_default(), v1.Session() as session:
            with ipu_scope(IPU):
                v1.get_variable("v", [3, 5])
            with refused:
                session.run(v1.global_variables_initializer())
    assert programs.new() == 1


def test_a_session_may_stop_and_go_on(graph):
    """partial_run has its feeds one after the other: op by op."""
    x, y = placeholders([], [])
    with ipu_scope(IPU):
        a = tf.tanh(x) + 1.0
        b = a * y
    with v1.Session() as session:
        handle = session.partial_run_setup([a, b], [x, y])
        assert session.partial_run(handle, a, {x: 0.0}) == 1.0
        assert session.partial_run(handle, b, {y: 3.0}) == 3.0


def test_a_variable_without_a_value_is_named(graph):
    """An error, and not zeros."""
    with ipu_scope(IPU):
        variable = v1.get_variable("nothing_yet", [3])
        fetch = tf.tanh(variable) * 2.0
    with v1.Session() as session, pytest.raises(tf.errors.OpError, match="nothing_yet"):
        session.run(fetch)
