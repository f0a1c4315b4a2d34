"""What a loader says about its passes is compared with what they gave."""

import contextlib
import functools

import numpy as np
import pytest
import tensorflow as tf

from ipufeed.benchmark import Settings, measure


class Loader:
    """Elements of a length of its own; `counts` are those of each pass."""

    def __init__(self, length, *counts):
        self.length, self.counts = length, list(counts)

    def __len__(self):
        return self.length

    def __iter__(self):
        for _ in range(self.counts.pop(0)):
            yield np.zeros(4, np.float32)


def warning(result, code):
    """The message of the warning of that code, or None."""
    return {each["code"]: each["message"] for each in result.warnings}.get(code)


def test_passes_without_an_element_are_counted():
    """The advice is not to ask for more of them."""
    result = measure(Loader(40, 40, 0, 0), Settings(passes=3, memcpy=False))

    message = warning(result, "empty_passes")
    assert message.startswith("Only 1 of 3 passes had elements")
    assert len(result.epochs) == 1
    assert all("more passes" not in each["message"] for each in result.warnings)


def test_passes_of_a_tf_data_dataset_are_counted_too():
    """A generator that is exhausted in the first pass."""
    source = iter(range(30))
    dataset = tf.data.Dataset.from_generator(
        lambda: source, output_signature=tf.TensorSpec((), tf.int64)
    )

    result = measure(dataset, Settings(passes=2, memcpy=False))

    assert result.elements == 30
    assert warning(result, "empty_passes").startswith("Only 1 of 2 passes")


@pytest.mark.parametrize(
    ("length", "counts", "passes", "gave"),
    [(1000, [30], None, 30), (30, [30, 31], 2, 31), (2, [1], 1, 1)],
)
def test_a_wrong_length_is_warned_of(length, counts, passes, gave):
    """The first pass that differs from it."""
    loader = Loader(length, *counts)

    result = measure(loader, Settings(passes=passes, memcpy=False))

    message = warning(result, "wrong_length")
    assert message.startswith(f"The length is {length:,}, and a pass gave {gave} ")


def test_nothing_is_warned_of_when_length_and_passes_are_right():
    result = measure(Loader(30, 30, 30), Settings(passes=2, memcpy=False))

    assert warning(result, "wrong_length") is None
    assert warning(result, "empty_passes") is None


def test_a_run_that_ends_before_the_loader_does_not_judge_its_length():
    result = measure(Loader(1000, 900), Settings(epochs=1, elements=10, memcpy=False))

    assert result.elements == 10
    assert warning(result, "wrong_length") is None


def test_a_generator_function_is_called_for_each_pass():
    def batches(count=5):
        return (np.ones([2]) for _ in range(count))

    def generate(count=5):
        yield from batches(count)

    for loader in (generate, functools.partial(generate, 5)):
        result = measure(loader, Settings(passes=3))
        assert [each["elements_processed"] for each in result.epochs] == [5, 5, 5]
        assert result.dataset["loader"] == "generator"
    with pytest.raises(TypeError, match="give what it returns"):
        measure(batches, Settings(passes=3))


def test_a_generator_that_a_function_has_made_is_closed_at_the_end_of_the_run():
    """Its `finally` blocks end the loader's processes."""
    closed = []

    def generate():
        try:
            while True:
                yield np.ones([2])
        finally:
            closed.append(True)

    measure(generate, Settings(epochs=1, elements=10, memcpy=False))

    assert closed == [True]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_generator_that_catches_its_end_has_not_failed():
    class Loader:
        def __iter__(self):
            while True:
                with contextlib.suppress(BaseException):
                    yield np.ones([2])

    result = measure(Loader(), Settings(epochs=1, elements=10, memcpy=False))

    assert result.error is None
    assert result.elements == 10
