"""synthetic(): structure, contents, amount; its price is in the benchmark's targets."""

import numpy as np
import pytest
import tensorflow as tf

from ipufeed.benchmark import Settings, measure
from ipufeed.errors import SourceError
from ipufeed.sources import synthetic

SPEC = {
    "image": tf.TensorSpec([4, 5, 3], tf.uint8),
    "pair": (tf.TensorSpec([2], tf.float16), tf.TensorSpec([], tf.bool)),
    "text": tf.TensorSpec([2, 2], tf.string),
    "label": tf.TensorSpec([], tf.int64),
}


def test_elements_have_the_requested_structure():
    """Any nest, of numbers, bool and strings."""
    dataset = synthetic(SPEC, elements=3)

    assert dataset.element_spec == SPEC
    assert len(list(dataset)) == 3


def test_a_shape_and_a_dtype_are_enough():
    """uint8 by default, as images are."""
    assert synthetic((2, 3)).element_spec == tf.TensorSpec([2, 3], tf.uint8)
    assert synthetic([], "float32").element_spec == tf.TensorSpec([], tf.float32)


def test_the_seed_makes_the_contents():
    """The same seed gives the same element, another one another; it is not constant."""
    one, same, other = (
        next(iter(synthetic((999,), tf.float32, seed=seed))).numpy()
        for seed in (1, 1, 2)
    )

    np.testing.assert_array_equal(one, same)
    assert (one != other).mean() > 0.9
    assert 0 <= one.min() < 0.05 < 0.95 < one.max() < 1


def test_it_never_ends_unless_asked():
    """Infinite by default; none, or beyond a round, if that is wanted."""
    assert int(synthetic((1,)).cardinality()) == tf.data.INFINITE_CARDINALITY
    assert len(list(synthetic((1,), elements=0))) == 0
    assert len(list(synthetic((1,), elements=2500))) == 2500


def test_elements_take_the_requested_time():
    """A lower bound, which no busy machine can break: 100 elements of 2 ms."""
    result = measure(synthetic((1,), seconds=0.002), Settings(epochs=1, elements=100))

    assert result.epochs[0]["time_elapsed"] >= 0.99 * 0.2


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"spec": (None, 3)}, SourceError, r"needs all sizes: replace None by numbers"),
        ({"spec": "image"}, TypeError, "must be a shape such as"),
        ({"spec": SPEC, "dtype": "int8"}, TypeError, "`dtype` goes with a shape"),
        ({"spec": (2,), "dtype": "number"}, TypeError, "`spec` or `dtype`"),
        ({"spec": (2,), "dtype": tf.variant}, SourceError, "dtype variant"),
        ({"spec": (2,), "elements": -1}, ValueError, "`elements` must be at least 0"),
        ({"spec": {}}, ValueError, "`spec` must hold a tf.TensorSpec at least"),
        ({"spec": (2,), "elements": 1.5}, TypeError, "`elements` must be an int"),
        ({"spec": (2,), "elements": 2**63}, ValueError, r"must be below 2\*\*63"),
        (
            {"spec": (2,), "seed": None},
            TypeError,
            "`seed` must be an int, got NoneType",
        ),
        ({"spec": (2,), "seed": -1}, ValueError, "`seed` must be at least 0"),
        ({"spec": (2,), "seconds": -1}, ValueError, "`seconds` must be 0 or in"),
        ({"spec": (2,), "seconds": float("nan")}, ValueError, "`seconds` must be 0"),
        ({"spec": (2,), "seconds": "1"}, TypeError, "`seconds` must be a number"),
    ],
)
def test_bad_arguments_are_named(arguments, error, words):
    """What must be what, and what it was."""
    with pytest.raises(error, match=words):
        synthetic(**arguments)
