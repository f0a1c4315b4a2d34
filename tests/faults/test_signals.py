"""Faults of processes: Ctrl-C, SIGTERM, exit and fork, each in a process of its own.

python cases.py CASE --> stdout: what came of it; the exit code
"""

import concurrent.futures
import pathlib
import signal
import sys

import children
import pytest
from helpers import DEADLOCK_S

pytestmark = [pytest.mark.process, pytest.mark.long]

HERE = pathlib.Path(__file__).parent

# Case -> exit code.
CASES = {
    "interrupted in a dequeue, in a session": 0,
    "interrupted in a dequeue, by a strategy": 0,
    "interrupted in a dequeue, in executor mode": 0,
    "interrupted in an enqueue, by a strategy": 0,
    "interrupted while it is compiled": 0,
    "interrupted in an exchange of replicas": 0,
    "interrupted in a pipeline": 0,
    "interrupted in copies of one": 0,
    "interrupted in a wait for a process": 0,
    "interrupted twice": 0,
    "interrupted behind a handler that chains": 0,
    "terminated": -signal.SIGTERM,
    "terminated behind a handler that chains": -signal.SIGTERM,
    "terminated with a handler": 143,
    "exit while a thread is blocked in a program": 0,
    "exit while a stream is waited for": 0,
    "fork that uses a queue: dequeue": 0,
    "fork that uses a queue: stream": 0,
    "fork that uses a queue: session": 0,
    "fork that ignores the queues": 0,
}


def play(case):
    return children.run(
        [sys.executable, str(HERE / "cases.py"), case],
        capture_output=True,
        text=True,
        timeout=DEADLOCK_S,
        check=False,
    )


@pytest.fixture(scope="module")
def played():
    """All cases, two at a time: starting TensorFlow is what takes the time."""
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        return dict(zip(CASES, pool.map(play, CASES), strict=True))


@pytest.mark.parametrize("case", CASES)
def test_a_process_ends_as_it_should(played, case):
    """Rows 10 to 13, 23 and 28: the exit code, and no crash."""
    done = played[case]
    assert done.returncode == CASES[case], done.stdout + done.stderr
    assert "Fatal Python error" not in done.stderr
    assert "terminate called" not in done.stderr


@pytest.mark.parametrize("case", [case for case in CASES if "interrupted" in case])
def test_ctrl_c_is_a_keyboard_interrupt_and_the_device_lives_on(played, case):
    """Rows 10 to 12: raised where the program was run; the next one runs."""
    lines = played[case].stdout.splitlines()
    assert lines == ["KeyboardInterrupt", "after: [0.0, 1.0, 2.0]"], played[case].stderr


def test_a_forked_child_gets_an_error(played):
    """Row 28: an error at once, that says what to do; the parent goes on."""
    for use in ("dequeue", "stream", "session"):
        lines = played[f"fork that uses a queue: {use}"].stdout.splitlines()
        assert "spawn" in lines[0]
        assert lines[1:] == ["child: 0", "after: [0.0, 1.0, 2.0]"]
    lines = played["fork that ignores the queues"].stdout.splitlines()
    assert lines == ["child: 0", "after: [0.0, 1.0, 2.0]"]


def test_a_handler_of_sigterm_may_end_the_program(played):
    """Row 13: one that says so with the attribute `stops_programs` runs at once."""
    assert played["terminated with a handler"].stdout.splitlines() == ["SystemExit"]
