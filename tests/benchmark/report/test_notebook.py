"""What a result shows in a notebook, and at a prompt."""

import dataclasses
from xml.etree import ElementTree

import pytest
import tensorflow as tf
from helpers import sleeping
from results import HOSTILE

from ipufeed.benchmark import Settings, measure


@pytest.fixture(scope="module")
def measured():
    """A quarter of a second of a source that takes 2 ms."""
    return measure(sleeping(0.002), Settings(seconds=0.25), name="known")


def test_a_result_at_the_prompt_is_one_line(measured):
    """Name, rate with its certainty, elements, and how much is the matter."""
    line = repr(measured)

    assert line.startswith("<Result 'known': ")
    assert " elements/s" in line
    assert f"{measured.elements} elements" in line
    assert len(line) < 160
    assert "\n" not in line


@pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE)
def test_a_name_is_text_in_a_notebook_and_at_the_prompt(measured, name):
    """What is shown is XML, and has nothing that runs or loads."""
    named = dataclasses.replace(measured, dataset={**measured.dataset, "name": name})

    root = ElementTree.fromstring(named._repr_html_())
    tags = {each.tag.rpartition("}")[2] for each in root.iter()}
    assert "script" not in tags
    assert "img" not in tags
    assert "svg" in tags
    assert repr(named).isprintable()
    assert len(repr(named)) < 250


def test_a_notebook_of_any_theme_can_be_read(measured):
    """No background and no colour of its own for text: they are the notebook's."""
    text = measured._repr_html_()

    assert "background" not in text
    assert 'fill="currentColor"' in text
    assert "#000" not in text
    assert "#fff" not in text


def test_an_empty_and_a_failed_result_are_shown_too():
    """With what is the matter, and no picture of nothing."""
    empty = measure(tf.data.Dataset.range(0))
    numbers = tf.data.Dataset.from_tensor_slices([1.0, 2.0, float("nan")])
    failed = measure(numbers.map(lambda x: tf.debugging.check_numerics(x, "broken")))

    assert "0 elements" in repr(empty)
    assert "<svg" not in empty._repr_html_()
    assert "failed with InvalidArgumentError" in repr(failed)
    assert "broken" in failed._repr_html_()
