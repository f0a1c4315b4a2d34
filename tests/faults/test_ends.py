"""An end of the process while queues, programs, iterators and device tensors are alive.

python ends.py CASE --> the exit code that Python gives, and no crash
"""

import concurrent.futures
import pathlib
import sys

import children
import pytest
from helpers import DEADLOCK_S

pytestmark = [pytest.mark.process, pytest.mark.long]

HERE = pathlib.Path(__file__).parent

# (case, exit code): with an exception that is not caught, or with sys.exit.
ENDS = [
    ("keras fit", 1),
    ("iterators", 1),
    ("many feeders", 1),
    ("a blocked program", 1),
    ("a running program and a collector", 1),
    ("a program that is compiled", 1),
    ("a long compilation", 1),
    ("a long compilation", 7),
    ("a program in a session", 1),
    ("device tensors", 1),
    ("measurements", 1),
    ("all at once", 1),
    ("all at once", 7),
    ("all at once", 0),
]


def play(end):
    case, code = end
    return children.run(
        [
            sys.executable,
            str(HERE / "ends.py"),
            case,
            *([str(code)] if code != 1 else []),
        ],
        capture_output=True,
        text=True,
        timeout=DEADLOCK_S,
        check=False,
    )


@pytest.fixture(scope="module")
def played():
    """All, two at a time: starting TensorFlow is what takes the time."""
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        return dict(zip(ENDS, pool.map(play, ENDS), strict=True))


@pytest.mark.parametrize("end", ENDS, ids=lambda end: f"{end[0]}, {end[1]}")
def test_a_process_ends_with_its_exit_code(played, end):
    """Row 23: nothing crashes, and what is alive keeps nothing from its end."""
    done = played[end]
    assert done.returncode == end[1], done.stdout + done.stderr
    assert "Fatal Python error" not in done.stderr
    assert "terminate called" not in done.stderr
