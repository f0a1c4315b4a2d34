"""What measure() promises: true rates, exact counts, and a word where they mislead."""

import json
import re
import time

import numpy as np
import pytest
import tensorflow as tf
from results import SECTIONS
from warning_codes import codes

from ipufeed.benchmark import Settings, measure
from ipufeed.benchmark.measuring.calibration import null_pipeline
from ipufeed.benchmark.report.summary import summarize


@pytest.fixture(scope="module")
def known():
    """Two seconds of a source that waits 4 ms for each of the three samples of an element.

    With the times at which it had the samples: a busy machine delays both alike.
    """
    stamps = []

    def rows():
        while True:
            time.sleep(0.004)
            stamps.append(time.monotonic())
            yield [1.0] * 8

    signature = tf.TensorSpec([8], tf.float32)
    dataset = tf.data.Dataset.from_generator(rows, output_signature=signature).batch(3)
    result = measure(dataset, Settings(seconds=2), name="known")
    return result, np.diff(stamps[2::3])


@pytest.fixture
def known_rate(known):
    """What was measured of the source of a known rate."""
    return known[0]


@pytest.mark.measured
def test_a_known_rate_is_found(known):
    """Elements come as fast as the source says that it made them."""
    result, gaps = known
    period = 1 / result.steady["elements_per_second"]

    assert period == pytest.approx(np.median(gaps), rel=0.1)
    assert period >= 0.012 / 1.002


def test_rates_are_one_rate_in_several_units(known_rate):
    """Elements, samples of three, bytes of 96; and the interval is around it."""
    result = known_rate
    period = 1 / result.steady["elements_per_second"]

    assert result.steady["samples_per_second"] == pytest.approx(3 / period)
    assert result.steady["bandwidth"] == pytest.approx(96 / period / 1e9)
    low, high = result.steady["interval"]
    assert low <= 1 / period <= high


def test_percentiles_are_in_order_and_start_up_has_the_first_element(known_rate):
    """A sleep is never shorter than its duration."""
    latency = known_rate.latency

    assert latency["p50"] <= latency["p90"] <= latency["p99"] <= latency["max"]
    assert known_rate.startup["seconds"] >= 0.011


@pytest.mark.measured
def test_latency_and_queue_fit_the_known_rate(known):
    """Percentiles are those of the source; the consumer starved most of the time."""
    result, gaps = known

    assert result.latency["p50"] == pytest.approx(np.median(gaps) * 1e9, rel=0.1)
    assert result.queue["starved_share"] > 0.5
    assert result.queue["blocked_share"] < 0.05
    assert result.calibration["seconds_per_element"] < gaps.mean() / 4


def test_epochs_last_about_a_second_and_add_up(known_rate):
    """By time, epochs end with the first element past each second."""
    epochs = known_rate.epochs

    assert 1 <= len(epochs) <= 2  # one, if no element came in a whole second
    assert known_rate.elements == sum(epoch["elements_processed"] for epoch in epochs)
    assert sum(epoch["time_elapsed"] for epoch in epochs) > 1
    assert set(epochs[0]) == {
        "bandwidth",
        "elements_per_second",
        "elements_processed",
        "time_elapsed",
        "total_bytes_processed",
    }


def test_the_json_is_strict_and_complete(known_rate):
    """A strict parser reads it, and every section of the schema is there."""

    def refuse(constant):
        raise ValueError(constant)

    parsed = json.loads(known_rate.to_json(), parse_constant=refuse)

    assert list(parsed) == SECTIONS
    assert parsed["dataset"]["element_spec"] == "float32 (?, 8)"
    assert parsed["dataset"]["name"] == "known"


def test_fixed_counts_are_exact():
    """Epochs and elements fix the counts, whatever the time."""
    dataset = tf.data.Dataset.from_tensors(tf.zeros([4, 4])).repeat()

    result = measure(dataset, Settings(epochs=4, elements=25))

    assert [epoch["elements_processed"] for epoch in result.epochs] == [25] * 4
    assert [epoch["total_bytes_processed"] for epoch in result.epochs] == [1600] * 4
    assert result.settings["seconds"] is None


def test_one_element_gives_no_rate():
    """A single element gives a warning, never a rate of billions."""
    result = measure(tf.data.Dataset.range(1))
    messages = {warning["code"]: warning["message"] for warning in result.warnings}

    assert result.elements == 1
    assert result.steady is None
    assert result.latency is None
    assert messages == {
        "no_rate": "1 element cannot give a rate: that takes two, with some time between "
        "them.",
        "dataset_ended": "The dataset ended after its only element (requested: 10 s).",
    }
    assert "none: one element has no rate" in summarize(result)


def test_an_element_that_takes_all_the_time_is_an_error_with_a_longer_time():
    """What the first one took, and seconds for ten of its kind."""

    def slow(x):
        return tf.numpy_function(lambda v: (time.sleep(0.6), v)[1], [x], tf.int64)

    result = measure(tf.data.Dataset.range(100).map(slow), Settings(seconds=0.2))
    messages = {warning["code"]: warning["message"] for warning in result.warnings}

    assert result.elements == 1
    assert re.search(
        r"The first one took [\d.]+ m?s and 0\.2 s were requested: measure for longer "
        r"\(--seconds \d+\)\.",
        messages["no_rate"],
    )


