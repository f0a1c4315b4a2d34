"""Queues, sessions, forks and handlers that come and go in another order than was made."""

import pathlib
import sys

import children
import pytest
from helpers import DEADLOCK_S

pytestmark = pytest.mark.process

SCRIPT = pathlib.Path(__file__).parent / "outlive.py"


@pytest.mark.long
def test_what_is_still_used_outlives_its_owner():
    """One process, since starting TensorFlow takes the time; see outlive.py."""
    done = children.run(
        [sys.executable, str(SCRIPT)],
        capture_output=True,
        text=True,
        timeout=DEADLOCK_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines() == [
        "read by another, one by one",
        "read by another, parallel",
        "a session closed",
        "handlers",
        "forks",
        "stuck feeders",
    ], done.stderr
