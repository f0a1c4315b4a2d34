"""Bytes and samples of elements that are like the one before, and of others."""

import contextlib
import copy
import random

import numpy as np
import pytest

from ipufeed.benchmark.loaders import extents
from ipufeed.benchmark.loaders.consumer import Consumer, Limits
from ipufeed.benchmark.loaders.extents import Extents
from ipufeed.benchmark.loaders.rows import Rows

IMAGE, LABEL = np.zeros((4, 3), np.float32), np.zeros(4, np.int32)
OBJECTS = np.array([b"a", "bc", None, 1], object)
# With their bytes and samples; of the last ones a part has no size.
ELEMENTS = [
    ({"image": IMAGE, "label": LABEL}, 64, 4),
    ({"image": IMAGE[:2], "label": LABEL[:2]}, 32, 2),
    ({"image": IMAGE.astype(np.float64), "label": LABEL}, 112, 4),
    ((IMAGE, LABEL), 64, 4),
    ([IMAGE, LABEL], 64, 4),
    ([IMAGE, LABEL, LABEL], 80, 4),
    (IMAGE, 48, 4),
    ((IMAGE, None), 48, 4),
    ((IMAGE, {"label": LABEL}), 64, 4),
    ({"image": IMAGE, "text": ["a", "bcd", "", "e"]}, 53, 4),
    ({"image": IMAGE, "text": ["a", "bcd", "", "efgh"]}, 56, 4),
    ({"image": IMAGE, "numbers": [1, 2, 3, 4]}, 80, 4),
    ({"image": IMAGE, "numbers": [1, 2, 3]}, 72, 0),
    ((IMAGE, {"label": LABEL[:2]}), 56, 0),
    ((IMAGE, [LABEL, LABEL]), 80, 4),
    ((IMAGE, (LABEL, LABEL)), 80, 4),
    ({"image": IMAGE, "both": {"label": LABEL, "weight": [0.5] * 4}}, 96, 4),
    ([{"image": IMAGE, "label": 3}, {"image": IMAGE, "label": 1}], 112, 0),
    ([1, 2, 3], 24, 3),
    ([*[1] * 20, "abc", *[1] * 20], 328, 41),  # not looked through
    ((np.float32(1), np.float32(2)), 8, 0),
    ((1, 2, 3), 24, 0),
    ({"image": IMAGE, "weight": 1.5}, 56, 0),
    ({"image": IMAGE, "objects": OBJECTS}, 48, 4),
    (OBJECTS, 0, 4),
]


def alone(element):
    """The bytes, samples and parts of unknown size of an element that is the first."""
    first = Extents(Rows())
    return (*first.of(element), first.opaque)


@pytest.mark.parametrize("number", range(len(ELEMENTS)))
def test_an_element_like_the_one_before_has_the_same_extent(number):
    element, size, samples = ELEMENTS[number]
    several = Extents(Rows())

    assert [several.of(element) for _ in range(3)] == [alone(element)[:2]] * 3
    assert alone(element)[0] == size
    assert alone(element)[1] == samples
    assert several.opaque == 3 * alone(element)[2]


@pytest.mark.parametrize("seed", range(20))
def test_what_was_before_is_in_no_extent(seed):
    drawn = random.Random(seed)
    chosen = [element for element, *_ in drawn.sample(ELEMENTS, 3)]
    several = Extents(Rows())
    opaque = 0

    for element in drawn.choices(chosen, k=40):
        size, _, unknown = alone(element)
        opaque += unknown

        assert several.of(element)[0] == size
        assert several.opaque == opaque


@pytest.mark.parametrize(
    ("element", "other", "leaves"),
    [
        ({"image": IMAGE, "label": LABEL}, {"image": IMAGE, "label": LABEL[:1]}, 2),
        ((IMAGE, {"label": LABEL, "weight": 2}), (IMAGE, {"label": LABEL}), 3),
        ([[1, 2, 3], LABEL], [[1, 2], LABEL], 2),
        ([[*[1] * 20, "abc", *[1] * 20], LABEL], [[1], LABEL], 2),  # not looked through
        (IMAGE, IMAGE[:3], 1),
    ],
)
def test_an_element_like_the_one_before_is_not_added_up_again(
    monkeypatch, element, other, leaves
):
    added_up = []
    extent_of = extents.extent_of
    monkeypatch.setattr(
        extents, "extent_of", lambda leaf: added_up.append(leaf) or extent_of(leaf)
    )
    several = Extents(Rows())
    for _ in range(5):
        several.of(copy.deepcopy(element))
    assert len(added_up) == leaves
    several.of(other)

    assert len(added_up) > leaves


@pytest.mark.parametrize("copied", [False, True])
def test_the_parts_of_an_element_are_read_once(copied):
    class Archive:
        """Reads an array for each request, as a file of several arrays does."""

        def __init__(self):
            self.arrays, self.reads = {"image": IMAGE, "label": LABEL}, 0

        def keys(self):
            return self.arrays.keys()

        def __getitem__(self, key):
            self.reads += 1
            return self.arrays[key]

    archives = [Archive() for _ in range(3)]
    consumer = Consumer(
        lambda: contextlib.nullcontext(iter(archives)), Limits(copy=copied)
    )
    consumer.run()

    assert consumer.counts.bytes == 3 * 64
    assert [archive.reads for archive in archives] == [2] * 3


def test_arrays_of_numpy_differ_by_shape_and_dtype():
    several = Extents(Rows())

    for _ in range(2):
        assert several.of((IMAGE, LABEL)) == (64, 4)
    assert several.of((IMAGE.astype(np.float16), LABEL)) == (40, 4)
    assert several.of((IMAGE[:, :2], LABEL)) == (48, 4)


def test_a_list_of_two_arrays_is_two_samples_and_a_dict_is_none():
    several = Extents(Rows())

    assert several.of((LABEL[:2], [IMAGE, IMAGE])) == (104, 2)
    assert several.of((LABEL[:2], {"a": IMAGE, "b": IMAGE})) == (104, 0)
    assert not several.same_leading_dimension


def test_a_list_with_none_is_a_column_and_a_tuple_is_none():
    several = Extents(Rows())

    assert several.of((LABEL[:2], [1, None])) == (16, 2)
    assert several.of((LABEL[:2], (1, None))) == (16, 0)
    assert not several.same_leading_dimension


@pytest.mark.parametrize("elements", ["dense", "sparse"])
def test_a_sparse_tensor_is_not_like_a_dense_one(elements):
    torch = pytest.importorskip("torch")
    dense = torch.zeros(4, 3)
    after = dense.to_sparse() if elements == "sparse" else torch.ones(4, 3)
    several = Extents(Rows())

    assert several.of(dense) == (48, 4)
    assert several.of(dense) == (48, 4)
    assert several.of(after)[0] == (0 if elements == "sparse" else 48)
    assert several.opaque == (elements == "sparse")


def test_arrays_of_jax_differ_by_shape_and_dtype():
    jnp = pytest.importorskip("jax").numpy
    several = Extents(Rows())

    for _ in range(2):
        assert several.of((jnp.zeros([4, 3]), jnp.zeros(4))) == (64, 4)
    assert several.of((jnp.zeros([2, 3]), jnp.zeros(2))) == (32, 2)
    assert several.of((jnp.zeros([2, 3], jnp.bfloat16), jnp.zeros(2))) == (20, 2)
