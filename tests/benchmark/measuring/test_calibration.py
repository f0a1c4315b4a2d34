"""What the calibration promises: a floor for the cost of an element, soon and cheaply."""

import pytest
import tensorflow as tf
from helpers import rss_bytes

from ipufeed.benchmark import Settings, measure
from ipufeed.benchmark.measuring.calibration import calibrate, null_pipeline


def test_the_null_pipeline_has_the_requested_structure():
    """As many tensors, and of together as many bytes."""
    spec = null_pipeline(10, 3).element_spec

    assert [tensor.shape.as_list() for tensor in spec] == [[4], [3], [3]]
    assert {tensor.dtype for tensor in spec} == {tf.uint8}


@pytest.mark.measured
def test_no_simple_source_is_faster_than_the_null_pipeline():
    """A ceiling that range() breaks would be none."""
    source = measure(tf.data.Dataset.range(10**9), Settings(seconds=1))

    assert (
        source.calibration["ceiling_elements_per_second"]
        > (source.steady["elements_per_second"])
    )


def test_huge_elements_are_calibrated_with_little_memory():
    """Not all of their bytes are copied."""
    small = calibrate(64 << 20, 1, copy=True)
    before = rss_bytes()
    huge = calibrate(1 << 40, 1, copy=True)

    assert huge.bytes_per_element == small.bytes_per_element == 64 << 20
    assert rss_bytes() - before < 256 << 20


@pytest.mark.measured
def test_the_copy_of_huge_elements_takes_the_time_of_all_their_bytes():
    """Though not all of them are copied."""
    small, huge = (calibrate(size, 1, copy=True) for size in (64 << 20, 1 << 40))

    share = huge.seconds_per_element / small.seconds_per_element
    assert 0.2 < share / ((1 << 40) / (64 << 20)) < 5


def test_elements_without_a_component_or_a_byte_are_calibrated():
    """An element may be an empty tuple, or hold nothing but empty tensors."""
    assert calibrate(0, 0, copy=True).seconds_per_element > 0
    assert calibrate(0, 2, copy=False).seconds_per_element > 0
