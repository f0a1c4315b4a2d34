"""Ctrl-C, SIGTERM and forks while the command measures: the result stays."""

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import children
import pytest
from command_cases import EXIT_FILE, INTERRUPT_LIMIT_S, READY, command_cases
from helpers import DEADLOCK_S

# The first test waits for all cases.
pytestmark = [pytest.mark.process, pytest.mark.timeout(1200)]

case, runs = command_cases()


# Three elements, and then half a minute without one.
SLEEPING = (
    EXIT_FILE
    + f"""
    def rows():
        yield from range(3)
        time.sleep(0.3)  # until they have been counted
        print("{READY}", flush=True)
        time.sleep(30)
        yield 3
    dataset = tf.data.Dataset.from_generator(
        rows, output_signature=tf.TensorSpec([], tf.int32)
    )
    """
)


# ---- Ctrl-C ----

case(
    "interrupted",
    SLEEPING,
    "dataset.py --json result.json",
    interrupt=signal.SIGINT,
)


def test_ctrl_c_gives_the_partial_result_at_once(runs):
    """Exit 130 with what there is, though the generator sleeps on for half a minute."""
    done = runs["interrupted"]

    assert done.code == 130, done.stderr
    assert done.seconds_after_interrupt < INTERRUPT_LIMIT_S
    assert done.elements == 3
    assert "interrupted" in done.warnings
    assert done.result["error"] is None
    assert done.stdout == (done.folder / "result.json").read_text()


def test_ctrl_c_leaves_no_traceback(runs):
    """The user has pressed it, and knows why it ended."""
    stderr = runs["interrupted"].stderr

    assert "Traceback" not in stderr
    assert "KeyboardInterrupt" not in stderr
    assert "The measurement was interrupted after 3 elements." in stderr


def test_what_a_file_registered_for_the_exit_runs_after_ctrl_c(runs):
    """Temporary files go, although the dataset's function never returned."""
    assert (runs["interrupted"].folder / "goodbye").exists()


case(
    "interrupted_before",
    f"""
    import time
    def load(i):
        print("{READY}", flush=True)
        time.sleep(30)
        return i
    dataset = tf.data.Dataset.range(3).map(lambda i: tf.py_function(load, [i], tf.int64))
    dataset = dataset.prefetch(1)
    """,
    interrupt=signal.SIGINT,
)


def test_ctrl_c_before_the_first_element_is_exit_130(runs):
    """Whatever then stands on stdout is a result without an epoch, or nothing."""
    done = runs["interrupted_before"]

    assert done.code == 130, done.stderr
    assert done.seconds_after_interrupt < INTERRUPT_LIMIT_S
    assert done.stdout == "" or done.result["epochs"] == []
    assert "interrupted" in done.stderr
    assert "Traceback" not in done.stderr


case(
    "interrupted_in_the_file",
    f"""
    import time
    print("{READY}", flush=True)
    time.sleep(30)
    """,
    interrupt=signal.SIGINT,
)


def test_ctrl_c_while_the_file_runs_is_exit_130(runs):
    """There is nothing to print by then, and a line says so."""
    done = runs["interrupted_in_the_file"]

    assert (done.code, done.stdout) == (130, "")
    assert done.seconds_after_interrupt < INTERRUPT_LIMIT_S
    assert "ipufeed.benchmark: interrupted before anything was measured." in done.stderr


case(
    "swallowed",
    """
    import contextlib, signal
    from ipufeed.benchmark.cli.progress import ProgressBar

    def show(self, progress):
        if progress.elements:
            ProgressBar.__call__ = lambda *_: None
            with contextlib.suppress(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)
    ProgressBar.__call__ = show
    dataset = tf.data.Dataset.range(1).repeat()
    """,
    "dataset.py --seconds 30 --no-stages",
)


def test_ctrl_c_that_other_code_swallows_ends_the_run(runs):
    """As a destructor does, whose exceptions Python ignores; the next poll sees it."""
    done = runs["swallowed"]

    assert done.code == 130, done.stderr
    assert done.elements > 0
    assert "interrupted" in done.warnings


# ---- Ctrl-C in code that was made from text ----

# As the class that namedtuple() makes is: an import of TensorFlow makes hundreds.
MADE_OF_TEXT = f"""
    import time
    exec("print('{READY}', flush=True); time.sleep(30)")
    """
case("interrupted_in_exec", MADE_OF_TEXT, interrupt=signal.SIGINT)
case("terminated_in_exec", MADE_OF_TEXT, interrupt=signal.SIGTERM)


