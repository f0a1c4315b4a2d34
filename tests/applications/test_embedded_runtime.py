"""Programs in files: compiled here, called there, by several threads, with their errors.

func --experimental_application_compile_op--> file --embedded_runtime_start--> engine
"""

import os
import threading
import time

import numpy as np
import pytest
import tensorflow as tf
from helpers import run_python

import ipufeed
from ipufeed.applications import engine, file
from ipufeed.applications.compiling import experimental_application_compile_op
from ipufeed.applications.runtime import (
    RuntimeContext,
    embedded_runtime_call,
    embedded_runtime_start,
    embedded_runtime_start_and_call,
    embedded_runtime_stop,
)
from ipufeed.device.config.config import IPUConfig
from ipufeed.device.program import loops
from ipufeed.executable import __main__ as commands
from ipufeed.ops.internal_ops import fifo
from ipufeed.parallel.pipeline.pipeline import pipeline
from ipufeed.process_state import STATE
from ipufeed.queues import IPUInfeedQueue, IPUOutfeedQueue
from ipufeed.queues.outfeed import IPUOutfeedMode

pytestmark = pytest.mark.usefixtures("clean_system", "engines_end")
v1 = tf.compat.v1
X = tf.TensorSpec([4], tf.float32)


@pytest.fixture
def engines_end():
    yield
    STATE.reset("engines", "provided")


def configure(ipus=1):
    config = IPUConfig()
    config.auto_select_ipus = ipus
    config.configure_ipu_system()


def queues(*specs):
    """An infeed of elements of these specs, and an outfeed."""
    element = tuple(tf.zeros(spec.shape, spec.dtype) for spec in specs)
    dataset = tf.data.Dataset.from_tensors(element).repeat()
    return IPUInfeedQueue(dataset), IPUOutfeedQueue()


def scaled(weights, iterations=3):
    """A function that gives the elements times the weights, and a count plus 1."""
    infeed, outfeed = queues(X, tf.TensorSpec([], tf.int32))

    def body(x, k):
        return outfeed.enqueue((x * weights, k + 1))

    return lambda: loops.repeat(iterations, body, [], infeed)


def compiled(path, **options):
    configure()
    weights = tf.Variable([0.0, 1.0, 2.0, 3.0], name="weights")
    experimental_application_compile_op(scaled(weights), output_path=path, **options)
    return path


def ones(factor=1.0):
    return np.full(4, factor, np.float32)


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


def test_an_engine_that_is_there_is_left_as_it_is(tmp_path):
    """Even if another file is named."""
    path = compiled(tmp_path / "a.poplar_exec")
    embedded_runtime_start(path, {"weights": ones()}, "engine")
    context = embedded_runtime_start(path, {"weights": ones(9)}, "engine")

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


# ---- What is refused


@pytest.mark.parametrize(
    ("inputs", "error", "words"),
    [
        ({"w": 1}, ValueError, "Failed to find input tensor with name 'weights'"),
        ([], ValueError, "runtime expects 1 inputs, but 0 were provided"),
        ("x", TypeError, "Expected the inputs to be a list"),
        ([np.zeros(4)], TypeError, "dtype at position 0 .'weights'.. Expected float32"),
        ([ones()[:2]], ValueError, "Mismatched input shape at position 0 .'weights'."),
    ],
)
def test_inputs_that_do_not_fit_the_start(tmp_path, inputs, error, words):
    """Each error names the input and what is expected."""
    path = compiled(tmp_path / "a.poplar_exec")
    with pytest.raises(error, match=words):
        embedded_runtime_start(path, inputs, "engine")
    assert not engine.exists("engine")


@pytest.mark.parametrize(
    ("inputs", "error", "words"),
    [
        ([ones()], ValueError, "call expects 2 inputs, but 1 were provided"),
        ({"x": 1}, TypeError, "Expected the inputs to be a list"),
        ([ones(), 1.5], TypeError, "Cannot convert 1.5"),
        ([ones().astype(int), 1], TypeError, "dtype at position 0"),
        ([ones()[:2], 1], ValueError, r"Expected \[4\], but input 0 has shape \(2,\)"),
    ],
)
def test_inputs_that_do_not_fit_a_call(tmp_path, inputs, error, words):
    """And the engine goes on."""
    path = compiled(tmp_path / "a.poplar_exec", freeze_variables=True)
    context = embedded_runtime_start(path, [], "engine")
    with pytest.raises(error, match=words):
        embedded_runtime_call(inputs, context)
    assert embedded_runtime_call([ones(), 1], context)[1].numpy() == 2


def test_damaged_and_foreign_files_are_refused(tmp_path, monkeypatch):
    """By their checksums, and by the version of TensorFlow that wrote them."""
    path = compiled(tmp_path / "a.poplar_exec", freeze_variables=True)
    data = path.read_bytes()
    for at in (len(data) - 1, len(data) // 2, 60):
        changed = bytearray(data)
        changed[at] ^= 1
        path.write_bytes(changed)
        with pytest.raises(tf.errors.InvalidArgumentError, match="checksum"):
            embedded_runtime_start(path, [], "engine")
    path.write_bytes(data)
    path.chmod(0o666)
    with pytest.raises(tf.errors.PermissionDeniedError, match="every user"):
        embedded_runtime_start(path, [], "engine")
    path.chmod(0o600)
    with pytest.raises(tf.errors.NotFoundError, match="There is no application file"):
        embedded_runtime_start(tmp_path / "none", [], "engine")
    monkeypatch.setattr(tf.version, "VERSION", "9.8.7")
    with pytest.raises(
        tf.errors.InvalidArgumentError,
        match=r"TensorFlow version mismatch. Runtime version is 9.8, executable version "
        r"is 2\.",
    ):
        file.read(path)


def test_what_a_file_cannot_hold_is_refused_when_it_is_traced():
    """Before anything is compiled."""
    configure()
    infeed, _ = queues(X)
    last = IPUOutfeedQueue(IPUOutfeedMode.LAST)
    table = tf.lookup.experimental.MutableHashTable(tf.int64, tf.float32, 0.0)
    cases = {
        "must have the mode ALL": lambda: loops.repeat(
            2, lambda x: last.enqueue(x), [], infeed
        ),
        "only variables and queues": lambda: table.size(),
    }
    before = ipufeed.executable.stats().compiles
    for words, function in cases.items():
        with pytest.raises(ValueError, match=words):
            experimental_application_compile_op(function)
    with pytest.raises(TypeError, match="`func` must be a function"):
        experimental_application_compile_op(3)
    with pytest.raises(ValueError, match="must be in a folder that is there"):
        experimental_application_compile_op(len, output_path="/nowhere/at/all")
    assert ipufeed.executable.stats().compiles == before


def test_the_commands_of_the_cache_read_application_files(tmp_path, capsys):
    """They have its format."""
    path = compiled(tmp_path / "a.poplar_exec", freeze_variables=True)

    assert commands.main(["show", str(path)]) == 0
    assert "ipufeed_application" in capsys.readouterr().out
