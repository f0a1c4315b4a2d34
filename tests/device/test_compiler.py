"""What ipu_compiler.compile promises: one program, and results in the requested shape."""

import contextlib
from typing import NamedTuple

import numpy as np
import pytest
import tensorflow as tf
from helpers import run_python

from ipufeed.device.program import compiler, loops, scopes
from ipufeed.errors import PlacementError, RefusedError
from ipufeed.queues import IPUInfeedQueue, IPUOutfeedQueue

v1 = tf.compat.v1


@pytest.fixture
def graph(executor):
    """A version 1 graph; gives what compiles a function with an input of 3.0."""

    def compiled(computation, *inputs):
        with scopes.ipu_scope("/device:IPU:0"):
            return compiler.compile(computation, list(inputs))

    with tf.Graph().as_default():
        yield compiled


def run(fetches):
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        return session.run(fetches)


def three():
    with tf.device("/device:CPU:0"):
        return tf.constant(3.0)


WITHOUT_A_NAME = """
import ipufeed, tensorflow as tf
v1 = tf.compat.v1
config = ipufeed.IPUConfig()
config.auto_select_ipus = [1, 1]
config.configure_ipu_system()
outfeeds = [ipufeed.IPUOutfeedQueue(device_ordinal=ordinal) for ordinal in range(2)]

def program(ordinal):
    def body():
        total = v1.get_variable(
            f"total_{ordinal}", [2], initializer=v1.zeros_initializer(), use_resource=True
        )
        with tf.control_dependencies([total.assign_add([1.0, 1.0])]):
            return outfeeds[ordinal].enqueue(tf.constant(float(ordinal)))

    with ipufeed.scopes.ipu_scope(f"/device:IPU:{ordinal}"):
        return ipufeed.ipu_compiler.compile(lambda: body())

with tf.Graph().as_default():
    programs = [program(ordinal) for ordinal in range(2)]
    results = [each.dequeue() for each in outfeeds]
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        for each in reversed(programs):
            session.run(each)
        print([each.tolist() for each in session.run(results)])
"""


@pytest.mark.process
def test_programs_without_a_name_are_distinguished_from_whole_graphs():
    """The initialisation of variables is one, too: TensorFlow finds functions by name.

    In a process of its own: the first whole graphs have the numbers of the programs.
    """
    done = run_python(WITHOUT_A_NAME)

    assert (done.returncode, done.stdout) == (0, "[[0.0], [1.0]]\n"), done.stderr


def test_a_single_tensor_comes_in_a_list(graph):
    """As Graphcore's does."""
    assert run(graph(lambda x: x + 1, three())) == [4.0]


def test_several_tensors_come_in_a_list(graph):
    """In the order in which they are returned."""
    assert run(graph(lambda x: (x + 1, x * 2), three())) == [4.0, 6.0]


def test_a_structure_comes_back_as_it_is(graph):
    """Dicts and tuples, nested."""
    result = run(graph(lambda x: {"a": x, "b": (x + 1, [x * 2])}, three()))

    assert result == {"a": 3.0, "b": (4.0, [6.0])}


def test_operations_behind_tensors_run_and_are_not_returned(graph):
    """The tensors wait for them."""
    with scopes.ipu_scope("/device:IPU:0"):
        weight = v1.get_variable("weight", initializer=tf.constant(1.0))
    program = graph(lambda x: [x + 1, weight.assign_add(x).op], three())

    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        assert session.run(program) == [4.0]
        assert session.run(weight) == 4.0


@pytest.mark.parametrize("returns", ["operation", "nothing"])
def test_without_tensors_an_operation_comes_back(graph, returns):
    """A session runs it, for its side effects."""
    with scopes.ipu_scope("/device:IPU:0"):
        weight = v1.get_variable("weight", initializer=tf.constant(1.0))

    def computation(x):
        update = weight.assign_add(x).op
        return update if returns == "operation" else None

    program = graph(computation, three())

    assert isinstance(program, tf.Operation)
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        assert session.run(program) is None
        assert session.run(weight) == 4.0


@pytest.mark.parametrize("structured", [False, True])
def test_an_assignment_that_is_not_returned_happens(graph, structured):
    """A program has no ops that do not run; and each run does it once."""

    def computation(x):
        weight = v1.get_variable("weight", [], initializer=v1.ones_initializer())
        weight.assign_add(x)
        return {"double": x * 2} if structured else x * 2

    program = graph(computation, three())

    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        for after in (4.0, 7.0):
            result = session.run(program)
            assert result == ({"double": 6.0} if structured else [6.0])
            assert session.run(v1.global_variables()[0]) == after


