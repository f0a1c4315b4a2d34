"""What no loop reads is refused with the way to a loader."""

import queue

import pyarrow as pa
import pyarrow.dataset
import pytest

from ipufeed.sources.loaders.kinds import kind_of, why_not


async def _elements():
    yield 1


@pytest.mark.parametrize(
    ("source", "advice"),
    [
        (
            _elements(),
            "It is asynchronous: give what a `for` loop without `async` reads.",
        ),
        (
            queue.Queue(),
            "Give a generator function that yields what its `get()` returns.",
        ),
        (
            pyarrow.dataset.dataset(pa.table({"x": [1]})).scanner(),
            "Give its `to_batches()`, or a function that returns it.",
        ),
        (
            type("DataLoaders", (), {"__module__": "fastai.data.core"})(),
            "Give its `train`, or a function that returns it.",
        ),
        ({"x": 1}, None),
    ],
    ids=["asynchronous", "queue", "scanner", "fastai", "dict"],
)
def test_what_no_loop_reads_has_a_remedy(source, advice):
    assert kind_of(source) is None
    assert why_not(source) == advice
