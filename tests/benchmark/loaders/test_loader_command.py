"""`python -m ipufeed.benchmark` of files with loaders."""

import json
import os
import re
import sys
import textwrap

import children
import pytest
from helpers import DEADLOCK_S, module_runs

FILES = {
    "generator": (
        """
        import numpy as np
        def make_loader(batches=10, rows=4):
            for number in range(batches):
                yield np.full((rows, 2), number, np.float32), np.full(rows, number)
        """,
        "--set batches=6 --set rows=8 --passes 2",
    ),
    "named": (
        """
        import numpy as np
        class Batches:
            def __iter__(self):
                return iter([np.zeros(3)] * 4)
        dataset = [1, 2, 3]
        loader = Batches()
        """,
        "",
    ),
    "device": (
        """
        import numpy as np
        def make_loader():
            while True:
                yield np.zeros((4, 2), np.float32), np.zeros(4, np.int64)
        """,
        "--seconds 1 --step-time 2ms",
    ),
    "verify": ("def make_loader():\n    yield 1", "--verify"),
    "trace": ("def make_loader():\n    yield 1", "--trace trace.json"),
    "service": ("def make_loader():\n    yield 1", "--service local:1"),
    "failing": (
        """
        def make_loader():
            yield 1.5
            raise OSError("the disk is gone")
        """,
        "",
    ),
    "empty": ("def make_loader():\n    return\n    yield", "--step-time 2ms"),
    "crashing": (
        """
        import ctypes
        def make_loader():
            yield 1.5
            ctypes.string_at(0)
        """,
        "",
    ),
    "list": ("dataset = [1, 2, 3]", ""),
    "nothing": ("def make_loader():\n    return None", ""),
}


def execute(name, folder):
    text, arguments = FILES[name]
    (folder / "data.py").write_text(textwrap.dedent(text))
    return children.run(
        [sys.executable, "-m", "ipufeed.benchmark", "data.py", *arguments.split()],
        capture_output=True,
        text=True,
        check=False,
        timeout=DEADLOCK_S,
        cwd=folder,
        env={**os.environ, "TMPDIR": str(folder)},
    )


runs = module_runs(execute, FILES)


@pytest.fixture
def done(runs, name):
    return runs[name]


def of(*names):
    return pytest.mark.parametrize("name", names)


@of("generator")
@pytest.mark.process
def test_the_command_measures_a_generator_function(done):
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert [each["elements_processed"] for each in result["epochs"]] == [6, 6]
    assert result["dataset"]["samples_per_element"] == 8
    assert result["dataset"]["name"] == "data.py:make_loader"
    assert result["stages"] is None
    assert "a loader (generator) does not report where its time goes" in " ".join(
        done.stderr.split()
    )


@of("named")
@pytest.mark.process
def test_what_is_called_loader_comes_before_what_is_called_dataset(done):
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["dataset"]["name"] == "data.py:loader"


@of("device")
@pytest.mark.process
def test_a_device_with_a_step_time_takes_a_loader(done):
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["dataset"]["loader"] == "generator"
    assert result["dataset"]["samples_per_element"] == 4
    assert 0 < result["device"]["au"] <= 1
    assert result["device"]["step_seconds"] == 0.002


@of("verify", "trace", "service")
@pytest.mark.process
def test_what_needs_a_graph_is_refused(done, name):
    assert done.returncode == 2
    assert done.stdout == ""
    words = " ".join(done.stderr.split())
    assert f"--{name} is for tf.data pipelines" in words
    assert "this is a generator" in words


@of("failing")
@pytest.mark.process
def test_a_failing_loader_has_a_result_and_a_code(done):
    assert done.returncode == 2
    error = json.loads(done.stdout)["error"]
    assert (error["type"], error["element"]) == ("OSError", 1)
    assert "data.py:4" in error["message"]


@of("empty")
@pytest.mark.process
def test_an_empty_loader_that_is_to_feed_a_device_has_the_code_of_nothing(done):
    assert done.returncode == 4
    assert "The loader has no element: there is nothing to feed." in done.stderr


@of("crashing")
@pytest.mark.process
def test_a_loader_that_crashes_the_process_shows_its_line(done):
    """Such as two frameworks whose libraries do not fit into one process."""
    assert done.returncode == -11
    assert "Fatal Python error: Segmentation fault" in done.stderr
    assert re.search(r"data\.py\", line 5 in make_loader", done.stderr)


@of("list", "nothing")
@pytest.mark.process
def test_what_is_not_a_loader_is_refused(done, name):
    assert done.returncode == 2
    words = " ".join(done.stderr.split())
    assert "a loader that can be iterated" in words
    assert ("got list" if name == "list" else "Is a `return` missing?") in words
