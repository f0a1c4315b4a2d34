"""What Ctrl-C leaves: the result up to then, with a message on its gaps.

The command's own cases are in test_command.py; here are those that come after the
measurement, and several signals.
"""

import json
import os
import signal
import subprocess
import sys
import time

import children
import pytest
import tensorflow as tf
from helpers import DEADLOCK_S

from ipufeed.benchmark import Settings, measure
from ipufeed.benchmark.advice import with_stages
from ipufeed.benchmark.device import measure as through
from ipufeed.benchmark.device.settings import DeviceSettings
from ipufeed.benchmark.measuring import measure as measurement
from ipufeed.benchmark.process.interrupts import (
    PATIENCE_S,
    Interruption,
    Interrupts,
)
from ipufeed.errors import MeasurementInterrupted

FILE = """
import sys, time
import tensorflow as tf

def rows():
    for number in range(10**9):
        time.sleep(0.005)
        if number == 60:
            print("READY", file=sys.stderr, flush=True)
        yield number

dataset = tf.data.Dataset.from_generator(
    rows, output_signature=tf.TensorSpec([], tf.int64)
)
"""


@pytest.fixture(scope="module")
def measured():
    """A dataset that sleeps, and its result."""
    dataset = tf.data.Dataset.range(10**9).map(slow, name="slow")
    return dataset, measure(dataset, Settings(seconds=1))


def slow(x):
    """2 ms."""
    (y,) = tf.numpy_function(lambda v: (time.sleep(0.002), v)[1:], [x], [tf.int64])
    return tf.ensure_shape(y, [])


def interrupted(*arguments, **more):
    """Stands for what Ctrl-C ends."""
    raise KeyboardInterrupt


def test_ctrl_c_while_stages_are_measured_leaves_the_rate_and_a_note(
    measured, monkeypatch
):
    """The measurement is whole; the warning says that it is, and what is not."""
    dataset, result = measured
    monkeypatch.setattr(with_stages, "explain", interrupted)

    with pytest.raises(MeasurementInterrupted) as caught:
        with_stages.with_stages(result, dataset)

    left = caught.value.result
    assert left.steady == result.steady
    assert left.stages is None
    assert left.warnings[0] == {
        "code": "interrupted",
        "message": "Interrupted after the measurement: the rate is that of the whole run, "
        "and stages and advice were not finished.",
    }
    assert left.warnings[1:] == result.warnings


def test_ctrl_c_while_advice_is_tried_leaves_the_stages(measured, monkeypatch):
    """What was not tried says so."""
    dataset, result = measured
    monkeypatch.setattr(with_stages, "verify", interrupted)

    with pytest.raises(MeasurementInterrupted) as caught:
        with_stages.with_stages(result, dataset, verified=True, what_if=["slow=2x"])

    left = caught.value.result
    assert left.stages[0]["name"] == "slow"
    assert len(left.what_if) == 1
    assert {advice["note"] for advice in left.advice} == {"not tried: interrupted"}
    assert "not all advice was tried" in left.warnings[0]["message"]


def test_ctrl_c_in_the_calibration_leaves_the_rate_and_a_note(measured, monkeypatch):
    """The harness is looked at when the measurement is over."""
    dataset, _ = measured
    monkeypatch.setattr(measurement, "calibrate", interrupted)

    with pytest.raises(MeasurementInterrupted) as caught:
        measure(dataset, Settings(elements=20, epochs=1))

    left = caught.value.result
    assert left.elements == 20
    assert left.warnings[0]["code"] == "interrupted"
    assert "the harness's own cost is not known" in left.warnings[0]["message"]


def test_ctrl_c_in_the_sweep_for_the_knee_is_not_laid_on_the_dataset(monkeypatch):
    """It never ends; the utilisation is that of the whole run."""
    monkeypatch.setattr(through, "sweep_knee", interrupted)
    dataset = tf.data.Dataset.from_tensors(tf.zeros([4])).repeat()
    device = DeviceSettings(step_seconds=0.005, knee=True)

    with pytest.raises(MeasurementInterrupted) as caught:
        through.measure_through(dataset, Settings(seconds=0.5), device=device)

    left = caught.value.result
    codes = [warning["code"] for warning in left.warnings]
    assert left.device["au"] > 0
    assert codes[0] == "interrupted"
    assert "the knee included, were not finished" in left.warnings[0]["message"]
    assert "knee_cut_short" not in codes


