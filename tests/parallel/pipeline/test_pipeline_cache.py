"""The programs of a pipeline's IPUs are found again, as others are."""

import json
import os
import pathlib
import sys

import children
import numpy as np
import pytest
from helpers import DEADLOCK_S

pytestmark = [pytest.mark.process, pytest.mark.long]

PROGRAMS = pathlib.Path(__file__).parents[2] / "support"


def run(folder, ipus, connection="ALWAYS", seed=None, extra=0, counts=()):
    """Trains in a process of its own; what it prints, and its log."""
    done = children.run(
        [
            sys.executable,
            str(PROGRAMS / "cached_pipeline.py"),
            str(ipus),
            connection,
            str(extra),
            *map(str, counts),
        ],
        env={
            **os.environ,
            **({} if seed is None else {"PYTHONHASHSEED": str(seed)}),
            "TF_CPP_MIN_LOG_LEVEL": "3",
            "TF_POPLAR_FLAGS": f"--executable_cache_path={folder}",
        },
        capture_output=True,
        text=True,
        timeout=DEADLOCK_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), done.stderr


@pytest.mark.parametrize("ipus", [2, pytest.param(4, marks=pytest.mark.soak)])
def test_a_second_process_compiles_nothing_of_a_pipeline(tmp_path, ipus):
    """A program for each IPU and the one around them, which all copies share."""
    first, _ = run(tmp_path / "cache", ipus)
    second, _ = run(tmp_path / "cache", ipus, seed=7 if ipus == 2 else None, extra=5)

    assert (first["compiles"], first["read"]) == (3, 0)
    assert (second["compiles"], second["read"]) == (0, 3)
    assert second["losses"] == first["losses"]
    assert second["weights"] == first["weights"]
    assert len(first["losses"]) == 4 * ipus // 2


def test_a_second_process_with_another_count_compiles_nothing(tmp_path):
    """Where the count is a tensor: its value is in no key."""
    first, _ = run(tmp_path / "cache", 2, counts=[4])
    second, _ = run(tmp_path / "cache", 2, counts=[12])

    assert (first["compiles"], first["read"]) == (3, 0)
    assert (second["compiles"], second["read"]) == (0, 3)
    assert (len(first["losses"]), len(second["losses"])) == (4, 12)


@pytest.mark.parametrize("ipus", [pytest.param(2, marks=pytest.mark.soak), 4])
def test_a_pipeline_can_be_compiled_before_there_are_ipus(tmp_path, ipus):
    """PRE_COMPILE saves all of its programs and changes nothing; ALWAYS then runs them."""
    before, log = run(tmp_path / "cache", ipus, "PRE_COMPILE")
    after, _ = run(tmp_path / "cache", ipus)

    assert before["compiles"] == 3
    assert log.count("A pre-compiled Poplar program has been saved to") == 3
    np.testing.assert_array_equal(before["losses"], 0)
    assert (after["compiles"], after["read"]) == (0, 3)
    assert all(loss > 0 for loss in after["losses"])
    assert after["weights"] != before["weights"]