@pytest.mark.parametrize(
    ("name", "code"), [("interrupted_in_exec", 130), ("terminated_in_exec", 143)]
)
def test_a_signal_in_code_that_was_made_from_text_is_one_like_any_other(
    runs, name, code
):
    """CPython would end by SIGINT for a KeyboardInterrupt that has left such code."""
    done = runs[name]

    assert (done.code, done.stdout) == (code, "")
    assert "ipufeed.benchmark: interrupted before anything was measured." in done.stderr


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)]
)
def test_a_signal_while_tensorflow_is_imported_is_one_like_any_other(
    tmp_path, number, code
):
    """The import, here of a stand-in, runs such code and gets the signal there."""
    (tmp_path / "tensorflow").mkdir()
    (tmp_path / "tensorflow" / "__init__.py").write_text(
        "import os\n"
        f"exec('os.kill(os.getpid(), {int(number)})')\n"
        "raise SystemExit('the signal got lost')\n"
    )
    (tmp_path / "dataset.py").write_text("dataset = None\n")

    done = children.run(
        [sys.executable, "-m", "ipufeed.benchmark", str(tmp_path / "dataset.py")],
        capture_output=True,
        text=True,
        timeout=DEADLOCK_S,
        check=False,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(
                [str(tmp_path), os.environ.get("PYTHONPATH", "")]
            ),
        },
    )

    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    assert "interrupted before anything was measured." in done.stderr


case(
    "terminated",
    SLEEPING,
    interrupt=signal.SIGTERM,
)


def test_sigterm_gives_the_partial_result_at_once(runs):
    """As a scheduler ends a job: exit 143 with what there is, and no traceback."""
    done = runs["terminated"]

    assert done.code == 143, done.stderr
    assert done.seconds_after_interrupt < INTERRUPT_LIMIT_S
    assert done.elements == 3
    assert "interrupted" in done.warnings
    assert "Traceback" not in done.stderr
    assert (done.folder / "goodbye").exists()


case(
    "forks",
    """
    import os, signal, time
    there, here = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(here, b"!")
        time.sleep(30)
        os._exit(0)
    os.read(there, 1)  # a signal that comes during the fork is lost
    os.kill(child, signal.SIGTERM)
    print("child:", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    dataset = tf.data.Dataset.range(3)
    """,
)


def test_a_process_that_a_file_forks_can_be_terminated(runs):
    """A worker ends by the signal, as it would under `python dataset.py`."""
    done = runs["forks"]

    assert done.code == 0, done.stderr
    assert f"child: -{int(signal.SIGTERM)}" in done.stderr
    assert "Traceback" not in done.stderr


# ---- Ctrl-C, twice ----


def wait_for_thread(process, name):
    """Waits until a process has a thread with that in its name."""
    deadline = time.monotonic() + DEADLOCK_S
    while time.monotonic() < deadline:
        for thread in pathlib.Path(f"/proc/{process}/task").iterdir():
            with contextlib.suppress(OSError):  # it has ended
                if name in (thread / "comm").read_text():
                    return
        time.sleep(0.05)
    raise TimeoutError(f"no thread {name}")


@pytest.mark.parametrize("apart_s", [0.0, 0.01, 0.05, 0.2])
def test_a_second_ctrl_c_does_not_lose_the_result(tmp_path, apart_s):
    """However soon it comes: exit 130, the partial JSON, and no traceback."""
    file = tmp_path / "dataset.py"
    file.write_text(
        "import tensorflow as tf\n"
        "from tensorflow.python.data.experimental.ops import testing\n"
        "dataset = tf.data.Dataset.range(1).repeat().apply(testing.sleep(5000))\n"
    )
    kept = tmp_path / "stderr"
    with (
        kept.open("w") as stderr,
        children.Popen(
            [sys.executable, "-m", "ipufeed.benchmark", str(file), "--seconds", "60"],
            stdout=subprocess.PIPE,
            stderr=stderr,
        ) as process,
    ):
        wait_for_thread(process.pid, "ipufeed")
        time.sleep(2)  # some of the measurement
        process.send_signal(signal.SIGINT)
        time.sleep(apart_s)
        process.send_signal(signal.SIGINT)
        stdout, _ = process.communicate(timeout=DEADLOCK_S)

    assert process.returncode == 130, kept.read_text()
    assert "Traceback" not in kept.read_text()
    assert json.loads(stdout)["epochs"][0]["elements_processed"] > 0
