"""Elements of 64 to 300 MiB: how much memory the feed and the copies take.

case --large_elements.py, in a process of its own--> counters and growth, as JSON
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import children
import large_elements
import pytest
from helpers import DEADLOCK_S, ROOT, module_runs

SCRIPT = Path(large_elements.__file__)
MIB = 1 << 20

pytestmark = [pytest.mark.process, pytest.mark.long]


def execute(name, folder):
    folders = [ROOT, ROOT / "tests" / "support"]
    return children.run(
        [sys.executable, str(SCRIPT), name],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=DEADLOCK_S,
        check=False,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, folders))},
    )


runs = module_runs(execute, large_elements.CASES)


@pytest.fixture
def counters(runs):
    """What a case printed."""

    def of(name):
        assert runs[name].returncode == 0, runs[name].stderr
        return json.loads(runs[name].stdout)

    return of


@pytest.mark.long
@pytest.mark.parametrize("shape", ["known", "unknown"])
def test_a_huge_element_is_copied_with_little_memory(counters, shape):
    """Room for all of it would take seconds to find, which delay the dataset."""
    found = counters(shape)

    assert found["bytes"] == 2 * 300 * MIB
    assert found["copy_ns"] > 0
    # The room for the copies, and what else there is; the elements are one tensor.
    assert found["growth"] < 200 * MIB


def test_few_huge_elements_do_not_fill_the_memory(counters):
    """The feed is bounded in bytes: a slow consumer of 64 MB elements holds few."""
    found = counters("many")

    assert found["elements"] == 20
    # 256 MiB in the feed, one on either side of it, the copy, and the map's two.
    assert found["growth"] < (256 + 5 * 64 + 64) * MIB


def test_the_feed_of_huge_elements_is_as_long_as_bytes_allow(counters):
    """256 MiB bound it: two elements of 90 or of 100 MiB."""
    assert counters("capacities") == {"90": [2, 2], "100": [2, 2]}
