"""Parts of the tests (`--part K/N`): each test is in one of them."""

import argparse
from collections import Counter
from pathlib import Path

import parts
import pytest


class Item:
    """A test of a file, with its markers."""

    def __init__(self, nodeid, *markers):
        self.nodeid = nodeid
        self.path = Path(nodeid.partition("::")[0])
        self._markers = markers

    def get_closest_marker(self, name):
        return name if name in self._markers else None


def test_each_test_is_in_one_part():
    """Files stay whole; of what is marked `soak` each test has a place of its own."""
    items = [
        *(Item(f"{name}.py::test[{i}]", "long") for name in "abc" for i in range(4)),
        *(Item(f"d.py::test[{i}]", "soak") for i in range(7)),
    ]

    found = [parts.within(items, part, 4) for part in range(4)]

    assert Counter(item.nodeid for part in found for item in part) == Counter(
        item.nodeid for item in items
    )
    for name in "abc":
        assert sorted(
            sum(item.path.stem == name for item in part) for part in found
        ) == [
            *(0, 0, 0),
            4,
        ]
    assert [sum(item.path.stem == "d" for item in part) for part in found] == [
        2,
        2,
        1,
        2,
    ]
    assert parts.within(items, 0, 1) == items


def test_a_part_has_its_number_and_how_many_there_are():
    """And anything else is refused by name."""
    assert parts.parse("2/6") == (2, 6)
    for wrong in ("6/6", "2", "-1/6", "a/b", "1/0", ""):
        with pytest.raises(argparse.ArgumentTypeError, match="must be K/N"):
            parts.parse(wrong)
