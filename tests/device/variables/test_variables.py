"""Where and when variables of version 1 programs get their first values."""

import numpy as np
import pytest
import tensorflow as tf

from ipufeed.device.program import compiler
from ipufeed.device.program.executor import executor_scope
from ipufeed.device.program.scopes import ipu_scope
from ipufeed.device.program.variables import move_variable_initialization_to_cpu

v1 = tf.compat.v1


def devices_of(operation):
    """The devices of an operation and of all it needs, by name."""
    found, waiting = {}, [operation]
    while waiting:
        op = waiting.pop()
        if op.name not in found:
            found[op.name] = op.device
            waiting += [tensor.op for tensor in op.inputs]
            waiting += op.control_inputs
    return found


@pytest.fixture
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


@pytest.mark.parametrize(
    "initializer",
    [
        v1.glorot_uniform_initializer(seed=1),
        v1.truncated_normal_initializer(seed=1),
        v1.constant_initializer(3.0),
        v1.zeros_initializer(),
        v1.orthogonal_initializer(seed=1),
    ],
    ids=lambda each: type(each).__name__,
)
def test_an_initial_value_is_made_on_the_cpu(graph, initializer):
    """All ops that make it; the variable itself stays on the IPU and can be trained."""
    with ipu_scope("/device:IPU:0"):
        weight = v1.get_variable("weight", [4, 4], initializer=initializer)
        (doubled,) = compiler.compile(lambda: weight.assign(weight * 2).read_value())
    move_variable_initialization_to_cpu()

    devices = devices_of(weight.initializer.inputs[1].op)
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        before, after = session.run(weight), session.run(doubled)

    assert set(devices.values()) == {"/device:CPU:0"}
    assert weight.device == "/device:IPU:0"
    assert before.shape == (4, 4)
    assert (after == before * 2).all()


def test_a_value_that_depends_on_another_variable_stays_next_to_it(graph):
    """The other variable, and what reads it, are not moved off their IPU."""
    with ipu_scope("/device:IPU:0"):
        first = v1.get_variable("first", initializer=tf.constant(2.0))
        second = v1.get_variable("second", initializer=first.read_value() + 1)
    move_variable_initialization_to_cpu()

    with v1.Session() as session:
        session.run(first.initializer)
        session.run(second.initializer)
        assert session.run(second) == 3.0
    assert first.device == second.device == "/device:IPU:0"


def test_optimizer_slots_are_moved_too(graph):
    """Whatever global_variables() has, as it is when the function is called."""
    with ipu_scope("/device:IPU:0"):
        weight = v1.get_variable("weight", [2], initializer=v1.ones_initializer())
        optimizer = v1.train.AdamOptimizer(0.1)

        def step():
            return optimizer.minimize(tf.reduce_sum(weight * weight))

        train = compiler.compile(step)
    move_variable_initialization_to_cpu(graph)

    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        session.run(train)
        trained = session.run(weight)
    assert {v.initializer.inputs[1].op.device for v in v1.global_variables()} == {
        "/device:CPU:0"
    }
    assert trained == pytest.approx([0.9, 0.9], abs=1e-3)


def test_the_graph_can_be_given(graph):
    """Another one than the default is moved, and the default is not."""
    with ipu_scope("/device:IPU:0"):
        kept = v1.get_variable("kept", initializer=tf.constant(1.0))
    with tf.Graph().as_default() as other, ipu_scope("/device:IPU:0"):
        moved = v1.get_variable("moved", initializer=tf.constant(1.0))

    move_variable_initialization_to_cpu(other)

    assert moved.initializer.inputs[1].op.device == "/device:CPU:0"
    assert kept.initializer.inputs[1].op.device == "/device:IPU:0"


def test_eager_mode_has_no_graph_to_change():
    """It says why, and what happens there instead."""
    with pytest.raises(
        RuntimeError, match="variables are initialized as they are made"
    ):
        move_variable_initialization_to_cpu()


@pytest.mark.parametrize("executor", ["xla", "tensorflow"])
@pytest.mark.parametrize(
    "collections", [[], ["local_variables"]], ids=["none", "local"]
)
def test_a_run_initializes_no_variable_that_the_program_makes(
    graph, executor, collections
):
    """In whichever collection it is, and with all that its first value needs."""
    calls = []

    def first_value():
        calls.append(1)
        return np.float32(10)

    def net():
        with tf.init_scope(), tf.device("cpu"):
            value = tf.numpy_function(first_value, [], tf.float32)
            value.set_shape([])
        count = v1.get_variable(
            "count", initializer=value, use_resource=True, collections=collections
        )
        counts.append(count)
        with tf.control_dependencies([count.assign_add(1.0)]):
            return count.read_value()

    counts = []
    with executor_scope(executor), v1.Session() as session:
        with tf.device("/device:IPU:0"):
            program = compiler.compile(net)
        session.run(counts[0].initializer)
        results = [session.run(program)[0] for _ in range(3)]

    assert results == [11, 12, 13]
    assert calls == [1]


def test_initializers_are_moved_in_a_graph():
    with pytest.raises(TypeError, match=r"`graph` must be a tf.Graph, or None .*int"):
        move_variable_initialization_to_cpu(3)
