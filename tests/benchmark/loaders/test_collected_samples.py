"""Samples that a loader collects in lists, and the size of its batches."""

import contextlib

import numpy as np
import pyarrow as pa
import pytest

from ipufeed.benchmark.device.measure import measure_through
from ipufeed.benchmark.loaders.extents import Extents
from ipufeed.benchmark.loaders.rows import LEADING, Rows
from ipufeed.benchmark.measuring.measure import measure
from ipufeed.sources.loaders.kinds import kind_of

IMAGES = [np.zeros((3, 5, 5), np.float32)] * 8


def made(module, name, **members):
    """Returns an object as of a framework's class."""
    members.setdefault("__iter__", lambda self: iter([IMAGES] * 4))
    return type(name, (), {"__module__": module, **members})()


def test_what_spdl_collects_are_samples():
    """Not the channels of the images that `aggregate` lists."""

    class Pipeline:
        __module__ = "spdl.pipeline._pipeline"

        def __iter__(self):
            return iter([IMAGES, IMAGES[:5]])

        def auto_stop(self):
            return contextlib.nullcontext()

    result = measure(Pipeline())

    assert result.dataset["samples_per_element"] == 6.5
    assert result.dataset["samples_rule"].startswith("the length of the list (")


def test_an_array_of_spdl_is_compared_with_the_one_before():
    """Only lists are counted one by one."""
    rows = Rows(collects=True)
    Extents(rows).of((np.zeros((8, 2)), np.zeros(8)))

    assert not rows.searches
    assert rows.where == LEADING


@pytest.mark.parametrize("measured", [measure, measure_through])
def test_the_batch_size_of_spdls_loader_is_known(measured):
    loader = made("spdl.dataloader._dataloader", "DataLoader", _batch_size=8)
    result = measured(loader)

    assert result.dataset["loader"] == "spdl DataLoader"
    assert result.dataset["samples_per_element"] == 8


@pytest.mark.parametrize("size", [None, 8])
def test_a_loader_of_spdl_without_batches_gives_elements(size):
    kind = kind_of(made("spdl.dataloader", "DataLoader", _batch_size=size))

    assert (kind.size, kind.batch) == (size, size and "batch_size=8")


def node(name, source=None, **members):
    module = "torchdata.nodes.some"
    base = type("BaseNode", (), {"__module__": "torchdata.nodes.base_node"})
    members = {"__module__": module, "__iter__": lambda self: self, **members}
    kind = type(name, (base,), {**members, "__next__": lambda self: IMAGES})
    made_one = kind()
    made_one.source = source
    return made_one


BATCHER = node("Batcher", node("IterableWrapper"), batch_size=8)


@pytest.mark.parametrize(
    ("last", "size"),
    [
        (BATCHER, 8),
        (node("Prefetcher", node("ParallelMapper", BATCHER, prebatch=None)), 8),
        (node("ParallelMapper", node("Batcher", BATCHER, batch_size=2), prebatch=2), 8),
        (node("ParallelMapper", BATCHER, prebatch=8), None),
        (node("Unbatcher", BATCHER), None),
        (node("IterableWrapper"), None),
    ],
)
def test_nodes_of_torchdata_show_how_they_batch(last, size):
    loader = made("torchdata.nodes.loader", "Loader", root=last)
    kind = kind_of(loader)

    assert (kind.name, kind.size, kind.passes) == ("torchdata Loader", size, True)
    assert kind_of(last).size == size
    assert not kind_of(last).passes
    assert (kind.batch is None) == (size is None)


def test_samples_of_nodes_are_those_of_the_batcher():
    loader = made("torchdata.nodes.loader", "Loader", root=BATCHER)

    assert measure(loader).dataset["samples_per_element"] == 8
    assert measure_through(loader).dataset["samples_per_element"] == 8


def test_a_row_of_a_stream_shows_whether_it_is_a_batch():
    """A stream of Hugging Face may not know its columns."""
    batch = pa.table({"ids": [[1, 2, 3]], "text": [["a", "b", "c"]]})
    row = pa.table({"ids": [1], "text": ["a"]})
    of_batches, of_rows = Rows(in_lists=True), Rows(in_lists=True)

    assert of_batches.of(batch, 1) == 3
    assert of_batches.is_shown
    assert of_rows.of(row, 1) == 1
    assert not of_rows.is_shown
    assert not of_rows.searches
    assert Rows(batches=True, in_lists=True).of(row, 1) is None
