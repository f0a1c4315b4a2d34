"""What else goes on in a process with an engine: other programs, forks, its end."""

import subprocess
import sys
import threading

import pytest
import tensorflow as tf
from embedded_programs import compiled, configure, ones
from helpers import DEADLOCK_S, ROOT, run_python

from ipufeed import ending
from ipufeed.applications.exporting import export_single_step
from ipufeed.applications.runtime import embedded_runtime_call, embedded_runtime_start
from ipufeed.device.program.strategy import IPUStrategy
from ipufeed.process_state import STATE
from ipufeed.queues import IPUOutfeedQueue

pytestmark = [pytest.mark.usefixtures("clean_system", "engines_end"), pytest.mark.long]


@pytest.fixture
def engines_end():
    yield
    STATE.reset("engines", "provided")


def in_time(function):
    """What a function returns on a thread of its own; None if it hangs."""
    found = []
    thread = threading.Thread(target=lambda: found.append(function()), daemon=True)
    thread.start()
    thread.join(DEADLOCK_S)
    return found[0] if found else None


@pytest.mark.parametrize("mode", ["all", "next"])
def test_readers_of_other_queues_do_not_wait_for_an_engine(tmp_path, mode):
    """The engine's program runs until it is stopped; the queue's own has ended.

    Read on the thread that ran the program: only there does a reader wait.
    """
    path = compiled(tmp_path / "a.poplar_exec", freeze_variables=True)
    context = embedded_runtime_start(str(path), [], "engine")
    embedded_runtime_call([ones(), 1], context)
    outfeed = IPUOutfeedQueue()

    @tf.function(jit_compile=True)
    def program(x):
        outfeed.enqueue(2.0 * x)

    strategy = IPUStrategy()
    with strategy.scope():
        strategy.run(program, [3.0])
    if mode == "all":
        found = outfeed.dequeue().numpy().tolist()
    else:
        found = [each.numpy() for each in outfeed]

    assert found == [6.0]
    y, _ = embedded_runtime_call([ones(5.0), 1], context)
    assert y.numpy()[1] == 5.0


CALLING = """
import os, threading
import numpy as np
from ipufeed.applications.runtime import embedded_runtime_call, embedded_runtime_start
context = embedded_runtime_start({path!r}, [], "engine")
element = [np.ones(4, np.float32), 1]
embedded_runtime_call(element, context)
"""
FORKS = """
child = os.fork()
if child == 0:
    try:
        embedded_runtime_call(element, context)
    except Exception as error:
        print(type(error).__name__, "spawn" in str(error), flush=True)
    os._exit(0)
os.waitpid(child, 0)
print(embedded_runtime_call(element, context)[1].numpy())
"""
ENDS = """
called = threading.Event()
def call():
    while True:
        embedded_runtime_call(element, context)
        called.set()
for _ in range(4):
    threading.Thread(target=call, daemon=True).start()
called.wait(60)
print("ends")
"""


@pytest.mark.process
def test_a_fork_of_an_engines_process_gets_an_error(tmp_path):
    """At once, and the engine goes on in its own process."""
    path = compiled(tmp_path / "a.poplar_exec", freeze_variables=True)

    done = run_python(CALLING.format(path=str(path)) + FORKS)

    assert done.stdout.splitlines() == ["FailedPreconditionError True", "2"], (
        done.stderr
    )


@pytest.mark.process
def test_threads_that_call_leave_without_an_error_when_the_process_ends(tmp_path):
    """Daemon threads; what the end cancels is not an error of theirs."""
    path = compiled(tmp_path / "a.poplar_exec", freeze_variables=True)

    done = run_python(CALLING.format(path=str(path)) + ENDS)

    assert (done.returncode, done.stdout) == (0, "ends\n")
    assert "Traceback" not in done.stderr


SERVES = """
import sys
import tensorflow as tf
model = tf.saved_model.load(sys.argv[1])
print(model.signatures["serving_default"](x=tf.ones([3]))["output_0"].numpy().tolist())
"""


@pytest.mark.process
def test_a_served_model_is_called_in_a_program_that_only_loads_it(tmp_path):
    """`python -m ipufeed.run` prepares what a SavedModel calls, with no name used."""
    configure()
    spec = [tf.TensorSpec([3], tf.float32, name="x")]
    export_single_step(lambda x: 3.0 * x, str(tmp_path / "model"), 4, spec)
    program = tmp_path / "serve.py"
    program.write_text(SERVES)

    done = subprocess.run(
        [sys.executable, "-m", "ipufeed.run", str(program), str(tmp_path / "model")],
        capture_output=True,
        text=True,
        timeout=DEADLOCK_S,
        cwd=ROOT,
        check=False,
    )

    assert done.stdout.splitlines()[-1:] == ["[3.0, 3.0, 3.0]"], done.stderr


def test_a_call_of_another_shape_is_refused_and_the_next_gets_its_own_result(tmp_path):
    """A SavedModel's function does not know the sizes of its inputs."""
    configure()
    spec = [tf.TensorSpec([3], tf.float32, name="x")]
    export_single_step(lambda x: 3.0 * x, str(tmp_path / "model"), 4, spec)
    model = tf.saved_model.load(str(tmp_path / "model"))
    serve = model.signatures["serving_default"]

    for wrong in (4, 1):
        with pytest.raises(
            tf.errors.InvalidArgumentError, match=rf"shape \[3\], got \[{wrong}\]"
        ):
            serve(x=tf.ones([wrong]))
        found = in_time(lambda: serve(x=tf.fill([3], 5.0))["output_0"].numpy().tolist())
        assert found == [15.0, 15.0, 15.0]
    tf.saved_model.save(model, str(tmp_path / "again"), signatures=model.signatures)
    again = tf.saved_model.load(str(tmp_path / "again"))
    found = in_time(lambda: again.signatures["serving_default"](x=tf.ones([3])))
    assert found["output_0"].numpy().tolist() == [3.0, 3.0, 3.0]


def test_a_thread_that_leaves_at_the_end_frees_its_variables_silently():
    """Python would print what their `__del__` raises."""
    called, left = [], []
    execute = ending._refusing(lambda *arguments: called.append(arguments))

    def leave():
        try:
            left.append(execute(None, "DestroyResourceOp", None, "handle"))
            left.append(execute(None, "/device:CPU:0", "DeleteIterator", []))
            execute(None, "AddV2", None, 1.0, 2.0)
        except BaseException as error:
            left.append(type(error))

    thread = threading.Thread(target=leave, daemon=True)
    thread.start()
    thread.join()
    execute(None, "AddV2", None, 1.0, 2.0)

    assert left == [None, None, SystemExit]
    assert len(called) == 1  # that of a thread that Python waits for
