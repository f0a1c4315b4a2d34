"""A generator's dataset that ends before its first element has been requested."""

import weakref

import pytest
from tensorflow.python.data.ops.dataset_ops import DatasetV2

from ipufeed.queues import IPUInfeedQueue


class Argument:
    pass


@pytest.fixture
def state():
    """The state of one generator, as a queue closed at once leaves it."""
    assert IPUInfeedQueue  # connects the packages
    return DatasetV2._GeneratorState(lambda *_: iter([1, 2]))


def test_an_end_before_the_first_element_is_not_an_error(state):
    """TensorFlow would log a KeyError with its traceback."""
    argument = Argument()
    alive = weakref.ref(argument)
    number = state.get_next_id(argument)
    del argument
    state.iterator_completed(number)
    assert alive() is None


def test_an_end_after_the_first_element_forgets_the_iterator(state):
    first, second = state.get_next_id(), state.get_next_id()
    assert next(state.get_iterator(first)) == 1
    state.iterator_completed(first)
    assert next(state.get_iterator(second)) == 1
    assert next(state.get_iterator(second)) == 2
    with pytest.raises(KeyError):
        state.iterator_completed(first)
