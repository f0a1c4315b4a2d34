"""What tests that judge times of this machine claim: in how many rounds each held.

Such a test (`pytest.mark.measured`) checks of a run what must hold on any machine that is
not disturbed: which stage is the slow one, whose time a wait was. All of them run in
rounds, one after the other, so that the repeats of a claim lie minutes apart.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from xml.etree import ElementTree

from benchmarks.targets import Row, row

ROOT = Path(__file__).resolve().parents[2]
COMMAND = [sys.executable, "-m", "pytest", "-n", "0", "-m", "measured", "-q"]
TESTS_FAILED = 1  # of pytest's exit codes


def rows(quick: bool) -> list[Row]:
    """A row for each file of such tests, and one for each claim that did not always hold.

    A wrong program fails its claim in all rounds, which is a gross fault; a disturbance
    does in some. With `quick`, which asks for gross faults only, the rounds end when each
    claim has held once.
    """
    rounds = [run()]
    while len(rounds) < (3 if quick else 5):
        if quick and all(any(each[name] for each in rounds) for name in rounds[0]):
            break
        rounds.append(run())
    return rows_of(rounds)


def run() -> dict[str, bool]:
    """Runs the tests once, and returns for each by its name whether it held.

    Raises:
        RuntimeError: pytest could not run them, or found none.
    """
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.xml")
        done = subprocess.run(
            [*COMMAND, f"--junitxml={report}", f"--basetemp={folder}/tests"],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if done.returncode == TESTS_FAILED:
            print(done.stdout, file=sys.stderr, flush=True)
        elif done.returncode != 0:
            raise RuntimeError(
                f"pytest ended with {done.returncode}, and not with the verdicts of its "
                f"tests:\n{done.stdout}"
            )
        return verdicts(report.read_text())


def verdicts(report: str) -> dict[str, bool]:
    """Of each test of a JUnit report whether it passed, by "file: name"."""
    found = {}
    for case in ElementTree.fromstring(report).iter("testcase"):
        if case.find("skipped") is None:
            file = case.get("classname", "").rpartition(".")[2]
            failed = any(case.find(each) is not None for each in ("failure", "error"))
            found[f"{file}: {case.get('name')}"] = not failed
    return found


def rows_of(rounds: list[Mapping[str, bool]]) -> list[Row]:
    """The rows of several rounds; a claim's values are 1 where it held and 0 elsewhere."""
    claims = sorted({name for each in rounds for name in each})
    files = sorted({name.partition(":")[0] for name in claims})
    found = []
    for file in files:
        own = [name for name in claims if name.startswith(f"{file}:")]
        held = [
            100 * sum(each.get(name, False) for name in own) / len(own)
            for each in rounds
        ]
        found.append(
            row(f"{file}: claims held, of {len(own)}", "at least", 90, "%", held)
        )
        for name in own:
            values = [float(each.get(name, False)) for each in rounds]
            if not all(values):
                found.append(row(name, "at least", 1, "of 1", values))
    return found
