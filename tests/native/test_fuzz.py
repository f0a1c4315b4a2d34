"""The fuzzers of tools/: the command runs one, and planted bugs are found.

The searches are those of `nox -s fuzz`, of each target, which `.ci/run` runs as well.
Seeds are random and printed with what was found.
"""

import os
import random
import shutil
import subprocess
import sys

import pytest
from helpers import ROOT

sys.path.insert(0, str(ROOT / "tools"))
import fuzz_python

pytestmark = pytest.mark.long

DEADLOCK_S = (
    400.0  # above compiling and running on a busy machine: only a hang gets there
)

needs_clang = pytest.mark.skipif(
    shutil.which("clang++") is None,
    reason="libFuzzer comes with clang: apt-get install clang libclang-rt-14-dev",
)


def fuzz(*arguments):
    return subprocess.run(
        [sys.executable, str(ROOT / "tools" / "fuzz.py"), "--seconds", "2", *arguments],
        capture_output=True,
        text=True,
        timeout=DEADLOCK_S,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


@pytest.mark.process
def test_a_short_search_finds_nothing(tmp_path):
    """The reader of results gives a value or a documented error, from files made here."""
    done = fuzz("--folder", str(tmp_path), "result_json")

    assert done.returncode == 0, done.stdout + done.stderr
    assert "result_json: " in done.stdout  # with how much it has tried


PLANTED = {
    # A header that spans two pieces is forgotten.
    "part": ("scan->have += more;", "scan->have = more;"),
    # One byte behind the piece is read.
    "bounds": (
        "std::min(size, data_end - scan->at);",
        "std::min(size + 1, data_end - scan->at);",
    ),
    # A file that is cut at the end of the data seems whole.
    "cut": ("data_end - scan->at - 1;", "data_end - scan->at + 4;"),
}


@pytest.mark.process
@needs_clang
@pytest.mark.parametrize(
    "bug",
    [
        each if each == "bounds" else pytest.param(each, marks=pytest.mark.soak)
        for each in PLANTED
    ],
)
def test_a_bug_in_the_scan_of_records_is_found(tmp_path, bug):
    """The oracle and AddressSanitizer see what each planted bug does."""
    source = ROOT / "ipufeed" / "cc" / "data" / "record_scan.cc"
    planted = tmp_path / "ipufeed" / "cc" / "data" / "record_scan.cc"
    planted.parent.mkdir(parents=True)
    right, wrong = PLANTED[bug]
    text = source.read_text()
    assert text.count(right) == 1
    planted.write_text(text.replace(right, wrong))
    shutil.copy(source.with_suffix(".h"), planted.parent)

    done = fuzz("--folder", str(tmp_path), "--sources", str(tmp_path), "record_scan")

    assert done.returncode == 1, done.stdout
    assert "record_scan FAILED" in done.stdout


def test_an_undocumented_error_is_a_finding(tmp_path):
    """The search stops at it, and keeps the input."""
    (tmp_path / "input").write_bytes(b"12345678" * 4)

    def read(data):
        if not data.startswith(b"12345678"):
            raise ValueError("documented")
        if len(data) > 40:
            raise KeyError("not documented")

    target = fuzz_python.Target("input", fuzz_python.damaged, read, (ValueError,))
    number, accepted, finding = fuzz_python.search(target, tmp_path, 1, DEADLOCK_S)

    assert "KeyError: 'not documented'" in finding.text
    assert len(finding.data) > 40
    assert finding.number == number > accepted > 0


def test_the_same_seed_gives_the_same_inputs():
    """A finding can be searched for again."""
    one, other = random.Random(5), random.Random(5)

    for _ in range(100):
        assert fuzz_python.damaged(b"abc" * 9, one) == fuzz_python.damaged(
            b"abc" * 9, other
        )
