"""examples/ipu/compiling: what each of their switches changes.

program, switches --python -m ipufeed.run--> lines: compiled, read, loaded, saved to

How they run without a switch is in test_programs.py.

Processes that share a folder follow each other in one chain; chains run two at a time.
"""

import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys

import children
import pytest
from helpers import DEADLOCK_S

pytestmark = [pytest.mark.process, pytest.mark.long]

PROGRAMS = pathlib.Path(__file__).parents[2] / "examples" / "ipu" / "compiling"

CHAINS = [
    [("recompilation", "--caching"), ("recompilation", "CACHING=1")],
    [("recompilation", "PLACEHOLDER=1 SAMEBATCH=1")],
    [("recompilation", "--placeholder")],
    [("precompile", ""), ("precompile", "--connected")],
    [("precompile", "--old-api"), ("precompile", "--old-api --connected")],
    [("connection_types", "ALWAYS")],
    [("connection_types", "ON_DEMAND")],
    [("connection_types", "PRE_COMPILE")],
    [("connection_types", "NEVER")],
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
    return children.run(
        [sys.executable, "-m", "ipufeed.run", str(PROGRAMS / f"{name}.py"), *options],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,  # one stream: what comes before what is a promise
        text=True,
        timeout=DEADLOCK_S,
        check=False,
        cwd=folder,
        env={**clean, **variables, "PYTHONUNBUFFERED": "1"},
    )


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Each finished process, by program and switches."""
    # On this thread: the factory's first call makes the base folder.
    folders = [tmp_path_factory.mktemp("chain") for _ in CHAINS]

    def follow(chain, folder):
        return {case: execute(*case, folder) for case in chain}

    found = {}
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for each in pool.map(follow, CHAINS, folders):
            found |= each
    return found


@pytest.fixture
def text(runs):
    """A program's output, on both streams in order; it has ended well."""

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
    first = [(1, 0, 1), (3, 0, 3), (3, 0, 3), (3, 0, 3)]
    second = [(0, 1, 1), (0, 3, 3), (0, 3, 3), (0, 3, 3)]

    assert counts(text("recompilation", "--caching")) == first
    assert counts(text("recompilation", "CACHING=1")) == second


@pytest.mark.parametrize("api", ["", "--old-api"])
def test_pre_compiling_saves_a_program_and_gives_zeros(text, api):
    """No IPU is attached to; one file is written, and its path is printed."""
    output = text("precompile", api)
    lines = output.splitlines()

    assert re.search(
        r"A pre-compiled Poplar program has been saved to "
        r"executables/[1-9a-f][0-9a-f]*\.poplar_exec$",
        output,
        re.MULTILINE,
    )
    assert "attached to" not in output
    assert "losses 0.000 0.000 0.000" in lines
    assert "1 compiled, 1 saved, 0 read" in lines


@pytest.mark.parametrize("switches", ["--connected", "--old-api --connected"])
def test_a_connected_process_runs_what_was_pre_compiled(text, switches):
    """It reads the file, compiles nothing, and learns."""
    output = text("precompile", switches)
    losses = re.search(r"^losses (.+)$", output, re.MULTILINE)[1].split()

    assert "0 compiled, 0 saved, 1 read" in output.splitlines()
    assert "Compiled" not in output
    assert "attached to 1 IPU" in output
    assert 0 < float(losses[2]) < float(losses[1]) < float(losses[0])


EVENTS = {
    "attached": r"device /device:IPU:0 attached to 1 IPU",
    "configured": r"^configured$",
    "compiled": r"Compiled add in",
    "saved": r"A pre-compiled Poplar program has been saved to executables/",
    "right": r"^result \[3\. 8\.\]$",
    "zeros": r"^result \[0\. 0\.\]$",
    "refused": r"^error Trying to run an executable on a device that was configured "
    r"for compilation only\.",
    "counted": r"^1 compiled$",
}


def events(text):
    """The names of what has happened, in order."""
    return [
        name
        for line in text.splitlines()
        for name, form in EVENTS.items()
        if re.search(form, line)
    ]


@pytest.mark.parametrize(
    ("connection", "order"),
    {
        "ALWAYS": "attached configured compiled right counted",
        "ON_DEMAND": "configured compiled attached right counted",
        "PRE_COMPILE": "configured compiled saved zeros counted",
        "NEVER": "configured compiled refused counted",
    }.items(),
)
def test_a_connection_type_decides_when_an_ipu_is_attached_to(text, connection, order):
    """When configured, when run, or never; the program is compiled in any case."""
    assert events(text("connection_types", connection)) == order.split()
