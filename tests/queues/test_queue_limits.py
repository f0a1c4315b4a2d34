"""What queues refuse, and the numbers that their limits take."""

from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from ipufeed.keras.model_options import (
    set_infeed_queue_options,
    set_outfeed_queue_options,
)
from ipufeed.queues import (
    IPUInfeedQueue,
    IPUOutfeedMode,
    IPUOutfeedQueue,
    interrupt,
    limits,
)


def test_the_counters_of_a_forked_child_are_refused(monkeypatch):
    infeed = IPUInfeedQueue(tf.data.Dataset.from_tensors(1.0))
    monkeypatch.setattr(interrupt, "_calling_process", -1)
    with pytest.raises(tf.errors.FailedPreconditionError, match="was forked from"):
        infeed.stats()


@pytest.mark.parametrize("seconds", [np.float32(30), np.int64(30), 30])
def test_stall_reports_take_any_real_number(seconds):
    limits.set_stall_report(seconds)


@pytest.mark.parametrize("seconds", [2**63, float("inf")])
def test_stall_reports_contain_the_upper_limit(seconds):
    with pytest.raises(ValueError, match=r"below 2\*\*63 ns"):
        limits.set_stall_report(seconds)


def test_depths_may_be_arrays_without_dimensions():
    """As the counts of loops."""
    queue = IPUInfeedQueue(tf.data.Dataset.range(1), prefetch_depth=np.array(3))

    assert queue._prefetch_depth == 3
    assert type(queue._prefetch_depth) is int
    with pytest.raises(ValueError, match="prefetch_depth must be an integer"):
        IPUInfeedQueue(tf.data.Dataset.range(1), prefetch_depth=np.array([3]))


@pytest.mark.parametrize("name", [1, True, b"x"])
@pytest.mark.parametrize(
    "queue",
    [
        lambda name: IPUInfeedQueue(tf.data.Dataset.range(1), feed_name=name),
        lambda name: IPUOutfeedQueue(feed_name=name),
        lambda name: set_infeed_queue_options(SimpleNamespace(), feed_name=name),
        lambda name: set_outfeed_queue_options(SimpleNamespace(), feed_name=name),
    ],
    ids=["infeed", "outfeed", "infeed of Keras", "outfeed of Keras"],
)
def test_the_name_of_a_feed_must_be_a_str(queue, name, caplog):
    """Although it has no effect."""
    with pytest.raises(TypeError, match="`feed_name` must be a str or None, got "):
        queue(name)

    assert caplog.text == ""


def test_errors_of_eager_calls_are_their_text_alone():
    """Without the name of a node that no program has, or of an operation."""

    def refused(element):
        return lambda: IPUInfeedQueue(tf.data.Dataset.from_tensors(element)).initializer

    def program():
        last.enqueue(1.0)

    last = IPUOutfeedQueue(outfeed_mode=IPUOutfeedMode.LAST)
    tf.function(program).get_concrete_function()
    never_run = IPUInfeedQueue(tf.data.Dataset.from_tensors(1.0))
    calls = {
        "Unsupported datatype int64": refused(tf.zeros([2], tf.int64)),
        "Detected an input tensor": refused(tf.zeros([0])),
        "Infeed with id=": lambda: never_run.deleter,
        "Trying to get the last value": last.dequeue,
    }
    for text, call in calls.items():
        with pytest.raises(tf.errors.OpError, match=f"^{text}") as error:
            call()
        assert error.value.message == str(error.value)
        assert "[Op:" not in error.value.message
