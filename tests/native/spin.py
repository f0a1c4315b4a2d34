"""Runs the model checker spin on a model of tests/models."""

import dataclasses
import pathlib
import re
import shutil
import subprocess

import pytest
from helpers import DEADLOCK_S

MODELS = pathlib.Path(__file__).parents[1] / "models"
DEPTH = 100_000  # the deepest search needs about 700 steps

SAFETY = ("-DSAFETY", "-DNOCLAIM"), ()
LIVENESS = ("-DNFAIR=3",), ("-a", "-f")  # acceptance cycles, under weak fairness

needs_spin = pytest.mark.skipif(
    shutil.which("spin") is None or shutil.which("gcc") is None,
    reason="the models need spin and gcc: apt-get install spin gcc",
)


@dataclasses.dataclass(frozen=True)
class Search:
    """The verifier's report."""

    text: str
    errors: int
    states: int

    @property
    def complete(self) -> bool:
        """Whether the search covered all states: one that was cut short proves nothing."""
        cut = ("max search depth too small", "Search not completed", "out of memory")
        return not any(words in self.text for words in cut)


def verify(folder, model, mode, *macros, optimisation="-O0"):
    """Searches the states of `model` with `macros` defined, such as "CAPACITY=2".

    Up to two million states and more are searched in less time than "-O1" takes to
    compile. It changes nothing about what is searched.
    """
    compiler_flags, options = mode

    def step(*command):
        done = subprocess.run(
            command,
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=DEADLOCK_S,
            check=False,
        )
        assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}"
        return done.stdout

    step(
        "spin", "-a", *(f"-D{macro}" for macro in macros), str(MODELS / f"{model}.pml")
    )
    step("gcc", optimisation, "-w", *compiler_flags, "-o", "pan", "pan.c")
    text = step("./pan", *options, f"-m{DEPTH}")
    errors = re.search(r"errors: (\d+)", text)
    states = re.search(r"(\d+) states, stored", text)
    assert errors is not None, text
    assert states is not None, text
    return Search(text, int(errors[1]), int(states[1]))


def assert_proven(search, fewest_states):
    """No error in all states. A search of fewer than `fewest_states` stopped early."""
    assert search.errors == 0, search.text
    assert search.complete, search.text
    assert search.states > fewest_states, search.text


def assert_refuted(search, words):
    """One error, reported in `words`: "invalid end state" is a deadlock."""
    assert search.errors == 1, search.text
    assert words in search.text, search.text


def planted_in(model):
    """The bugs that the model's macros plant."""
    text = (MODELS / f"{model}.pml").read_text()
    return set(re.findall(r"(?:ifn?def|defined\()\s*PLANT_(\w+)", text))
