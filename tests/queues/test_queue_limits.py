"""What queues refuse, and the numbers that their limits take."""

import numpy as np
import pytest
import tensorflow as tf

from ipufeed.queues import IPUInfeedQueue, interrupt, limits


def test_the_counters_of_a_forked_child_are_refused(monkeypatch):
    infeed = IPUInfeedQueue(tf.data.Dataset.from_tensors(1.0))
    monkeypatch.setattr(interrupt, "_calling_process", -1)
    with pytest.raises(tf.errors.FailedPreconditionError, match="was forked from"):
        infeed.stats()


@pytest.mark.parametrize("seconds", [np.float32(30), np.int64(30), 30])
def test_stall_reports_take_any_real_number(seconds):
    limits.set_stall_report(seconds)


@pytest.mark.parametrize("seconds", [2**63, float("inf")])
def test_stall_reports_say_the_upper_limit(seconds):
    with pytest.raises(ValueError, match=r"below 2\*\*63 ns"):
        limits.set_stall_report(seconds)