def test_a_dataset_that_stalls_is_not_called_fast():
    """Ten quick elements and then silence: the rate comes with a warning."""

    def generate():
        yield from range(10)
        time.sleep(2.5)
        yield 10

    dataset = tf.data.Dataset.from_generator(
        generate, output_signature=tf.TensorSpec([], tf.int32)
    )

    result = measure(dataset, Settings(seconds=1))

    assert result.elements == 10
    assert "stalled" in codes(result)


def test_a_dataset_that_hangs_after_its_first_element_is_reported():
    """The result has no rate, and the reason is not that too little was requested."""

    def generate():
        yield 0
        time.sleep(4)
        yield 1

    dataset = tf.data.Dataset.from_generator(
        generate, output_signature=tf.TensorSpec([], tf.int32)
    )

    result = measure(dataset, Settings(seconds=1.5))

    messages = {each["code"]: each["message"] for each in result.warnings}
    assert re.match(
        r"No other element came in the [\d.]+ s after the first", messages["stalled"]
    )


@pytest.mark.measured
def test_a_null_pipeline_is_called_one():
    """A rate at the harness's own limit says nothing about the pipeline."""
    result = measure(null_pipeline(8, 1), Settings(seconds=2))

    assert "near_resolution" in codes(result)


def test_no_copy_reports_no_copy_and_a_copy_is_apart():
    """The copy's time has a section of its own."""
    dataset = tf.data.Dataset.from_tensors(tf.zeros([1 << 22])).repeat()

    without = measure(dataset, Settings(epochs=1, elements=50, memcpy=False))
    copied = measure(dataset, Settings(epochs=1, elements=50))

    assert without.memcpy is None
    assert copied.memcpy["bandwidth"] > 0
    assert copied.memcpy["seconds"] <= copied.epochs[0]["time_elapsed"]


def test_elements_that_are_only_counted_have_the_sizes_of_those_copied():
    """The tensors end in the feeder then, and their sizes pass through the feed."""
    row = tf.sparse.from_dense(tf.constant([0.0, 3.0, 0.0, 4.0]))
    dataset = tf.data.Dataset.range(40).map(
        lambda i: (
            tf.strings.as_string(i**3),
            tf.range(i),
            row,
            i < 7,
            tf.zeros([i, 9]),
        )
    )
    dataset = dataset.ragged_batch(7)

    copied, counted = (
        measure(dataset, Settings(passes=2, memcpy=memcpy)) for memcpy in (True, False)
    )

    sizes = [
        [
            (epoch["elements_processed"], epoch["total_bytes_processed"])
            for epoch in epochs
        ]
        for epochs in (copied.epochs, counted.epochs)
    ]
    assert sizes[0] == sizes[1]
    assert len(sizes[0]) == 2
    assert counted.dataset["samples_per_element"] == 40 / 6
    assert copied.dataset["samples_per_element"] == 40 / 6


def test_a_consumer_slower_than_the_dataset_sets_the_rate():
    """With large copies the rate is that of the copies, not of the ring filling up."""
    dataset = tf.data.Dataset.from_tensors(tf.zeros([1 << 21])).repeat()

    result = measure(dataset, Settings(epochs=1, elements=100))

    assert result.epochs[0]["time_elapsed"] >= result.memcpy["seconds"]


@pytest.mark.measured
def test_a_consumer_that_copies_blocks_a_dataset_that_is_there():
    """The copies' bandwidth is plausible, and the queue says which side waits."""
    dataset = tf.data.Dataset.from_tensors(tf.zeros([1 << 24])).repeat()

    result = measure(dataset, Settings(epochs=1, elements=100))

    assert 0.1 < result.memcpy["bandwidth"] < 200  # GB/s
    assert result.queue["blocked_share"] > 0.2


def test_samples_follow_the_batch_only_where_the_pipeline_batches():
    """The leading dimension of unbatched elements is not a batch size."""
    batched = tf.data.Dataset.range(100).batch(8).map(lambda x: x + 1).prefetch(1)
    unbatched = tf.data.Dataset.from_tensor_slices(tf.zeros([10, 5]))
    rebatched = batched.unbatch()
    disagreeing = tf.data.Dataset.range(40).batch(8).map(lambda x: (x, tf.zeros([3])))

    assert measure(batched).dataset["samples_per_element"] == 100 / 13
    assert measure(unbatched).dataset["samples_per_element"] == 1
    assert measure(rebatched).dataset["samples_per_element"] == 1
    assert "samples_unknown" in codes(measure(disagreeing))
    reported = measure(unbatched, Settings(items_per_element=5))
    assert reported.dataset["samples_per_element"] == 5


def test_windows_that_are_batched_are_batches():
    """As bucket_by_sequence_length() makes them; other windows are none."""
    lengths = tf.data.Dataset.range(12).map(lambda i: tf.ones([i % 3 + 1]))
    buckets = lengths.bucket_by_sequence_length(tf.size, [2], [4, 2])
    grouped = tf.data.Dataset.range(12).group_by_window(
        lambda i: i % 3, lambda _, window: window.batch(2), window_size=4
    )
    flat = tf.data.Dataset.range(12).group_by_window(
        lambda i: i % 3, lambda _, window: window.batch(2).unbatch(), window_size=4
    )

    assert measure(buckets).dataset["samples_per_element"] == 12 / 5
    assert measure(grouped).dataset["samples_per_element"] == 2
    assert measure(flat).dataset["samples_per_element"] == 1
