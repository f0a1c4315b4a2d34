"""Programs in files: compiled here, called there, by several threads, with their errors.

func --experimental_application_compile_op--> file --embedded_runtime_start--> engine
"""

import os
import threading
import time

import numpy as np
import pytest
import tensorflow as tf
from embedded_programs import X, compiled, configure, ones, queues
from helpers import run_python

from ipufeed.applications import engine
from ipufeed.applications.compiling import experimental_application_compile_op
from ipufeed.applications.runtime import (
    RuntimeContext,
    embedded_runtime_call,
    embedded_runtime_start,
    embedded_runtime_start_and_call,
    embedded_runtime_stop,
)
from ipufeed.device.program import loops
from ipufeed.ops.internal_ops import fifo, print_tensor
from ipufeed.parallel.pipeline.pipeline import pipeline
from ipufeed.process_state import STATE
from ipufeed.queues import IPUInfeedQueue, IPUOutfeedQueue

pytestmark = pytest.mark.usefixtures("clean_system", "engines_end")
v1 = tf.compat.v1


@pytest.fixture
def engines_end():
    yield
    STATE.reset("engines", "provided")


def test_a_call_gives_the_result_of_its_element(tmp_path):
    """More calls than iterations: the loop runs again."""
    path = compiled(tmp_path / "a.poplar_exec", freeze_variables=True)
    context = embedded_runtime_start(str(path), [], "engine")

    for number in range(10):
        y, k = embedded_runtime_call([ones(number), number], context)
        assert y.numpy().tolist() == [0.0, number, 2.0 * number, 3.0 * number]
        assert k.numpy() == number + 1
    assert context.name() == "engine"
    assert context.output_types() == [tf.float32, tf.int32]
    inputs = context.signature().streamed_inputs
    assert [each.shape.element_type for each in inputs] == ["float32", "int32"]
    assert [each.shape.dimensions for each in inputs] == [(4,), ()]
    assert [each.tuple_index for each in inputs] == [0, 1]


def test_a_function_may_return_nothing(tmp_path):
    """Calls return what is enqueued."""
    configure()
    infeed, outfeed = queues(X)

    def application():
        loops.repeat(4, lambda x: outfeed.enqueue(x + 1), [], infeed)

    path = experimental_application_compile_op(
        application, output_path=tmp_path / "a.poplar_exec"
    )
    context = embedded_runtime_start(path, [], "engine")
    (result,) = embedded_runtime_call([ones(2)], context)
    assert result.numpy().tolist() == [3, 3, 3, 3]


def test_nothing_is_compiled_in_the_process_that_calls(tmp_path):
    """The file has the code; it needs neither the Python of the function nor a cache."""
    path = compiled(tmp_path / "a.poplar_exec", freeze_variables=True)
    code = f"""
import numpy as np, ipufeed as ipu
from ipufeed import embedded_runtime
config = ipu.IPUConfig(); config.auto_select_ipus = 1; config.configure_ipu_system()
context = embedded_runtime.embedded_runtime_start({str(path)!r}, [], "there")
x = np.full(4, 2.0, np.float32)
print([each.numpy().tolist() for each in
       embedded_runtime.embedded_runtime_call([x, 7], context)])
print(ipu.executable.stats().compiles, ipu.executable.stats().disk_hits)
"""
    out = run_python(code).stdout.splitlines()

    assert out[-2:] == ["[[0.0, 2.0, 4.0, 6.0], 8]", "0 1"]


def test_the_call_whose_element_fails_an_assertion_gets_the_error(tmp_path):
    """And no other call: the assertion holds back the result of its element."""
    path = tmp_path / "asserts.poplar_exec"
    configure()
    infeed, outfeed = queues(X)

    def body(x):
        late = tf.linalg.matmul(tf.eye(512) * x[0], tf.eye(512))
        tf.debugging.Assert(tf.reduce_all(late >= 0.0), ["not negative"])
        return outfeed.enqueue(x * 2.0)

    experimental_application_compile_op(
        lambda: loops.repeat(1000, body, [], infeed), output_path=str(path)
    )
    context = embedded_runtime_start(str(path), [], "asserts")

    for _ in range(3):
        (result,) = embedded_runtime_call([ones(1.0)], context)
        assert result.numpy().tolist() == [2.0] * 4
        with pytest.raises(tf.errors.InternalError, match="not negative"):
            embedded_runtime_call([ones(-1.0)], context)
        (result,) = embedded_runtime_call([ones(3.0)], context)
        assert result.numpy().tolist() == [6.0] * 4


