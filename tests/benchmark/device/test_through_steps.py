"""What a run with a step time promises: whose time it was, and no hang."""

import dataclasses
import json
import signal
import subprocess
import sys
import threading

import children
import pytest
import tensorflow as tf
from helpers import DEADLOCK_S, sleeping

from ipufeed.benchmark import Settings
from ipufeed.benchmark.device.measure import measure_through
from ipufeed.benchmark.device.settings import DeviceSettings
from ipufeed.benchmark.report.summary import summarize
from ipufeed.queues import set_outfeed_limit

pytestmark = pytest.mark.long


def images(count=-1):
    """There at once: 4 images of 8 x 8 bytes."""
    return tf.data.Dataset.from_tensors(tf.zeros([4, 8, 8], tf.uint8)).repeat(count)


def slow(seconds):
    return sleeping(seconds).map(lambda number: tf.cast(number, tf.int32))


def run(dataset, seconds=0.5, **device):
    return measure_through(
        dataset, Settings(seconds=seconds), device=DeviceSettings(**device)
    )


@pytest.fixture(scope="module")
def starved():
    """A source of 8 ms for a device of 4 ms."""
    return run(slow(8e-3), 1.0, step_seconds=4e-3)


def codes(result):
    return {warning["code"] for warning in result.warnings}


@pytest.mark.measured
def test_a_source_slower_than_the_device_starves_it(starved):
    """Half of the time is computed in: no sleep is shorter than it should be.

    A little more is possible, by elements that were read before the first step.
    """
    device = starved.device

    assert device["verdict"] == "host-bound"
    assert 0 < device["au"] < 0.6
    assert device["starved_steps_share"] > 0.9
    assert device["period_seconds"] >= 8e-3
    assert starved.links["slowest"] == "dataset"
    assert "host-bound: the device waits for the pipeline" in summarize(starved)


def test_the_fractions_are_all_of_the_time(starved):
    """Computed, starved, blocked, overhead."""
    device = starved.device
    shares = ("au", "starved_time_share", "blocked_time_share", "overhead_time_share")

    assert sum(device[name] for name in shares) == pytest.approx(1)
    assert device["steps"] == starved.steady["elements"]
    assert device["seconds"] == pytest.approx(starved.steady["seconds"])


def test_the_settings_have_what_was_requested(starved):
    """With the step time, in strict JSON."""
    result = json.loads(starved.to_json())

    assert result["settings"]["step_seconds"] == 4e-3
    assert result["settings"]["through"] == "device"
    assert result["device"]["preset"] is None
    assert result["device"]["knee"] is None
    assert result["device"]["queue_depth"][0]["infeed"] >= 0


def test_the_summary_names_the_verdict_on_80_columns(starved, monkeypatch):
    """And from which step time on the pipeline would do."""
    monkeypatch.setattr("ipufeed.render.terminal.columns", lambda stream: 80)
    lines = summarize(starved).splitlines()
    text = "\n".join(lines)

    assert max(map(len, lines)) < 80
    assert "with steps of 4 ms" in text
    for label in ("utilisation (AU)", "starved", "overhead", "starves below"):
        assert any(line.startswith(f"  {label}  ") for line in lines), label


@pytest.mark.measured
def test_a_source_that_is_there_keeps_the_device_busy():
    """Whatever other load the machine has, nothing starves."""
    device = run(images(), step_seconds=20e-3).device

    assert device["verdict"] == "device-bound"
    assert device["starved_time_share"] == 0
    assert device["starved_steps_share"] == 0
    assert device["au"] > 0.9
    assert device["au"] + device["overhead_time_share"] == pytest.approx(1)
    assert device["free_source_au"] is not None


def test_the_preset_brings_its_bar_and_asks_for_its_batch():
    """CosmoFlow's batch is one sample, and these elements hold four."""
    batches = tf.data.Dataset.from_tensors(tf.zeros([8], tf.uint8)).repeat()
    result = run(batches.batch(4, drop_remainder=True), preset="cosmoflow-h100")

    assert result.device["bar"] == 0.7
    assert result.device["step_seconds"] == 0.0035
    assert "preset_batch" in codes(result)
    assert "MLPerf's bar of 70%" in " ".join(summarize(result).split())


def test_a_step_that_is_too_short_is_warned_of():
    """A microsecond is less than it takes to hand over anything."""
    result = run(images(), step_seconds=1e-6)

    assert "step_too_short" in codes(result)
    assert result.device["overhead_time_share"] > 0.1
    assert result.device["verdict"] != "device-bound"


def test_a_knee_has_its_points():
    """From a quarter of the period to four times it, each with what is expected."""
    device = run(slow(4e-3), step_seconds=2e-3, knee=True).device

    assert [point["step_seconds"] for point in device["knee"]] == sorted(
        point["step_seconds"] for point in device["knee"]
    )
    assert len(device["knee"]) == 9
    for point in device["knee"]:
        expected = min(1.0, point["step_seconds"] / device["period_seconds"])
        assert point["expected_au"] == pytest.approx(expected)
        assert 0 < point["au"] <= 1
        assert 0 <= point["starved_share"] < 1
    assert device["knee_deviation"]["step_seconds"] > 0


def test_a_knee_of_a_dataset_that_ends_is_cut_short_with_a_warning():
    """There are no points beyond its end."""
    result = run(slow(4e-3).take(150), step_seconds=4e-3, knee=True)

    assert "knee_cut_short" in codes(result)
    assert len(result.device["knee"] or []) < 9


