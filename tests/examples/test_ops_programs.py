"""The programs in examples/ops run, and print what they promise."""

import itertools
import os
import sys

import children
import pytest
from helpers import DEADLOCK_S, ROOT

pytestmark = pytest.mark.long

PROGRAMS = sorted((ROOT / "examples" / "ops").glob("*.py"))


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Each program's finished process, by its name."""
    done = {}
    for path in PROGRAMS:
        folder = tmp_path_factory.mktemp(path.stem)
        done[path.stem] = children.run(
            [sys.executable, "-m", "ipufeed.run", str(path)],
            capture_output=True,
            text=True,
            timeout=DEADLOCK_S,
            check=False,
            cwd=folder,
            env={**os.environ, "TMPDIR": str(folder), "TF_POPLAR_FLAGS": ""},
        )
    return done


@pytest.mark.process
@pytest.mark.parametrize("name", [path.stem for path in PROGRAMS])
def test_a_program_runs_to_its_end(runs, name):
    """Exit code 0, and something printed."""
    assert runs[name].returncode == 0, runs[name].stderr
    assert runs[name].stdout


@pytest.mark.process
def test_the_classifier_learns(runs):
    """Its loss falls from loop to loop, and ends far below the start's."""
    lines = runs["classifier"].stdout.splitlines()
    losses = [float(line.rpartition(" ")[2]) for line in lines]

    assert [line.partition(":")[0] for line in lines] == [
        f"loop {n}" for n in range(1, 6)
    ]
    assert all(later < earlier for earlier, later in itertools.pairwise(losses))
    assert losses[-1] < losses[0] / 2