def test_a_nested_list_is_many_scalars(graph):
    """Not an array: it is the structure of the argument."""

    def computation(rows):
        assert [len(row) for row in rows] == [2, 2]
        return rows[0][1] * rows[1][0]

    assert run(graph(computation, [[1.0, 2.0], [3.0, 4.0]])) == [6.0]


def test_the_queue_itself_can_be_compiled(graph):
    """`compile(infeed._dequeue, [])` gives the next element in each run."""
    dataset = tf.data.Dataset.range(9).map(lambda n: {"n": tf.cast(n, tf.int32)})
    infeed = IPUInfeedQueue(dataset)
    program = graph(infeed._dequeue)

    with v1.Session() as session:
        session.run(infeed.initializer)
        assert [session.run(program)["n"] for _ in range(3)] == [0, 1, 2]


def test_control_flow_on_values_is_compiled(graph):
    """A condition and its branches are a part of the program."""
    with tf.device("cpu"):
        x = v1.placeholder(tf.float32, [])
    program = graph(lambda x: tf.cond(x > 0, lambda: tf.sqrt(x), lambda: tf.abs(x)), x)

    with v1.Session() as session:
        assert session.run(program, {x: 9.0}) == [3.0]
        assert session.run(program, {x: -9.0}) == [9.0]


def test_the_program_is_on_the_device_of_its_scope(graph):
    """Its results have that device, and so do the variables it makes."""

    def computation(x):
        weight = v1.get_variable("weight", [], initializer=v1.ones_initializer())
        return weight * x

    with scopes.ipu_scope("/device:IPU:3"):
        (result,) = compiler.compile(computation, [three()])

    assert result.device == "/device:IPU:3"
    assert v1.global_variables()[0].device == "/device:IPU:3"
    assert run(result) == 3.0


@pytest.mark.parametrize("device", ["", "/device:CPU:0", "/cpu:0"])
def test_a_program_outside_of_an_ipus_scope_is_refused(graph, device):
    """In the words that programs match, with the remedy."""
    with tf.device(device), pytest.raises(PlacementError) as caught:
        compiler.compile(lambda: tf.constant(1.0))

    assert "not placed on an IPU device" in str(caught.value)
    assert 'with ipu_scope("/device:IPU:0")' in str(caught.value)


def test_in_eager_mode_a_program_outside_of_an_ipus_scope_is_refused_too(executor):
    """Likewise."""
    with pytest.raises(PlacementError, match="not placed on an IPU device"):
        compiler.compile(lambda: tf.constant(1.0))


class EstimatorSpec(NamedTuple):
    """What TensorFlow's estimators returned: a tuple itself."""

    loss: object = None


@pytest.mark.parametrize(
    "results",
    [
        EstimatorSpec(),
        [EstimatorSpec()],
        {"a": (1, [EstimatorSpec(3.0)])},
    ],
)
def test_an_estimator_spec_is_refused(graph, results):
    """Wherever in the results it is, and whatever its fields hold."""
    with pytest.raises(
        ValueError,
        match="Your computation output contains an EstimatorSpec or IPUEstimatorSpec obj",
    ):
        graph(lambda x: results, three())


def devices():
    """The devices of all ops of the graph that are on an IPU."""
    graph = tf.compat.v1.get_default_graph()
    return {op.device for op in graph.get_operations() if "IPU" in op.device}


def in_scope(x):
    with scopes.ipu_scope("/device:IPU:1"):
        return x + 1


def in_a_loop(x):
    def body(x):
        with scopes.ipu_scope("/device:IPU:1"):
            return x + 1

    return loops.repeat(3, body, [x])


@pytest.mark.parametrize(("computation", "result"), [(in_scope, 4.0), (in_a_loop, 6.0)])
def test_the_scope_may_be_in_the_computation(executor, computation, result):
    """What has no device goes to the IPU of what has one."""
    with tf.Graph().as_default():
        program = compiler.compile(computation, [three()])
        assert devices() == {"/device:IPU:1"}
        assert run(program) == [result]
    assert float(compiler.compile(computation, [3.0])[0]) == result


def test_a_plain_device_scope_is_enough(executor):
    """As for any op."""
    with tf.Graph().as_default(), tf.device("/device:IPU:0"):
        assert run(compiler.compile(lambda x: x + 1, [three()])) == [4.0]