def test_functions_of_the_host_run_in_the_process_that_calls(tmp_path):
    """It has not imported their modules, which the function's Python would do."""
    path = tmp_path / "host.poplar_exec"
    configure()
    infeed, outfeed = queues(X)

    def body(x):
        with tf.control_dependencies([print_tensor(x, "element")]):
            return outfeed.enqueue(fifo(x, 1))

    experimental_application_compile_op(
        lambda: loops.repeat(3, body, [], infeed), output_path=str(path)
    )
    code = f"""
import numpy as np, ipufeed as ipu
from ipufeed import embedded_runtime
config = ipu.IPUConfig(); config.auto_select_ipus = 1; config.configure_ipu_system()
context = embedded_runtime.embedded_runtime_start({str(path)!r}, [], "there")
for number in range(2):
    x = np.full(4, number + 1, np.float32)
    print(embedded_runtime.embedded_runtime_call([x], context)[0].numpy().tolist())
"""
    done = run_python(code)

    assert done.stdout.splitlines()[-2:] == [str([0.0] * 4), str([1.0] * 4)]
    assert "element: [1. 1. 1. 1.]" in done.stderr
    assert "element: [2. 2. 2. 2.]" in done.stderr


def test_a_stopped_engine_leaves_no_thread(tmp_path, monkeypatch):
    """Also if the reader starts its next stream before the program's end is noted."""
    fail = engine._Engine._fail

    def late(self, program, error):
        time.sleep(0.2)
        fail(self, program, error)

    monkeypatch.setattr(engine._Engine, "_fail", late)
    monkeypatch.setattr(engine, "JOIN_S", 3.0)
    path = compiled(tmp_path / "a.poplar_exec", freeze_variables=True)
    context = embedded_runtime_start(path, [], "stopped")
    embedded_runtime_call([ones(1), 1], context)

    embedded_runtime_stop(context)

    left = [each.name for each in threading.enumerate()]
    assert "ipufeed_engine_stopped" not in left


