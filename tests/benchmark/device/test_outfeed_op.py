"""What the op that reads the results of a measured program refuses."""

import pytest
import tensorflow as tf

from ipufeed import _native
from ipufeed.queues import IPUOutfeedMode, IPUOutfeedQueue


def measure(outfeed, **attributes):
    def number(value):
        return tf.constant(value, tf.int64)

    run, infeed, requested_ns = (number(0) for _ in range(3))
    return _native.load().ipufeed_measure_outfeed(
        run, infeed, number(outfeed), requested_ns, **attributes
    )


def test_an_outfeed_that_is_not_there_is_refused():
    """With its number; no thread waits for it."""
    with pytest.raises(tf.errors.NotFoundError, match="Outfeed with id='123456789'"):
        measure(123456789)


def test_an_outfeed_that_keeps_the_last_result_only_is_refused():
    """It has no result for each element."""
    queue = IPUOutfeedQueue(outfeed_mode=IPUOutfeedMode.LAST)

    with pytest.raises(
        tf.errors.InvalidArgumentError, match="keeps the last result only"
    ):
        measure(queue._number)


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"words": 2000}, "`words` must be in \\[1, 1024\\], got 2000"),
        ({"most_entries": 3}, "`most_entries` must be even, got 3"),
    ],
)
def test_attributes_out_of_range_are_refused(attributes, message):
    """Before anything is waited for."""
    queue = IPUOutfeedQueue()

    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        measure(queue._number, **attributes)
