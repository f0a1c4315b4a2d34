"""Several processes at a time: what is added up, and what stops it."""

import json
import os
import sys

import children
import numpy as np
import pytest
from helpers import DEADLOCK_S, ROOT, stamps

from ipufeed.benchmark.measuring.steady_state import find_steady
from ipufeed.benchmark.result.result import Result
from ipufeed.benchmark.scaleout import processes
from ipufeed.benchmark.scaleout.processes import Run, overlap, together, windows
from ipufeed.errors import ScaleOutError

pytestmark = pytest.mark.long


def run(start, seconds, rate):
    """A process with elements at a constant rate from `start` on."""
    times = stamps(start + np.arange(round(seconds * rate) + 1) / rate)
    steady = find_steady(times, False)
    result = Result(
        epochs=[],
        dataset={"samples_per_element": 2.0, "bytes_per_element": 10.0},
        settings={},
        machine={"usable_cpus": 4},
        startup=None,
        steady={"elements_per_second": rate, "interval": [rate, rate]},
        latency={},
        memcpy=None,
        resources={
            "cpus_busy": 0.5,
            "peak_rss_bytes": 100,
            "cpu_seconds_per_element": 1.0,
        },
        calibration=None,
        queue={},
        warnings=[{"code": "busy_machine", "message": "the siblings"}],
    )
    return Run(result, times, steady)


def test_rates_are_added_over_the_time_that_all_share():
    """One is late and one ends early; what either did alone counts for nothing."""
    early, late = run(0.0, 10.0, 100.0), run(4.0, 16.0, 300.0)
    result = together(run(0.0, 5.0, 200.0), [early, late], others=0.0)

    assert result.processes["seconds"] == pytest.approx(6.0)
    rates = [each["elements_per_second"] for each in result.processes["each"]]
    assert rates == pytest.approx([100.0, 300.0], rel=1e-3)
    assert result.steady["elements_per_second"] == pytest.approx(400.0, rel=1e-3)
    assert result.steady["samples_per_second"] == pytest.approx(800.0, rel=1e-3)
    assert result.processes["efficiency"] == pytest.approx(1.0, rel=1e-3)
    assert result.steady["elements"] == sum(
        epoch["elements_processed"] for epoch in result.epochs
    )
    assert sum(epoch["time_elapsed"] for epoch in result.epochs) == pytest.approx(6.0)
    assert result.resources["cpus_busy"] == 1.0
    assert result.resources["peak_rss_bytes"] == 200
    low, high = result.steady["interval"]
    assert low <= 400.5
    assert high >= 399.5


def test_siblings_are_not_counted_as_other_load():
    """A busy machine is one that others than these processes keep busy."""
    runs = [run(0.0, 5.0, 100.0), run(0.0, 5.0, 100.0)]

    assert together(runs[0], runs, others=0.1).warnings == []
    (warning,) = together(runs[0], runs, others=3.0).warnings
    assert "other than these kept 3.0 of 4 CPUs busy" in warning["message"]


def test_runs_that_do_not_meet_have_no_rate():
    """Rates of different times are not added."""
    with pytest.raises(ScaleOutError, match=r"no time in which all .*--seconds"):
        overlap([run(0.0, 1.0, 100.0), run(2.0, 1.0, 100.0)])


def test_windows_hold_all_elements_once():
    """Of a second each, the last one longer."""
    merged = stamps([0.0, 0.5, 1.0, 1.5, 2.5])
    entries = windows(merged, int(merged[0]), int(merged[-1]), None)

    assert [entry["elements_processed"] for entry in entries] == [1, 3]
    assert [entry["time_elapsed"] for entry in entries] == [1.0, 1.5]


TEXT = """
import os
import tensorflow as tf
from ipufeed import sources
print("a word on stdout")
def make_dataset(fail: bool = False):
    dataset = sources.synthetic((100,), seconds=0.002)
    if fail:
        raise RuntimeError("no data today")
    return dataset
"""


LOADER = """
import multiprocessing, os, time
class Loader:
    def __iter__(self):
        worker = multiprocessing.get_context("fork").Process(
            target=time.sleep, args=(3600,), daemon=True
        )
        worker.start()
        with open(f"{os.environ['WORKERS']}/{worker.pid}", "w"):
            pass
        for number in range(10**6):
            time.sleep(0.002)
            yield [number] * 4
def make_loader(once: bool = False):
    return iter(Loader()) if once else Loader()
once = iter([1, 2, 3])
"""


def command(folder, *options, text=TEXT):
    (folder / "dataset.py").write_text(text)
    return children.run(
        [
            *(sys.executable, "-m", "ipufeed.benchmark", str(folder / "dataset.py")),
            *options,
        ],
        capture_output=True,
        text=True,
        timeout=3 * DEADLOCK_S,
        check=False,
        cwd=ROOT,
        env={**os.environ, "WORKERS": str(folder)},
    )


@pytest.mark.process
def test_the_command_measures_one_and_then_all(tmp_path):
    """Each process's rate, their sum, and one alone to compare with."""
    done = command(tmp_path, "--processes", "2", "--seconds", "2")
    result = json.loads(done.stdout)
    words = " ".join(done.stderr.split())

    assert done.returncode == 0, done.stderr
    both = result["processes"]
    assert both["count"] == 2
    assert (
        sum(each["elements"] for each in both["each"]) == result["steady"]["elements"]
    )
    assert both["alone"]["elements_per_second"] > 0
    assert result["dataset"]["name"] == "dataset.py:make_dataset"
    assert "2 processes" in words
    assert "one alone" in words


@pytest.mark.process
def test_a_file_that_fails_is_quoted_and_nothing_hangs(tmp_path):
    """The traceback of the process is in the message; the exit code says bad input."""
    done = command(tmp_path, "--processes", "1", "--set", "fail=true")

    assert done.returncode == 2
    assert done.stdout == ""
    assert "process 0 ended with code 2" in " ".join(done.stderr.split())
    assert "RuntimeError: no data today" in done.stderr


@pytest.mark.process
@pytest.mark.parametrize("once", ["false", "true"])
def test_a_loader_runs_in_several_processes_as_well(tmp_path, once):
    """Its own workers end with them."""
    options = ("--processes", "2", "--seconds", "2", "--set", f"once={once}")
    done = command(tmp_path, *options, text=LOADER)
    result = json.loads(done.stdout)
    workers = [int(path.name) for path in tmp_path.iterdir() if path.name.isdecimal()]

    assert done.returncode == 0, done.stderr
    assert result["processes"]["alone"]["elements_per_second"] > 0
    assert len(result["processes"]["each"]) == 2
    assert len(workers) == 3
    assert not [each for each in workers if os.path.exists(f"/proc/{each}/exe")]


@pytest.mark.process
def test_a_loader_that_is_read_once_is_refused(tmp_path):
    """It would be used up by the process that is alone."""
    done = command(tmp_path, "--processes", "2", text=f"{LOADER}loader = once")

    assert done.returncode == 2
    assert "read once" in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr


def test_processes_need_no_tensorflow_here():
    """The process that starts the others stays light."""
    assert "tensorflow" not in vars(processes)
