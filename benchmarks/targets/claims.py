"""What tests that judge times of this machine claim: in how many rounds each held.

Such a test (`pytest.mark.measured`) checks of a run what must hold on any machine that is
not disturbed: which stage is the slow one, whose time a wait was. All of them run in
rounds, one after the other, so that the repeats of a claim lie minutes apart.
"""

import itertools
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from xml.etree import ElementTree

from benchmarks.targets import Row, row

ROOT = Path(__file__).resolve().parents[2]
COMMAND = [sys.executable, "-m", "pytest", "-n", "0", "-m", "measured", "-q"]
TESTS_FAILED = 1  # of pytest's exit codes


def rows(quick: bool) -> list[Row]:
    """Returns a row for each file of such tests, and for each claim that failed once.

    A wrong program fails its claim in all rounds; a disturbance of the machine in some.
    With `quick` the second and the third round are of the claims that have not held yet.
    """
    rounds = [run(())]
    while len(rounds) < (3 if quick else 5):
        missed = [
            name for name in rounds[0] if not any(each.get(name) for each in rounds)
        ]
        if quick and not missed:
            break
        rounds.append(run(missed if quick else ()))
    return rows_of(rounds)


def run(claims: Iterable[str]) -> dict[str, bool]:
    """Runs the claims once, all if none is named, and returns by name which held.

    Raises:
        RuntimeError: pytest could not run them, or found none.
    """
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.xml")
        done = subprocess.run(
            [*COMMAND, *claims, f"--junitxml={report}", f"--basetemp={folder}/tests"],
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
    """Returns the name for pytest -> whether the test passed, from a JUnit report."""
    found = {}
    for case in ElementTree.fromstring(report).iter("testcase"):
        if case.find("skipped") is None:
            file = case.get("classname", "").replace(".", "/")
            failed = any(case.find(each) is not None for each in ("failure", "error"))
            found[f"{file}.py::{case.get('name')}"] = not failed
    return found


def rows_of(rounds: list[Mapping[str, bool]]) -> list[Row]:
    """Returns the rows of rounds; a claim's value is 1 where it held, else 0."""
    claims = sorted({name for each in rounds for name in each})
    found = []
    for file, group in itertools.groupby(claims, lambda name: name.partition("::")[0]):
        own = list(group)
        # A round has all claims of a file, or those that had not held before it.
        held = [
            100 * sum(each.get(name, True) for name in own) / len(own)
            for each in rounds
        ]
        title = f"{Path(file).stem}: claims held, of {len(own)}"
        found.append(row(title, "at least", 90, "%", held))
        for name in own:
            values = [float(each[name]) for each in rounds if name in each]
            if not all(values):
                title = f"{Path(file).stem}: {name.partition('::')[2]}"
                found.append(row(title, "at least", 1, "of 1", values))
    return found
