"""Elements of PyTorch other than plain tensors: nested, packed, tensorclasses."""

import dataclasses

import numpy as np
import pytest

from ipufeed.benchmark.loaders.rows import Rows
from ipufeed.benchmark.measuring.loader import seems_batched
from ipufeed.sources.loaders.leaves import leaves_of, parts_of, shape_of, spec_of

LENGTHS = [3, 2, 1, 4]


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


def sequences(torch):
    return [torch.ones(length, 5) for length in LENGTHS]


class Nested:
    """As a nested tensor of torch, whose compiler behind TensorFlow ends the process."""

    is_nested = True
    dtype = "torch.float32"

    @property
    def shape(self):
        raise RuntimeError("Internal error: NestedTensorImpl doesn't support sizes.")

    def size(self, axis):
        return 4 if axis == 0 else "j1"

    def dim(self):
        return 3


def test_a_nested_tensor_has_as_many_samples_as_sequences():
    nested = Nested()

    assert shape_of(nested) == (4, None, None)
    assert Rows(4, True).of(nested, None) == 4
    assert spec_of({"x": nested}) == {"x": "float32 (4, None, None)"}


def test_a_nested_tensor_alone_is_a_batch():
    """A plain tensor alone need not be one."""
    assert seems_batched(Nested(), Rows(), agrees=True)
    assert not seems_batched(np.zeros(4), Rows(), agrees=True)


@pytest.mark.parametrize("sort", [True, False])
@pytest.mark.parametrize("size", [4, None])
def test_packed_sequences_are_the_samples(torch, sort, size):
    pack = torch.nn.utils.rnn.pack_sequence
    ordered = sorted(sequences(torch), key=len, reverse=True)
    packed = pack(ordered if sort else sequences(torch), enforce_sorted=sort)
    rows = Rows(size, True)

    assert rows.of(packed, None) == 4
    # A path that the first element gave would lead to the steps, as many as sequences.
    assert rows.of(pack(ordered[:2], enforce_sorted=sort), None) == 2
    assert Rows(size, True).of({"x": packed, "y": torch.ones(4)}, None) == 4


class Batched:
    """As of the tensordict package, whose import behind TensorFlow ends the process."""

    def keys(self):
        return ["image", "label"]

    def __getitem__(self, index):
        raise ValueError("Is indexed along its batch dimensions.")


@dataclasses.dataclass
class TensorClass(Batched):
    image: np.ndarray
    label: np.ndarray


def test_fields_of_a_tensorclass_are_parts():
    batch = TensorClass(np.ones((4, 3)), np.ones(4))

    assert list(parts_of(batch)) == ["image", "label"]
    assert [leaf.shape for leaf in leaves_of(batch)] == [(4, 3), (4,)]
    assert Rows(None, True).of(batch, None) == 4


def test_a_mapping_that_cannot_give_its_parts_is_an_object():
    element = Batched()

    assert parts_of(element) is None
    assert leaves_of(element) == [element]
    assert spec_of(element) == "Batched"
