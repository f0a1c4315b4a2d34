"""How many steps a call runs: what must divide what, in the words of the original."""

import logging

import pytest

from ipufeed.keras.data.steps import Steps, check_accumulation, count_steps


@pytest.mark.parametrize(
    ("size", "steps", "per_execution", "replicas", "expected"),
    [
        (16, None, 4, 1, Steps(16, 4)),
        (16, None, 4, 2, Steps(8, 4)),
        (16, 8, 8, 2, Steps(8, 8)),
        (None, 6, 3, 1, Steps(6, 3)),
    ],
)
def test_steps_are_counted_per_replica(size, steps, per_execution, replicas, expected):
    """From the data, unless the caller says how many."""
    assert count_steps(size, steps, per_execution, replicas, 1) == expected


def test_an_execution_is_never_longer_than_the_epoch(caplog):
    """The smaller number is used, with a warning; a remainder is dropped with another."""
    with caplog.at_level(logging.WARNING, "ipufeed"):
        assert count_steps(7, None, 100, 2, 1) == Steps(3, 3)

    output = [record.getMessage() for record in caplog.records]
    assert output == [
        "Dataset of length 7 is being evenly distributed between 2 replicas. The "
        "remaining 1 batches will be dropped.",
        "`steps_per_execution` has been set to 100 but the dataset provided only contains "
        "3 batches. Using 3 as `steps_per_execution`.",
    ]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((None, None, 1, 1, 1), "Could not infer the size of the data"),
        ((1, None, 1, 2, 1), "contains 1 items, but all 2 replicas are requested"),
        ((6, 4, 1, 2, 1), "Make sure the dataset contains at least 8 items"),
        (
            (16, None, 3, 1, 1),
            r"\(3\) must be a divisor of the number of batches \(16\)",
        ),
        ((16, None, 3, 2, 1), "in the dataset provided to this replica"),
        ((16, 8, 8, 1, 3), "generate at least 24 batches .* only generate 16 batches"),
        ((16, 4, 4, 2, 3), "generate at least 24 batches"),
        ((16, 0, 4, 1, 1), "must be a positive int, got 0"),
    ],
)
def test_what_cannot_be_run_is_refused(arguments, words):
    """With the numbers, before anything is compiled."""
    with pytest.raises(ValueError, match=words):
        count_steps(*arguments)


def test_an_execution_holds_whole_updates():
    """Of gradient accumulation; the error says which numbers do not fit."""
    check_accumulation(8, 4)
    check_accumulation(8, None)
    with pytest.raises(
        RuntimeError, match=r"\(set to 6\) is not divisible by .* \(4\)"
    ):
        check_accumulation(6, 4)
    with pytest.raises(RuntimeError, match="The pipelined model has been"):
        check_accumulation(6, 4, pipelined=True)
