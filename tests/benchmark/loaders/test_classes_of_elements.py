"""Elements of classes with fields, graphs and images: their parts, bytes and samples."""

import types

import numpy as np
import pytest

from ipufeed.benchmark.loaders.rows import Rows
from ipufeed.sources.loaders.leaves import (
    bytes_of,
    bytes_view,
    leaves_of,
    parts_of,
    spec_of,
)

IMAGE = np.zeros((4, 3), np.float32)
LABEL = np.arange(4)
SPEC = {"image": "float32 (4, 3)", "label": "int64 (4,)"}


class Struct:
    """As of msgspec."""

    __struct_fields__ = ("image", "label")

    def __init__(self, image, label):
        self.image, self.label = image, label


class Model(types.SimpleNamespace):
    """As of pydantic."""

    __pydantic_fields__ = types.MappingProxyType({"image": None, "label": None})


def pydantic_class():
    pydantic = pytest.importorskip("pydantic")
    arbitrary = pydantic.ConfigDict(arbitrary_types_allowed=True)
    return pydantic.create_model(
        "Sample", __config__=arbitrary, image=(np.ndarray, ...), label=(np.ndarray, ...)
    )


@pytest.mark.parametrize(
    "class_of",
    [
        lambda: Struct,
        lambda: Model,
        pydantic_class,
        lambda: types.SimpleNamespace,
    ],
    ids=["msgspec", "model", "pydantic", "namespace"],
)
def test_fields_are_parts(class_of):
    sample = class_of()(image=IMAGE, label=LABEL)

    assert spec_of(sample) == SPEC
    assert [bytes_of(leaf) for leaf in leaves_of(sample)] == [48, 32]
    assert Rows().of(sample, None) == 4


class BaseData:
    """As of PyG, whose import behind TensorFlow ends the process.

    Its keys are those of all nodes, and no node has a value for them.
    """

    __module__ = "torch_geometric.data.data"

    def __init__(self, parts, **numbers):
        self._parts = parts
        vars(self).update(numbers)

    def keys(self):
        return ["x", "ptr"]

    def __getitem__(self, key):
        return {}

    def to_dict(self):
        return self._parts


class OwnGraph(BaseData):
    """Of the user's module."""

    __module__ = "graphs"


NODES = {
    "user": {"x": np.zeros((50, 3), np.float32), "ptr": np.zeros(9, np.int64)},
    ("user", "buys", "item"): {"edge_index": np.zeros((2, 40), np.int64)},
}


@pytest.mark.parametrize("kind", [BaseData, OwnGraph])
def test_a_graph_with_nodes_of_several_types_has_their_bytes(kind):
    graph = kind(NODES)

    assert parts_of(graph) == NODES
    assert sum(map(bytes_of, leaves_of(graph))) == 50 * 3 * 4 + 9 * 8 + 80 * 8


@pytest.mark.parametrize("size", [8, None])
@pytest.mark.parametrize("name", ["num_graphs", "batch_size"])
def test_the_graphs_in_a_batch_are_its_samples(name, size):
    """Not the nodes, nor the graphs' bounds, of which there is one more."""
    batch = BaseData(NODES, **{name: 8})

    assert Rows(size, batches=True).of(batch, None) == 8
    assert Rows(size, batches=True).of(BaseData(NODES), None) is None


@pytest.mark.parametrize(
    ("mode", "size"), [("RGB", 384), ("L", 128), ("1", 128), ("F", 512), ("I;16", 256)]
)
def test_images_of_pil_have_the_bytes_of_their_pixels(mode, size):
    pil = pytest.importorskip("PIL.Image")
    image = pil.new(mode, (16, 8))

    assert bytes_of(image) == size
    assert size == np.asarray(image).nbytes


def test_an_image_that_is_not_decoded_stays_so(tmp_path):
    """Or the time of decoding would be that of the copy."""
    pil = pytest.importorskip("PIL.Image")
    pil.new("RGB", (16, 8)).save(tmp_path / "image.png")
    with pil.open(tmp_path / "image.png") as image:
        assert bytes_of(image) == 384
        assert bytes_view(image) is None
        assert image.tile  # what is left to decode