def test_what_is_on_an_ipu_already_may_be_compiled(executor):
    """A loss and its update, which were built before."""
    with tf.Graph().as_default():
        with scopes.ipu_scope("/device:IPU:0"):
            weight = v1.get_variable("weight", initializer=tf.constant(2.0))
            loss = weight * 3.0
            with tf.control_dependencies([loss]):
                train = weight.assign_add(1.0).op
        program = compiler.compile(lambda: (loss, train), [])

        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            assert session.run(program) == [6.0]
            assert session.run(weight) == 3.0


def test_errors_of_the_computation_come_first(executor):
    """Whether it is on an IPU is looked at afterwards."""

    def fails(x):
        raise KeyError("mine")

    with tf.Graph().as_default(), pytest.raises(KeyError, match="mine"):
        compiler.compile(fails, [three()])


@pytest.mark.parametrize("count", [1, 3])
def test_a_computation_takes_each_input(executor, count):
    """The error has their number, and Python's own words."""
    inputs = [tf.constant(1.0)] * count
    reason = "required argument: 'y'" if count == 1 else "too many positional arguments"
    with (
        scopes.ipu_scope("/device:IPU:0"),
        pytest.raises(
            TypeError, match=f"`computation` must take .* which are {count}: .*{reason}"
        ),
    ):
        compiler.compile(lambda x, y: x + y, inputs)


def test_inputs_that_are_not_a_list_are_refused(graph):
    """A tensor alone would be taken apart."""
    with (
        scopes.ipu_scope("/device:IPU:0"),
        pytest.raises(TypeError, match="`inputs` must be a list or a tuple, got"),
    ):
        compiler.compile(lambda x: x, three())


@pytest.mark.parametrize("mode", ["graph", "eager"])
@pytest.mark.parametrize("nested", [False, True])
def test_an_input_that_is_not_a_tensor_is_named(executor, mode, nested):
    """TensorFlow's error has the value alone."""
    wrong = {"a": 1.0, "b": object()} if nested else object()
    scope = tf.Graph().as_default() if mode == "graph" else contextlib.nullcontext()
    words = r"`inputs\[1\]` must be a tensor, or a value that converts .* got object"
    with (
        scope,
        scopes.ipu_scope("/device:IPU:0"),
        pytest.raises((TypeError, ValueError), match=words),
    ):
        compiler.compile(lambda x, *_, **__: x, [1.0, wrong])


def test_in_eager_mode_a_program_runs_at_once(executor):
    """With results by the same rules."""
    outfeed = IPUOutfeedQueue()
    with scopes.ipu_scope("/device:IPU:0"):
        single = compiler.compile(lambda x: x + 1, [3.0])
        structure = compiler.compile(lambda x: {"a": x, "b": [x * 2]}, [3.0])
        nothing = compiler.compile(lambda x: outfeed.enqueue(x), [3.0])

    assert [float(x) for x in single] == [4.0]
    assert tf.nest.map_structure(float, structure) == {"a": 3.0, "b": [6.0]}
    assert nothing is None
    np.testing.assert_array_equal(outfeed.dequeue(), [3.0])


def test_inside_a_function_a_program_can_be_compiled(executor):
    """As a part of a tf.function that runs on an IPU."""

    @tf.function
    def function(x):
        with scopes.ipu_scope("/device:IPU:0"):
            return compiler.compile(lambda x: (x + 1, x * 2), [x])

    assert [float(x) for x in function(tf.constant(3.0))] == [4.0, 6.0]


def test_updates_of_keras_3_are_refused_in_a_version_1_program(graph):
    """They would read a momentum before it is assigned; a tf.function orders that."""
    keras = pytest.importorskip("keras")
    with scopes.ipu_scope("/device:IPU:0"):
        weight = tf.Variable(1.0)
    optimizer = keras.optimizers.SGD(0.5, momentum=0.9)
    optimizer.build([weight])

    def net():
        optimizer.apply_gradients([(tf.constant(1.0), weight)])
        return weight.read_value()

    with pytest.raises(RefusedError, match=r"Keras 3 optimizer .*tf.compat.v1.train"):
        graph(net)
    run(graph(tf.function(net)))


def test_an_optimizer_of_keras_3_that_a_loop_makes_is_refused(graph):
    """TensorFlow's error is about the initial value of the optimizer's variable."""
    keras = pytest.importorskip("keras")

    def body(total):
        keras.optimizers.SGD(0.5)
        return total + 1.0

    with pytest.raises(
        RefusedError,
        match=r"is made in a version 1 program, in the body of a loop.*tf\.function",
    ):
        graph(lambda: loops.repeat(3, body, [0.0]))

    def other(total):
        tf.Variable(total)
        return total

    with pytest.raises(ValueError, match="from inside a control-flow"):
        graph(lambda: loops.repeat(3, other, [0.0]))
