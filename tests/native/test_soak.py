"""A million elements through infeed, loop and outfeed; benchmarks/soak.txt has 10^8."""

import sys

import children
import pytest
from helpers import DEADLOCK_S, ROOT

pytestmark = pytest.mark.process

ELEMENTS = 1_000_000


def test_a_million_elements_arrive_in_order_and_once_each():
    """Device and host both compare each with the number that must come next."""
    done = children.run(
        [sys.executable, "-m", "benchmarks.soak", str(ELEMENTS)],
        capture_output=True,
        text=True,
        timeout=DEADLOCK_S,
        cwd=ROOT,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "1,000,000 received, 0 not the next one" in done.stdout
    assert "all in order, once each" in done.stdout
