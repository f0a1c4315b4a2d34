"""A child program of `benchmarks` runs without the working copy on its path."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from helpers import ROOT

sys.path.insert(0, str(ROOT))
from benchmarks import child


@pytest.mark.process
def test_a_child_has_benchmarks_and_not_the_folder_around_it(tmp_path):
    """Or it would take the working copy's ipufeed instead of the one that is installed."""
    program = child.command("programs.warm_start", "mlp", str(tmp_path))
    # In place of the program: what it would find.
    look = (
        "import json, sys; import benchmarks.feeds; "
        "print(json.dumps([sys.argv[1:], sys.path]))"
    )
    assert program[:2] == [sys.executable, "-c"]
    code = program[2].replace(
        'runpy.run_module(module, run_name="__main__", alter_sys=True)', look
    )
    assert look in code
    done = subprocess.run(
        [program[0], "-I", "-c", code, *program[3:]],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    arguments, path = json.loads(done.stdout)

    assert arguments == ["mlp", str(tmp_path)]
    assert ROOT.resolve() not in [Path(each).resolve() for each in path]


def test_a_module_that_does_not_exist_fails(tmp_path):
    done = subprocess.run(
        child.command("programs.gone"),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode != 0
    assert "No module named benchmarks.programs.gone" in done.stderr
