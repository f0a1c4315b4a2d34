"""No argument of a C entry point ends the process: it is refused, or an answer."""

import json
import subprocess
import sys
from pathlib import Path

import children
import pytest
from entry_point_cases import CASES, WRONG
from helpers import DEADLOCK_S

from ipufeed import _native

SCRIPT = Path(__file__).with_name("entry_point_cases.py")


def exported():
    """The functions that the library shows to others under a name of C."""
    done = subprocess.run(
        ["nm", "-D", "--defined-only", str(_native.find_library())],
        capture_output=True,
        text=True,
        check=True,
    )
    symbols = [line.split()[1:] for line in done.stdout.splitlines()]
    return {name for kind, name in symbols if kind == "T" and name.startswith("ipu")}


@pytest.fixture(scope="module")
def answers():
    """What the child has printed, and how it has ended."""
    done = children.run(
        [sys.executable, str(SCRIPT)],
        capture_output=True,
        text=True,
        check=False,
        timeout=DEADLOCK_S,
    )
    lines = [json.loads(each) for each in done.stdout.splitlines()]
    begun = [line["begins"] for line in lines if "begins" in line]
    assert done.returncode == 0, f"{begun[-1:]} ended it: {done.stderr[-4000:]}"
    return [line for line in lines if "name" in line]


@pytest.mark.process
def test_each_exported_function_is_called():
    """A new one without a case fails here."""
    assert exported() == set(CASES)
    assert all(CASES.values())


@pytest.mark.process
@pytest.mark.parametrize("name", CASES)
def test_wrong_arguments_are_refused_or_answered(answers, name):
    """The process lives, and an error names the entry point and what must be."""
    calls = [each for each in answers if each["name"] == name]

    assert len(calls) == len(CASES[name])
    for call in calls:
        if call["must"] == WRONG:
            kind, text = call["got"]
            assert kind == WRONG, call
            assert "must" in text, call
        elif call["must"] is None:
            assert isinstance(call["got"], int), call
        else:
            assert call["got"] == call["must"], call