def test_calls_of_several_threads_get_their_own_results(tmp_path):
    """In whatever order they come."""
    path = compiled(tmp_path / "a.poplar_exec", freeze_variables=True)
    context = embedded_runtime_start(path, [], "engine")
    wrong = []

    def call(thread):
        for number in range(50):
            value = 1000 * thread + number
            y, k = embedded_runtime_call([ones(value), value], context)
            if k.numpy() != value + 1 or y.numpy()[1] != value:
                wrong.append((thread, number))

    threads = [threading.Thread(target=call, args=(each,)) for each in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_variables_that_are_not_frozen_are_given_once(tmp_path):
    """By their names, or in order; a program that assigns to them goes on from there."""
    configure()
    total = tf.Variable(tf.zeros([4]), name="total")
    infeed, outfeed = queues(X)

    def body(x):
        total.assign_add(x)
        return outfeed.enqueue(tf.identity(total))

    path = experimental_application_compile_op(
        lambda: loops.repeat(2, body, [], infeed), output_path=tmp_path / "a"
    )
    by_name = embedded_runtime_start(path, {"total": ones(10)}, "by_name")
    in_order = embedded_runtime_start(path, [ones(20)], "in_order")

    assert [feed.name for feed in by_name.signature().inputs] == ["total"]
    for number in range(1, 6):
        (value,) = embedded_runtime_call([ones()], by_name)
        assert value.numpy().tolist() == [10.0 + number] * 4
    assert embedded_runtime_call([ones()], in_order)[0].numpy()[0] == 21.0
    assert total.numpy().tolist() == [0.0] * 4


def test_arguments_of_the_function_are_given_once(tmp_path):
    """Their values when it is compiled do not matter."""
    configure()
    infeed, outfeed = queues(X)

    def application(bias):
        def body(bias, x):
            return bias, outfeed.enqueue(x + bias)

        return loops.repeat(2, body, [bias], infeed)

    path = experimental_application_compile_op(application, [ones(5)])
    results, context = embedded_runtime_start_and_call(
        path, {"bias": ones(7)}, [ones()], "engine"
    )
    os.unlink(path.numpy())

    assert results[0].numpy().tolist() == [8.0] * 4
    assert isinstance(context, RuntimeContext)


def test_a_lonely_call_of_a_pipeline_gets_its_result():
    """Elements of zeros follow it, whose results are dropped; so it is with replicas."""
    configure(2)
    infeed, outfeed = queues(X)
    weights = tf.Variable([1.0, 2.0, 3.0, 4.0])

    def staged():
        return pipeline(
            [lambda x: x * weights, lambda y: y + 1.0],
            gradient_accumulation_count=4,
            infeed_queue=infeed,
            outfeed_queue=outfeed,
            device_mapping=[0, 1],
        )

    path = experimental_application_compile_op(staged, freeze_variables=True)
    context = embedded_runtime_start(path, [], "staged", timeout=2000)
    for number in range(5):
        (y,) = embedded_runtime_call([ones(number)], context)
        assert y.numpy().tolist() == [1.0 + number * each for each in (1, 2, 3, 4)]
    embedded_runtime_stop(context)

    infeed, outfeed = queues(X)
    path = experimental_application_compile_op(
        lambda: loops.repeat(2, lambda x: outfeed.enqueue(x + 1.0), [], infeed)
    )
    context = embedded_runtime_start(path, [], "copies", timeout=2000)
    for number in range(5):
        assert (
            embedded_runtime_call([ones(number)], context)[0].numpy()[0] == number + 1
        )


def test_what_programs_keep_on_the_host_works_from_a_file():
    """A fifo's state belongs to a run of the program."""
    configure()
    infeed, outfeed = queues(X)
    path = experimental_application_compile_op(
        lambda: loops.repeat(10, lambda x: outfeed.enqueue(fifo(x, 2)), [], infeed)
    )
    context = embedded_runtime_start(path, [], "engine")

    got = [embedded_runtime_call([ones(n)], context)[0].numpy()[0] for n in range(1, 6)]
    assert got == [0.0, 0.0, 1.0, 2.0, 3.0]


def test_an_error_of_the_program_comes_to_the_call_and_the_next_starts_again(tmp_path):
    """With the values that the engine was started with."""
    configure(2)
    total = tf.Variable(tf.zeros([4]), name="total")
    infeed, outfeed = queues(X)

    def body(x):
        total.assign_add(x)
        return outfeed.enqueue(tf.identity(total))

    path = experimental_application_compile_op(
        lambda: loops.repeat(4, body, [], infeed), output_path=tmp_path / "a"
    )
    # Of two replicas: a call that is alone waits for another one for a minute.
    context = embedded_runtime_start(path, [ones()], "engine", timeout=60_000_000)
    raised = []

    def call():
        with pytest.raises(tf.errors.OpError) as caught:
            embedded_runtime_call([ones()], context)
        raised.append(caught.value)

    thread = threading.Thread(target=call)
    thread.start()
    started = engine.find("engine")
    before = started._program
    while not started._waiting[0]:
        time.sleep(0.001)
    before.close()  # what reads the calls' elements fails
    thread.join()
    assert len(raised) == 1

    second = threading.Thread(target=embedded_runtime_call, args=([ones()], context))
    second.start()
    assert embedded_runtime_call([ones()], context)[0].numpy()[0] == 2.0
    second.join()
    assert started._program is not before


def test_a_stopped_engine_is_gone_and_its_name_free(tmp_path):
    """Calls that wait get an error."""
    path = compiled(tmp_path / "a.poplar_exec", freeze_variables=True)
    context = embedded_runtime_start(path, [], "engine")
    embedded_runtime_call([ones(), 1], context)
    embedded_runtime_stop(context)

    with pytest.raises(
        tf.errors.FailedPreconditionError, match="Engine engine does not"
    ):
        embedded_runtime_call([ones(), 1], context)
    context = embedded_runtime_start(path, [], "engine")
    assert embedded_runtime_call([ones(), 1], context)[1].numpy() == 2


def test_an_engine_that_is_there_is_left_as_it_is(tmp_path, caplog):
    """Even if other inputs or another file are named, which is warned of."""
    path = compiled(tmp_path / "a.poplar_exec")
    frozen = compiled(tmp_path / "b.poplar_exec", freeze_variables=True)
    embedded_runtime_start(path, {"weights": ones()}, "engine")
    embedded_runtime_start(path, {"weights": ones()}, "engine")
    assert "left as it is" not in caplog.text
    embedded_runtime_start(frozen, [], "engine")
    assert "left as it is, with its own application" in caplog.text
    context = embedded_runtime_start(path, {"weights": ones(9)}, "engine")
    assert "left as it is, with its own inputs" in caplog.text

    assert embedded_runtime_call([ones(), 1], context)[0].numpy()[0] == 1.0


def test_version_1_graphs_compile_and_call():
    """As operations of a session; variables made in the function are frozen."""
    with tf.Graph().as_default(), v1.Session() as session:
        configure()
        dataset = tf.data.Dataset.from_tensors({"x": tf.zeros([2, 4])}).repeat()
        infeed, outfeed = IPUInfeedQueue(dataset), IPUOutfeedQueue()

        def application(bias):
            def body(bias, x):
                weights = v1.get_variable(
                    "weights",
                    [4, 3],
                    initializer=v1.ones_initializer(),
                    use_resource=True,
                )
                return bias, outfeed.enqueue(tf.matmul(x, weights) + bias)

            return loops.repeat(3, body, [bias], infeed)

        bias = v1.placeholder(tf.float32, [3])
        compile_op = experimental_application_compile_op(
            application, [bias], freeze_variables=True
        )
        (weights,) = v1.global_variables()
        session.run(weights.initializer)
        session.run(weights.assign(tf.fill([4, 3], 2.0)))
        path = session.run(compile_op)
    with tf.Graph().as_default(), v1.Session() as session:
        context = embedded_runtime_start(path, [np.float32([1, 2, 3])], "graph")
        x = v1.placeholder(tf.float32, [2, 4])
        (result,) = embedded_runtime_call([x], context)
        for number in range(5):
            value = session.run(result, {x: np.full([2, 4], number)})
            assert value.tolist() == [[8.0 * number + each for each in (1, 2, 3)]] * 2
    os.unlink(path)
