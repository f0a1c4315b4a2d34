"""What advice promises: an edit that helps, or silence.

Sources and functions sleep; a rule for CPU time burns some.
"""

import copy
import time

import pytest
import tensorflow as tf
from slow_stages import advice_for, burns, codes, endless, explained, sleeps
from tensorflow.python.data.experimental.ops import testing

from ipufeed.benchmark.advice.advice import Case
from ipufeed.benchmark.advice.rules import find_advice
from ipufeed.benchmark.advice.verify import verify
from ipufeed.benchmark.graph.pipeline_graph import find_node


def files(folder, count):
    paths = []
    for number in range(count):
        paths.append(str(folder / f"{number}.tfrecord"))
        with tf.io.TFRecordWriter(paths[-1]) as writer:
            for _ in range(50):
                writer.write(b"record")
    return paths


@pytest.mark.measured
def test_a_serial_map_that_waits_is_to_be_made_parallel():
    """The edit is named as one would write it, with the stage's name."""
    first = advice_for(endless().map(sleeps(0.004)))[0]

    assert first.code == "serial_map"
    assert "map `decode` with num_parallel_calls=tf.data.AUTOTUNE" in first.text
    assert first.gain > 1.5  # AUTOTUNE uses as many workers as there are CPUs


@pytest.mark.measured
def test_a_python_function_that_computes_is_not():
    """A second one would wait for the interpreter."""
    found = advice_for(endless().map(burns(0.004)))

    assert "serial_map" not in codes(found)
    assert "python_function" in codes(found)


@pytest.mark.measured
def test_a_serial_interleave_is_to_be_made_parallel():
    """The datasets in it can be read side by side."""
    dataset = endless().interleave(
        lambda x: endless().map(sleeps(0.004)), cycle_length=4, name="read"
    )

    assert codes(advice_for(dataset))[0] == "serial_interleave"


@pytest.mark.measured
def test_two_stages_of_one_thread_are_to_be_set_apart():
    """A source of 4 ms and a filter of 4 ms: neither can be parallel."""
    slow = sleeps(0.004, "keep")
    source = endless().apply(testing.sleep(4_000))
    found = advice_for(source.filter(lambda x: slow(x) >= 0, name="keep"))

    assert codes(found) == ["missing_prefetch"]
    assert found[0].gain == pytest.approx(2, rel=0.25)


@pytest.mark.measured
def test_a_cache_is_proposed_for_files_that_fit_and_not_after_random_steps(tmp_path):
    """It has to fit into half of the memory, and to hold what is the same each time."""

    def parse(record):
        size = tf.cast(tf.strings.length(record), tf.float32)
        square = tf.fill([300, 300], size)
        return tf.reduce_sum(square @ square)

    def dataset():
        records = tf.data.TFRecordDataset(files(tmp_path, 1))
        counted = tf.data.experimental.assert_cardinality(50)
        return records.map(parse).apply(counted)

    fits = advice_for(dataset(), memory_available=1 << 30)
    too_large = advice_for(dataset(), memory_available=1)
    shuffled = advice_for(dataset().shuffle(5), memory_available=1)

    assert "missing_cache" in codes(fits)
    assert "missing_cache" not in codes(too_large) + codes(shuffled)


@pytest.mark.long
def test_a_shuffle_that_holds_the_memory_is_too_large():
    """Or one that takes most of a long start; else it is left alone."""

    def dataset():
        return endless().map(lambda x: tf.zeros([1000])).shuffle(2000, name="mix")

    holds = advice_for(dataset(), memory_available=10_000_000)
    starts = advice_for(dataset(), memory_available=1 << 34, startup_seconds=42.0)
    fine = advice_for(dataset(), memory_available=1 << 34, startup_seconds=1.0)

    (found,) = [each for each in holds if each.code == "large_shuffle"]
    assert "shuffle `mix`" in found.text
    assert "it holds 8 MB" in found.text
    (found,) = [each for each in starts if each.code == "large_shuffle"]
    assert "the first element took 42 s" in found.text
    assert "large_shuffle" not in codes(fine)


def test_floats_made_of_bytes_are_cast_on_the_device_if_copies_matter():
    """Four times the bytes are copied; without copies that matter it is not advised."""
    pixels = tf.data.Dataset.from_tensors(tf.zeros([1000], tf.uint8)).repeat()
    dataset = pixels.map(lambda x: tf.cast(x, tf.float32) / 255.0, name="scale")
    floats = (
        tf.data.Dataset.from_tensors(tf.zeros([1000])).repeat().map(lambda x: x + 1)
    )

    assert "floats_from_bytes" in codes(advice_for(dataset, memcpy_share=0.5))
    assert "floats_from_bytes" not in codes(advice_for(dataset, memcpy_share=0.05))
    assert "floats_from_bytes" not in codes(advice_for(floats, memcpy_share=0.5))


@pytest.mark.measured
def test_a_small_function_is_called_for_batches_and_not_for_elements():
    """What it is called for costs more than what it does; a large one is left alone."""
    small = endless().map(lambda x: x * 2 + 1, name="scale").batch(1000)
    large = endless().map(sleeps(0.004)).batch(2)
    unlike = endless().map(lambda x: tf.reduce_sum(tf.fill([3], x))).batch(1000)

    # With two threads that alternate at microseconds, not in every run of a short time.
    explanation = explained(small, 4.0, cut=False)
    found = next(
        each
        for each in find_advice(Case(explanation, 4))
        if each.code == "map_before_batch"
    )
    assert "batch before map `scale`" in found.text
    assert "not be called for each" in found.text
    assert found.gain > 1.1
    assert "map_before_batch" not in codes(advice_for(large))
    assert "map_before_batch" not in codes(advice_for(unlike))


def uneven(x):
    """Waits long for each eighth element."""

    def run(value):
        time.sleep(0.024 if value % 8 == 0 else 0.001)
        return value

    return tf.numpy_function(run, [x], x.dtype)


@pytest.mark.measured
def test_workers_that_wait_for_their_turn_may_give_up_the_order():
    """Elements that are ready stand behind a slow one; --verify sees what that gives."""
    dataset = endless().map(uneven, 4, name="fetch")
    explanation = explained(dataset, 2.0)
    found = find_advice(Case(explanation, 4))

    assert codes(found) == ["strict_order"]
    assert "deterministic=False" in found[0].text
    edited = copy.deepcopy(explanation.graph.graph)
    found[0].edit(edited, found[0].node)
    assert find_node(edited, found[0].node).attr["deterministic"].s == b"false"
    verify(found, dataset, explanation.graph, 2.0, explanation.rate)
    assert found[0].measured_gain is not None, found[0].note
    loose = explained(endless().map(uneven, 4, deterministic=False), 2.0)
    assert "strict_order" not in codes(find_advice(Case(loose, 4)))
