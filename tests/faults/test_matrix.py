"""The list of faults in README.md is whole and true; and what needs no program to show."""

import pathlib
import pickle
import re

import pytest
import tensorflow as tf
from feeding import numbers

from ipufeed.device.program.strategy import IPUStrategy
from ipufeed.queues import IPUInfeedQueue, IPUOutfeedQueue

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parents[1]
ROWS = 52


def test_every_row_has_a_test_or_a_reason():
    """Rows 1 to 52 in order, and each test that is named exists."""
    lines = (HERE / "README.md").read_text().splitlines()
    rows = [line.strip("|").split("|") for line in lines if re.match(r"\| \d", line)]
    assert [int(row[0]) for row in rows] == list(range(1, ROWS + 1))
    tests = "\n".join(path.read_text() for path in HERE.glob("test_*.py"))
    for _, _, where in rows:
        for name in re.findall(r"`(test_\w+)`", where):
            assert f"def {name}(" in tests
        for path in re.findall(r"tests/[\w/]+\.(?:cc|py)", where):
            assert (ROOT / path).exists(), path


@pytest.mark.parametrize("kind", [IPUInfeedQueue, IPUOutfeedQueue])
def test_a_queue_cannot_be_pickled(kind):
    """Row 29: with advice; a spawned process would get a copy without a ring."""
    queue = kind(numbers()) if kind is IPUInfeedQueue else kind()
    with pytest.raises(TypeError, match="Make the queue in the process that uses it"):
        pickle.dumps(queue)


def test_an_iterator_cannot_be_saved_in_a_checkpoint(tmp_path):
    """Row 46: when it is saved, and not when it is restored."""
    with IPUStrategy().scope():
        iterator = iter(numbers())
        with pytest.raises(NotImplementedError, match="cannot be checkpointed"):
            iterator._gather_saveables_for_checkpoint()
    assert tf.executing_eagerly()


def test_no_wait_reads_the_clock_on_the_wall():
    """Row 50: neither in C++ nor in Python is there a wait that such a jump could end."""
    forbidden = re.compile(
        r"system_clock|CLOCK_REALTIME|gettimeofday|time\.time\(|sem_timedwait"
    )
    for folder in ("ipufeed/cc", "ipufeed/queues", "ipufeed/device"):
        for path in sorted((ROOT / folder).rglob("*.*")):
            if path.suffix in (".cc", ".h", ".py"):
                assert not forbidden.search(path.read_text()), path
