"""Structures of tensors: what a feed carries, and how a body gets it."""

import collections

import pytest
import tensorflow as tf
from styles import entered

from ipufeed.errors import UnsupportedElementError
from ipufeed.queues import structure

Point = collections.namedtuple("Point", "x y")


@pytest.mark.parametrize(
    ("element", "arguments", "keywords"),
    [
        (1, [1], {}),
        ((1, 2), [1, 2], {}),
        ([1, 2], [1, 2], {}),
        ((), [], {}),
        ((1, (2, 3)), [1, (2, 3)], {}),
        (Point(1, 2), [1, 2], {}),
        ({"a": 1, "b": 2}, [], {"a": 1, "b": 2}),
        (({"a": 1},), [], {"a": 1}),
        ([{"a": 1}], [], {"a": 1}),
        ((1, {"a": 2}), [1, {"a": 2}], {}),
        (({"a": 1}, {"b": 2}), [{"a": 1}, {"b": 2}], {}),
        ({1: "one"}, [{1: "one"}], {}),
        (({1: "one"},), [{1: "one"}], {}),
        ({"a": {"b": 1}}, [], {"a": {"b": 1}}),
    ],
    ids=str,
)
def test_a_body_gets_an_element_as_arguments(element, arguments, keywords):
    """Sequences are spread, a dict alone gives keywords, anything else is one argument."""
    assert structure.body_arguments(element) == (arguments, keywords)


def test_a_structure_is_flattened_in_tensorflows_order():
    """Dicts by key, sequences by position."""
    scalar, vector = tf.TensorSpec([], tf.int32), tf.TensorSpec([3], tf.float32)

    flat = structure.check_spec({"b": vector, "a": (scalar, vector)})

    assert flat == [scalar, vector, vector]


@pytest.mark.parametrize(
    "spec",
    [
        tf.RaggedTensorSpec([None], tf.float32),
        tf.SparseTensorSpec([3], tf.float32),
        tf.data.DatasetSpec(tf.TensorSpec([], tf.float32)),
        tf.OptionalSpec(tf.TensorSpec([], tf.float32)),
        tf.TensorArraySpec([], tf.float32),
    ],
    ids=lambda spec: type(spec).__name__,
)
def test_what_is_not_a_dense_tensor_is_refused_by_its_place(spec):
    """With the component's number, its kind, and what to do."""
    with pytest.raises(UnsupportedElementError) as caught:
        structure.check_spec((tf.TensorSpec([], tf.float32), spec))

    assert f"Component 1 of the dataset is a {type(spec).__name__}" in str(caught.value)
    assert "tf.data.Dataset.map" in str(caught.value)


@pytest.mark.parametrize("dtype", [tf.string, tf.variant, tf.resource])
def test_a_dtype_without_bytes_is_refused_by_its_place(dtype):
    """With the dtypes that are carried."""
    with pytest.raises(UnsupportedElementError, match=f"Component 0 .* {dtype.name}"):
        structure.check_spec(tf.TensorSpec([], dtype))


@pytest.mark.parametrize("shape", [None, [None], [3, None]])
def test_a_shape_that_is_not_fully_defined_is_refused(shape):
    """In the words of the original, which name the usual remedy."""
    with pytest.raises(
        ValueError, match=r"is not fully defined.*`drop_remainder=True`"
    ):
        structure.check_spec(tf.TensorSpec(shape, tf.float32))


@pytest.mark.parametrize("style", ["graph", "function"])
def test_a_queue_and_its_type_have_the_original_s_names(style):
    """Programs that serialise iterators read them; the queue is not a part of the type."""

    def make_dataset():
        return tf.data.Dataset.from_tensors((1.0, 2)).repeat()

    with entered(style, "xla") as ready:
        queues = [ready.feed(make_dataset, prefetch_depth=4) for _ in range(2)]
    for queue in queues:
        for each in (queue, queue._type_spec):
            assert each._id == queue._id
            assert each._structure == make_dataset().element_spec
            assert (each._device_ordinal, each._prefetch_depth) == (0, 4)
            assert each._flat_structure == {
                "output_types": [tf.float32, tf.int32],
                "output_shapes": [tf.TensorShape([])] * 2,
            }
    assert queues[0]._type_spec == queues[1]._type_spec
