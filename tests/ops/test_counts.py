"""Counts of values that a program computes: histograms, and TensorFlow's bincount."""

import numpy as np
import pytest
import styles
import tensorflow as tf

import ipufeed as ipu
from ipufeed.ops.statistics_ops import histogram
from ipufeed.queues import IPUOutfeedQueue

pytestmark = [pytest.mark.usefixtures("clean_system"), pytest.mark.long]
VALUES = np.float32([[0.5, 1.5, 9.0], [1.0, 2.0, 3.0]])


def run(style, count):
    """Counts the elements of an infeed in a loop."""
    infeed = style.feed(lambda: tf.data.Dataset.from_tensor_slices(VALUES))
    outfeed = IPUOutfeedQueue()

    def body(x):
        return outfeed.enqueue(count(x))

    style.run(lambda: style.repeat(2, body, [], infeed))
    return style.read(outfeed.dequeue())


@pytest.mark.parametrize("style", styles.TWO, ids=", ".join, indirect=True)
def test_a_histogram_counts_the_elements_of_an_infeed(style):
    """Its size is that of the levels, whatever the values."""
    found = run(style, lambda x: histogram(x, tf.constant([1.0, 2.0])))
    np.testing.assert_array_equal(found, [[1, 1, 1], [0, 1, 2]])


@pytest.mark.parametrize("how", ["function", "graph"])
def test_a_bincount_of_elements_is_an_error_with_the_remedy(how):
    """Its size depends on the elements, which XLA does not know."""
    words = r"tf.math.bincount \('.*bincount/DenseBincount'\) .*unsorted_segment_sum"
    with (
        styles.entered(how, "xla") as style,
        pytest.raises(tf.errors.InvalidArgumentError, match=words),
    ):
        run(style, lambda x: tf.math.bincount(tf.cast(x, tf.int32), minlength=9))


def test_a_bincount_of_computed_values_is_an_error_with_the_remedy():
    """With a size from minlength = maxlength, too; the remedy compiles."""

    def program(count):
        def body(i, x):
            return i + 1, x + count(x % 6)

        start = [0, tf.range(6)]
        return tf.function(
            lambda: tf.while_loop(lambda i, x: i < 2, body, start), jit_compile=True
        )

    with pytest.raises(tf.errors.InvalidArgumentError, match="unsorted_segment_sum"):
        program(lambda x: tf.math.bincount(x, minlength=6, maxlength=6))()
    remedy = program(lambda x: tf.math.unsorted_segment_sum(tf.ones_like(x), x, 6))
    expected = np.arange(6)
    for _ in range(2):
        expected = expected + np.bincount(expected % 6, minlength=6)
    np.testing.assert_array_equal(remedy()[1], expected)


def test_an_operation_that_xla_lacks_is_an_error_with_the_remedy():
    run = tf.function(lambda x: tf.strings.as_string(x), jit_compile=True)
    with pytest.raises(
        tf.errors.InvalidArgumentError, match=r"outside_compilation_scope.*print_tensor"
    ):
        run(tf.ones([2]))


@pytest.mark.parametrize("how", ["function", "graph"])
@pytest.mark.parametrize("kind", ["sum", "mean", "max", "min", "prod"])
def test_a_sum_by_segments_is_an_error_with_the_remedy(kind, how):
    """The remedy gives what TensorFlow gives; the error keeps XLA's text."""
    ids = [0, 1, 1]
    dynamic = getattr(tf.math, f"segment_{kind}")
    words = r"math_ops\.segment_sum\(data, segment_ids, n\).*unsorted_segment_mean"
    with styles.entered(how, "xla") as style:
        with pytest.raises(tf.errors.InvalidArgumentError, match=words) as found:
            run(style, lambda x: dynamic(x, ids))
        assert "Detected unsupported operations" in found.value.message
        assert f"Segment{kind.capitalize()} (No registered" in found.value.message
        assert "outside_compilation_scope" not in found.value.message

    sized = getattr(tf.math, f"unsorted_segment_{kind}")
    remedy = ipu.math_ops.segment_sum if kind == "sum" else sized
    with styles.entered(how, "xla") as style:
        result = run(style, lambda x: remedy(x, ids, 2))
    np.testing.assert_allclose(result, [dynamic(x, ids) for x in VALUES])


def test_an_update_of_rows_that_xla_lacks_is_an_error_with_the_remedy():
    """Which is another lookup, and not the host; it gives what TensorFlow gives."""
    ids, v1 = [1, 4, 1], tf.compat.v1

    def updated(lookup, device):
        def net():
            table = v1.get_variable("table", initializer=np.ones([6, 3], np.float32))
            loss = tf.reduce_sum(tf.square(lookup(table, tf.constant(ids))))
            step = v1.train.AdagradOptimizer(0.1).minimize(loss)
            with tf.control_dependencies([step]):
                return table.read_value()

        with tf.Graph().as_default(), tf.device(device), v1.Session() as session:
            with v1.variable_scope("", use_resource=True):
                program = ipu.ipu_compiler.compile(net) if "IPU" in device else net()
            session.run(v1.global_variables_initializer())
            return np.squeeze(session.run(program))

    with pytest.raises(
        tf.errors.InvalidArgumentError, match="embedding_lookup"
    ) as found:
        updated(tf.gather, "/device:IPU:0")
    assert "outside_compilation_scope" not in found.value.message
    np.testing.assert_allclose(
        updated(ipu.embedding_ops.embedding_lookup, "/device:IPU:0"),
        updated(tf.gather, "/device:CPU:0"),
        rtol=1e-6,
    )


@pytest.mark.parametrize("place", ["input", "result"])
def test_a_string_of_a_compiled_program_is_an_error_with_the_remedy(place):
    """Which is not to run the operation on the host: there is none."""

    def program(x):
        return "text" if place == "result" else 1.0

    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        with ipu.scopes.ipu_scope("/device:IPU:0"):
            inputs = [tf.constant("text")] if place == "input" else [1.0]
            result = ipu.ipu_compiler.compile(program, inputs)
        with pytest.raises(
            tf.errors.InvalidArgumentError, match="an index into a list of them"
        ) as found:
            session.run(result)
    assert "outside_compilation_scope" not in found.value.message


def test_levels_may_have_a_rank_that_is_not_known_yet():
    @tf.function(input_signature=[tf.TensorSpec(None, tf.float32)])
    def count(levels):
        return histogram(tf.constant([1.0, 2.0, 3.0]), levels)

    np.testing.assert_array_equal(count([1.5, 2.5]), [1, 1, 1])
