"""`tools/asv_slowdown.py`: the commits that it makes, and how it reads asv's verdict."""

import importlib.util
import subprocess
import sys
import types

import pytest
from helpers import ROOT

SPEC = importlib.util.spec_from_file_location(
    "asv_slowdown", ROOT / "tools" / "asv_slowdown.py"
)
asv_slowdown = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(asv_slowdown)


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        (
            "SOME BENCHMARKS HAVE CHANGED SIGNIFICANTLY.\nPERFORMANCE DECREASED.\n",
            "red",
        ),
        ("\nBENCHMARKS NOT SIGNIFICANTLY CHANGED.\n", "green"),
        (
            "SOME BENCHMARKS HAVE CHANGED SIGNIFICANTLY.\nPERFORMANCE INCREASED.\n",
            "neither slower nor the same",
        ),
        ("x failed\nBENCHMARKS NOT SIGNIFICANTLY CHANGED.\n", "failed"),
        ("Failed to build the project and import the benchmark suite.", "failed"),
        ("", "neither slower nor the same"),
    ],
)
def test_a_run_that_measured_nothing_is_neither_red_nor_green(text, verdict):
    assert asv_slowdown.verdict(text) == verdict


@pytest.mark.process
def test_one_commit_has_the_same_files_and_one_a_slower_library(tmp_path):
    clone = tmp_path / "clone"
    base, same, slower = asv_slowdown.commits(clone, 0.2)

    def git(*words):
        command = ["git", *words]
        return subprocess.run(
            command, cwd=clone, check=True, capture_output=True, text=True
        ).stdout.split()

    assert git("diff", "--name-only", base, same) == []
    assert git("diff", "--name-only", base, slower) == ["ipufeed/_native.py"]
    assert git("status", "--porcelain") == []


def test_the_slower_library_works_a_fifth_longer(monkeypatch):
    """By a clock that stands still but for the op, and moves on by a tenth at each look."""
    now = [100.0]

    def clock():
        now[0] += 0.1
        return now[0]

    def measure(value, *, twice):
        now[0] += 10.0
        return value * twice

    clocks = types.SimpleNamespace(perf_counter=clock)
    library = types.SimpleNamespace(ipufeed_measure_dataset=measure, other=7)
    names = {"load": lambda: library}
    exec(asv_slowdown.SLOWER.replace("{fraction}", "0.2"), names)
    monkeypatch.setitem(sys.modules, "time", clocks)
    slower = names["load"]()

    assert slower.other == 7
    assert slower.ipufeed_measure_dataset(3, twice=2) == 6
    assert now[0] == pytest.approx(112, abs=0.7)