@pytest.mark.process
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_two_signals_at_once_lose_nothing(tmp_path, number):
    """A second Ctrl-C ends the run at once, and the user still gets what there is."""
    (tmp_path / "dataset.py").write_text(FILE)
    process = children.Popen(
        [sys.executable, "-m", "ipufeed.benchmark", str(tmp_path / "dataset.py")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ,
    )
    with process:
        assert any("READY" in line for line in process.stderr)
        for _ in range(3):
            process.send_signal(number)
            time.sleep(0.1)
        stdout, stderr = process.communicate(timeout=DEADLOCK_S)

    assert process.returncode == 128 + number, stderr
    assert json.loads(stdout)["steady"] is not None
    assert "The measurement was interrupted after" in stderr
    assert "Traceback" not in stderr


def test_the_first_signal_interrupts_and_others_at_once_change_nothing():
    """Its number makes the exit code."""
    interrupts = Interrupts()

    with pytest.raises(Interruption):
        interrupts._on_signal(signal.SIGTERM, None)
    interrupts._on_signal(signal.SIGINT, None)

    assert interrupts.arrived
    assert interrupts.code == 143


def test_a_signal_while_the_result_is_printed_waits_for_that():
    """It would lose what was measured; the exit code shows it."""
    interrupts = Interrupts()
    interrupts.held = True

    interrupts._on_signal(signal.SIGINT, None)

    assert interrupts.arrived
    assert interrupts.code == 130


def test_a_signal_long_after_the_first_ends_the_process(monkeypatch):
    """Nothing hangs, whatever the first one waits for."""
    interrupts = Interrupts()
    ended = []
    monkeypatch.setattr("os._exit", ended.append)
    with pytest.raises(Interruption):
        interrupts._on_signal(signal.SIGINT, None)
    interrupts._since -= PATIENCE_S + 1

    interrupts._on_signal(signal.SIGTERM, None)

    assert ended == [130]


@pytest.mark.process
@pytest.mark.parametrize(
    "made_of_it",
    ["raise ImportError('initialization failed')", "raise SystemExit(3)", "pass"],
    ids=["ImportError", "SystemExit", "nothing"],
)
@pytest.mark.parametrize("place", ["tensorflow/__init__.py", "dataset.py"])
def test_a_signal_ends_an_import_whatever_that_makes_of_it(tmp_path, place, made_of_it):
    """An extension's init turns it into an ImportError; a library may even drop it."""
    (tmp_path / "tensorflow").mkdir()
    (tmp_path / "dataset.py").write_text("dataset = None\n")
    (tmp_path / place).write_text(
        "import os, signal\n"
        "try:\n    os.kill(os.getpid(), signal.SIGINT)\n"
        f"except BaseException:\n    {made_of_it}\n"
    )
    paths = [os.environ.get("PYTHONPATH", "")]
    if place != "dataset.py":
        paths.insert(0, str(tmp_path))

    done = children.run(
        [sys.executable, "-m", "ipufeed.benchmark", str(tmp_path / "dataset.py")],
        capture_output=True,
        text=True,
        timeout=DEADLOCK_S,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
    )

    assert (done.returncode, done.stdout) == (130, ""), done.stderr
    assert "interrupted before anything was measured." in done.stderr
    assert "ipufeed.benchmark: " in done.stderr


@pytest.fixture
def handler_of_children():
    """Installs a handler for ended children, and takes it back."""
    before = signal.getsignal(signal.SIGCHLD)
    yield lambda handler: signal.signal(signal.SIGCHLD, handler)
    signal.signal(signal.SIGCHLD, before)


def test_a_handler_for_ended_children_is_called_and_its_error_held(handler_of_children):
    """As torch's for a worker that was killed: it would raise on the main thread."""
    calls = []

    def handler(number, frame):
        calls.append(number)
        raise RuntimeError("DataLoader worker is killed by signal")

    handler_of_children(handler)
    Interrupts().hold_errors_of_children()
    signal.raise_signal(signal.SIGCHLD)

    assert calls == [signal.SIGCHLD]


def test_without_a_handler_for_ended_children_there_is_none(handler_of_children):
    handler_of_children(signal.SIG_DFL)
    Interrupts().hold_errors_of_children()

    assert signal.getsignal(signal.SIGCHLD) is signal.SIG_DFL