@pytest.mark.measured
def test_a_host_that_reads_slowly_is_named():
    """Results of 2 ms that take 20 ms to read pile up."""
    result = run(
        images(), 1.0, step_seconds=2e-3, result_bytes=1000, read_seconds=20e-3
    )
    results = result.device["results"]

    assert result.device["verdict"] == "reader-bound"
    assert not results["keeps_up"]
    assert results["unread_most"] > 256
    assert results["growth_per_second"] > 100
    assert results["bytes"] == 1000
    assert "results_pile_up" in codes(result)
    assert "the host falls behind" in summarize(result)
    assert result.elements > 300  # what was not read in time is counted, too


@pytest.mark.measured
def test_a_full_outfeed_blocks_the_device():
    """Once its limit is reached, the device's time is blocked, and hardly starved."""
    set_outfeed_limit(100_000)
    try:
        result = run(
            images(), 1.5, step_seconds=1e-3, result_bytes=10_000, read_seconds=10e-3
        )
    finally:
        set_outfeed_limit(4 << 30)

    assert result.device["blocked_time_share"] > 0.3
    assert result.device["starved_time_share"] < 0.05  # while others have the CPUs
    assert result.device["verdict"] == "reader-bound"
    assert result.device["results"]["stored_bytes"] > 0


@pytest.mark.measured
def test_a_device_that_is_blocked_to_the_end_is_not_called_busy():
    """A host that takes all there is, and is not back before the run is over."""
    set_outfeed_limit(0)
    try:
        result = run(images(), 1.0, step_seconds=1e-3, read_seconds=5.0)
    finally:
        set_outfeed_limit(4 << 30)

    assert result.device["verdict"] == "reader-bound"
    assert "stalled" in codes(result)


def test_a_source_that_stalls_until_the_end_is_not_called_fast():
    """Its last wait ends no step, and is the host's all the same."""
    never = threading.Event()

    def wait(number):
        if number >= 100:
            never.wait(DEADLOCK_S)
        return number

    def give(number):
        value = tf.numpy_function(wait, [tf.cast(number, tf.int32)], tf.int32)
        value.set_shape([])
        return value

    result = run(tf.data.Dataset.range(1000).map(give), 2.0, step_seconds=2e-3)
    never.set()

    assert result.device["verdict"] == "host-bound"
    assert "stalled" in codes(result)


@pytest.mark.measured
def test_a_host_that_keeps_up_is_not_blamed():
    """Half a step is enough for each result."""
    result = run(images(), step_seconds=10e-3, result_bytes=64, read_seconds=1e-3)

    assert result.device["results"]["keeps_up"]
    assert result.device["verdict"] == "device-bound"
    assert "results_pile_up" not in codes(result)


def test_without_a_step_time_the_device_has_no_utilisation():
    """Only what was requested: here, whether the host keeps up."""
    device = run(images(), result_bytes=4096).device

    assert device["step_seconds"] is None
    assert device["au"] is None
    assert device["results"]["bytes"] == 4096


def test_passes_are_runs_of_the_device_and_the_gap_is_starvation():
    """Two passes of 20 steps; the restart is not computed in."""
    result = measure_through(
        images(20), Settings(passes=2), device=DeviceSettings(step_seconds=5e-3)
    )

    assert result.elements == 40
    assert result.device["blocked_time_share"] == 0
    assert result.device["starved_time_share"] > 0


@pytest.mark.parametrize("count", [0, 1])
def test_too_few_elements_have_no_utilisation(count):
    """And no error either."""
    result = run(images(count), step_seconds=1e-3)

    assert result.device is None
    assert result.elements == count


def test_a_dataset_that_fails_leaves_what_the_device_did_before():
    """Thirty steps, and the error."""

    def check(x):
        with tf.control_dependencies([tf.debugging.assert_less(x, np_int(30))]):
            return tf.cast(x, tf.int32)

    result = run(
        tf.data.Dataset.range(100).map(check), 5.0, step_seconds=2e-3, knee=True
    )

    assert result.error["element"] == 30
    assert result.elements == 30
    assert result.device["steps"] > 0
    assert result.device["knee"] is None


def np_int(number):
    return tf.constant(number, tf.int64)


@pytest.mark.process
def test_ctrl_c_in_a_step_of_an_hour_gives_what_was_measured(tmp_path):
    """Exit 130 with the JSON, long before the step would end."""
    (tmp_path / "dataset.py").write_text(
        "import tensorflow as tf\n"
        "dataset = tf.data.Dataset.from_tensors(tf.zeros([4])).repeat()\n"
    )
    process = children.Popen(
        [
            sys.executable,
            "-m",
            "ipufeed.benchmark",
            "dataset.py",
            "--step-time",
            "900s",
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
    )
    watchdog = threading.Timer(DEADLOCK_S, process.kill)
    watchdog.start()
    # It says when it is in its first step by the thread of that name.
    wait_for_thread(process.pid, "ipufeed_feeder")
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate()
    watchdog.cancel()

    assert process.returncode == 130, stderr
    assert not stdout or json.loads(stdout)["device"] is None


def wait_for_thread(pid, name):
    """Until the process has a thread of that name."""
    import pathlib
    import time

    while True:
        names = []
        for path in pathlib.Path(f"/proc/{pid}/task").glob("*/comm"):
            try:
                names.append(path.read_text().strip())
            except OSError:
                continue
        if name[:15] in names:
            return
        time.sleep(0.05)


def test_settings_are_frozen():
    """The settings cannot change during a run."""
    with pytest.raises(dataclasses.FrozenInstanceError):
        DeviceSettings().knee = True
