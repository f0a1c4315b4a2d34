"""tools/side_by_side.py: stages of CI that run two at a time, and fail as they should."""

import os
import signal
import subprocess
import sys
import time

import pytest
from helpers import DEADLOCK_S, ROOT

pytestmark = pytest.mark.process

COMMAND = [sys.executable, str(ROOT / "tools" / "side_by_side.py")]
# Waits for a file that the other stage makes.
MEETS = "touch {own}; until [ -e {other} ]; do sleep 0.01; done; echo {own} has met"
WAITS = "echo $$ > pid; sleep 1000"


def run(folder, *stages):
    return subprocess.run(
        [*COMMAND, *stages],
        capture_output=True,
        text=True,
        timeout=DEADLOCK_S,
        check=False,
        cwd=folder,
    )


def appears(path):
    """The number that a file holds, once it is there."""
    deadline = time.monotonic() + DEADLOCK_S
    while not (path.exists() and path.read_text().strip()):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return int(path.read_text())


def is_gone(pid):
    """Whether a process has ended, or is about to."""
    deadline = time.monotonic() + DEADLOCK_S
    while os.path.exists(f"/proc/{pid}") and time.monotonic() < deadline:
        time.sleep(0.01)
    return not os.path.exists(f"/proc/{pid}")


def test_two_stages_run_at_a_time_and_a_third_after_them(tmp_path):
    """Each has its output in one piece, below its name."""
    done = run(
        tmp_path,
        *("first", MEETS.format(own="a", other="b")),
        *("second", MEETS.format(own="b", other="a")),
        *("third", "echo one; echo two >&2"),
    )

    assert done.returncode == 0, done.stdout + done.stderr
    blocks = dict(each.split(":", 1) for each in done.stdout.split("\n=== ")[1:])
    assert "a has met\n" in blocks["first"]
    assert "b has met\n" in blocks["second"]
    assert blocks["third"].endswith(")\none\ntwo\n")


def test_a_stage_that_fails_shows_its_output_and_ends_the_run(tmp_path):
    """With its exit code; the other stage is ended, and a third one is not started."""
    fails = "until [ -s pid ]; do sleep 0.01; done; echo the reason; exit 7"
    done = run(tmp_path, "waits", WAITS, "fails", fails, "third", "touch started")

    assert done.returncode == 7
    assert "=== fails: FAILED with exit code 7" in done.stdout
    assert "the reason" in done.stdout
    assert is_gone(appears(tmp_path / "pid"))
    assert not (tmp_path / "started").exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_all_stages(tmp_path, number):
    """No process stays behind."""
    with subprocess.Popen([*COMMAND, "waits", WAITS], cwd=tmp_path) as process:
        try:
            pid = appears(tmp_path / "pid")
            process.send_signal(number)

            assert process.wait(DEADLOCK_S) == 128 + number
        finally:
            process.kill()  # after a failure it would wait for its stage
    assert is_gone(pid)


@pytest.mark.parametrize("arguments", [[], ["name"]])
def test_a_name_without_a_command_is_refused(tmp_path, arguments):
    """With the usage, and exit code 2."""
    done = run(tmp_path, *arguments)

    assert done.returncode == 2
    assert "side_by_side.py NAME COMMAND" in done.stderr
