"""The guides have how to read every number that there is."""

import dataclasses
import re

import pytest
import tensorflow as tf
from helpers import ROOT

from ipufeed.benchmark import Settings
from ipufeed.benchmark.device.measure import measure_through
from ipufeed.queues import QueueStats


@pytest.mark.parametrize("field", dataclasses.fields(QueueStats), ids=lambda f: f.name)
def test_every_number_of_a_queue_has_a_row(field):
    """In docs/statistics.md, for both kinds of queue; the name needs none."""
    rows = re.findall(
        r"^\| `(\w+)` \| .+ \| .+ \|$",
        (ROOT / "docs" / "statistics.md").read_text(),
        re.MULTILINE,
    )

    assert field.name == "name" or rows.count(field.name) == 1


def test_every_number_of_a_link_is_described():
    """In docs/result.md; `_waits` and `_parks` stand next to the fraction they go with."""
    text = (ROOT / "docs" / "result.md").read_text()
    dataset = tf.data.Dataset.from_tensors(tf.zeros([])).repeat()
    links = measure_through(dataset, Settings(seconds=0.1)).links

    for link, numbers in links.items():
        if not isinstance(numbers, dict):
            assert f"`{link}`" in text
            continue
        for name in numbers:
            suffix = name[name.rfind("_") :]
            assert (
                f"`{link}.{name}`" in text
                or f"| `{link}` |" in text
                or f"`{suffix}`" in text
                or f"`{name}`" in text
            ), f"{link}.{name}"
