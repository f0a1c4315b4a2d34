"""examples/ipu on compiling once: what each of their switches changes is counted.

program, switches --python -m ipufeed.run--> lines: compiled, read, loaded

Processes that share a folder follow each other in one chain; chains run two at a time.
"""

import concurrent.futures
import os
import pathlib
import subprocess
import sys

import pytest

PROGRAMS = pathlib.Path(__file__).parents[1] / "examples" / "ipu"
LIMIT_S = 120.0  # for a process; only a hang gets there

CHAINS = [
    [("recompilation", "")],
    [("recompilation", "--caching"), ("recompilation", "CACHING=1")],
    [("recompilation", "PLACEHOLDER=1 SAMEBATCH=1")],
    [("recompilation", "--placeholder")],
    [("recompilation_v2", "")],
]


def execute(name, switches, folder):
    words = switches.split()
    options = [word for word in words if word.startswith("-") or "=" not in word]
    variables = dict(word.split("=") for word in words if word not in options)
    clean = {
        key: value
        for key, value in os.environ.items()
        if key not in ("CACHING", "PLACEHOLDER", "SAMEBATCH", "TF_POPLAR_FLAGS")
    }
    return subprocess.run(
        [sys.executable, "-m", "ipufeed.run", str(PROGRAMS / f"{name}.py"), *options],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,  # one stream: what comes before what is a promise
        text=True,
        timeout=LIMIT_S,
        check=False,
        cwd=folder,
        env={**clean, **variables, "PYTHONUNBUFFERED": "1"},
    )


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Each finished process, by program and switches."""

    def follow(chain):
        folder = tmp_path_factory.mktemp("chain")
        return {case: execute(*case, folder) for case in chain}

    found = {}
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for each in pool.map(follow, CHAINS):
            found |= each
    return found


@pytest.fixture
def text(runs):
    """What a program has said, on both streams in order; it has ended well."""

    def get(name, switches=""):
        done = runs[name, switches]
        assert done.returncode == 0, done.stdout
        assert "Traceback" not in done.stdout
        return done.stdout

    return get


VARIANTS = (
    "equal values",
    "changed constants",
    "changed weights",
    "changed batch sizes",
)


def counts(text):
    """(compiled, read, loaded) of each variant, in order."""
    found = []
    for line in text.splitlines():
        name, _, rest = line.partition(": ")
        if name in VARIANTS:
            found.append((name, *[int(part.split()[0]) for part in rest.split(", ")]))
    assert [name for name, *_ in found] == list(VARIANTS)
    return [tuple(numbers) for _, *numbers in found]


def test_each_baked_in_value_and_each_batch_size_is_compiled(text):
    """Equal values are compiled once; three changed ones three times."""
    baked = [(1, 0, 1), (3, 0, 3), (3, 0, 3), (3, 0, 3)]

    assert counts(text("recompilation")) == baked
    assert counts(text("recompilation", "--caching")) == baked


def test_with_placeholders_only_batch_sizes_are_compiled(text):
    """Constants and weights that are fed need the one program that is there."""
    found = counts(text("recompilation", "--placeholder"))

    assert found == [(1, 0, 1), (0, 0, 0), (0, 0, 0), (3, 0, 3)]


def test_with_placeholders_and_one_batch_size_one_program_does_for_all(text):
    """Compiled once, loaded once; the switches are read from the environment."""
    found = counts(text("recompilation", "PLACEHOLDER=1 SAMEBATCH=1"))

    assert found == [(1, 0, 1), (0, 0, 0), (0, 0, 0), (0, 0, 0)]


def test_a_second_process_with_caching_compiles_nothing(text):
    """It reads and loads what the first has compiled."""
    assert counts(text("recompilation", "CACHING=1")) == [
        (0, 1, 1),
        (0, 3, 3),
        (0, 3, 3),
        (0, 3, 3),
    ]


def test_a_function_is_compiled_for_each_number_and_once_for_tensors(text):
    """The counts of TensorFlow 2 are those of version 1."""
    printed = [
        line for line in text("recompilation_v2").splitlines() if "ipufeed]" not in line
    ]

    for line in (
        "Python numbers: 3 compiled",
        "tf.constant: 1 compiled",
        "three batch sizes: 3 compiled",
        "padded batches: 1 compiled",
    ):
        assert line in printed
