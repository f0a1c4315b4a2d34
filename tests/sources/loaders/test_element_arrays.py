"""The quick way to an element's arrays gives what the way for any element gives."""

import dataclasses

import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf

from ipufeed.errors import UnsupportedElementError
from ipufeed.sources.loaders import element_arrays
from ipufeed.sources.loaders.element_arrays import arrays_of, flat_reader


@dataclasses.dataclass
class Example:
    image: np.ndarray
    text: str


class Named(dict):
    pass


def ones(*shape, dtype=np.float32):
    return np.ones(shape, dtype)


# An element, and others with whether they are of its form.
ELEMENTS = {
    "array": (ones(3), {"same": (ones(3), True), "other": (ones(4), False)}),
    "dtype": (
        ones(3, dtype=np.int64),
        {
            "same": (ones(3, dtype=np.int64), True),
            "carried": (ones(3, dtype=np.int32), True),  # as which int64 is fed
            "float": (ones(3), False),
        },
    ),
    "dict": (
        {"b": ones(3), "a": ones(2, dtype=np.int16)},
        {
            "order": ({"a": ones(2, dtype=np.int16), "b": ones(3)}, True),
            "class": (Named(a=ones(2, dtype=np.int16), b=ones(3)), True),
            "more": ({"a": ones(2, dtype=np.int16), "b": ones(3), "c": ones(1)}, False),
            "fewer": ({"a": ones(2, dtype=np.int16)}, False),
            "name": ({"a": ones(2, dtype=np.int16), "c": ones(3)}, False),
            "text": ({"a": ones(2, dtype=np.int16), "b": ones(3), "c": "x"}, True),
        },
    ),
    "list": (
        [ones(3), {"x": 1.5}],
        {
            "same": ([ones(3), {"x": 2.5}], True),
            "tuple": ((ones(3), {"x": 2.5}), True),
            "longer": ([ones(3), {"x": 2.5}, ones(1)], False),
            "none": ([ones(3), {"x": 2.5}, None], True),
            "value": ([ones(3), {"x": 2}], False),
        },
    ),
    "texts": (
        {"x": ones(3), "words": ["a", "b"], "n": 3},
        {
            "same": ({"x": ones(3), "words": ["c"], "n": 4}, True),
            "numbers": ({"x": ones(3), "words": [1, 2], "n": 4}, False),
        },
    ),
    "keys": ({2: ones(3), 10: ones(2)}, {"same": ({10: ones(2), 2: ones(3)}, True)}),
    "fields": (
        Example(ones(3), "x"),
        {"same": (Example(ones(3), ""), True), "other": (Example(ones(2), ""), False)},
    ),
    "table": (
        {"rows": pa.record_batch({"x": np.arange(3)})},
        {"same": ({"rows": pa.record_batch({"x": np.arange(3)})}, True)},
    ),
    "numbers": (
        [1, 2, 3],
        {"same": ([4, 5, 6], True), "longer": ([1, 2, 3, 4], False)},
    ),
}
CASES = [
    pytest.param(first, *other, id=f"{name}-{case}")
    for name, (first, others) in ELEMENTS.items()
    for case, other in others.items()
]


@pytest.mark.parametrize(("first", "element", "is_alike"), CASES)
def test_arrays_are_those_of_the_way_for_any_element(first, element, is_alike):
    found = flat_reader(first)(element)

    assert (found is not None) == is_alike
    if found is not None:
        expected = tf.nest.flatten(arrays_of(element, "element"))
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert one.dtype == other.dtype
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("dtype", [">f4", ">i4", ">f2", ">i8", ">f8"])
def test_arrays_are_in_the_byte_order_of_the_machine(dtype):
    array = np.arange(5).astype(dtype)
    (found,) = flat_reader(array)(array)

    assert found.dtype.isnative
    assert arrays_of(array, "element").dtype.isnative
    assert found.tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("kind", [tuple, list])
def test_arrays_in_dicts_and_lists_take_the_quick_way(kind, monkeypatch):
    def make():
        return {"x": kind([ones(3), ones(2, dtype=np.int64)]), "y": ones(1)}

    read = flat_reader(make())

    def refuse(*arguments):
        raise AssertionError("the way for any element")

    monkeypatch.setattr(element_arrays, "_arrays_of", refuse)
    assert [each.shape for each in read(make())] == [(3,), (2,), (1,)]


@pytest.mark.parametrize("dtype", ["float32", "int64", "bfloat16"])
def test_tensors_of_torch_have_the_arrays_of_the_way_for_any_element(dtype):
    """Also those that NumPy cannot read: of bfloat16, and with a gradient."""
    torch = pytest.importorskip("torch")

    def make(*shape, **options):
        return {"x": torch.ones(shape, dtype=getattr(torch, dtype), **options)}

    read = flat_reader(make(2, 3))
    elements = [make(2, 3)]
    if dtype != "int64":  # which has no gradients
        elements.append(make(2, 3, requires_grad=True))
    for element in elements:
        (found,) = read(element)
        expected = arrays_of(element, "element")["x"]
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)
    assert read(make(3, 3)) is None


@pytest.mark.filterwarnings("ignore::UserWarning")  # Torch's, of what is not stable yet
@pytest.mark.parametrize("kind", ["sparse", "sparse rows", "nested", "no memory"])
def test_tensors_of_torch_without_an_array_are_refused_by_their_place(kind):
    torch = pytest.importorskip("torch")
    tensors = {
        "sparse": lambda: torch.eye(2).to_sparse(),
        "sparse rows": lambda: torch.eye(2).to_sparse_csr(),
        "nested": lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
        "no memory": lambda: torch.ones(2, device="meta"),
    }
    with pytest.raises(
        UnsupportedElementError, match=r"element\['x'\] must be an array"
    ):
        arrays_of({"x": tensors[kind]()}, "element")


def test_a_tensor_of_torch_with_a_sign_to_come_has_its_values():
    torch = pytest.importorskip("torch")
    found = arrays_of(torch.tensor([1 + 2j]).conj().imag, "element")

    assert found.tolist() == [-2]
