"""Each operation gives what its formula says, and its gradient is the formula's."""

import functools

import numpy as np
import pytest
import tensorflow as tf
from formulas import RNG, softmax
from scipy import special

import ipufeed as ipu

X = RNG.normal(size=(2, 6)).astype(np.float32)
IMAGES = RNG.normal(2, 3, size=(3, 5, 4, 8)).astype(np.float32)
TABLE = RNG.normal(size=(8, 3)).astype(np.float32)
ROWS = RNG.normal(size=(10, 2)).astype(np.float32)
IDS = [[0, 7, 3], [3, 9, -1]]


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def norm(x, groups, strided=True, epsilon=1.53e-5):
    """Group by group, channels last."""
    x = x.astype(np.float64)
    channels = x.shape[-1]
    result = np.empty_like(x)
    for group in range(groups):
        if strided:
            members = np.arange(channels) % groups == group
        else:
            members = np.arange(channels) // (channels // groups) == group
        part = x[..., members]
        axes = tuple(range(1, x.ndim))
        mean, variance = (f(part, axis=axes, keepdims=True) for f in (np.mean, np.var))
        result[..., members] = (part - mean) / np.sqrt(variance + epsilon)
    return result


def plain(kind, **arguments):
    """A norm without variables."""
    operation = getattr(ipu.normalization_ops, f"{kind}_norm")
    return functools.partial(operation, center=False, scale=False, **arguments)


def looked_up(table, ids=IDS):
    ids = np.asarray(ids)
    inside = (ids >= 0) & (ids < len(table))
    return np.where(inside[..., None], table[np.where(inside, ids, 0)], 0)


def sliced(dst, src, counts, sources, places, zero):
    result = np.zeros_like(dst) if zero else dst.copy()
    for count, source, place in zip(counts, sources, places, strict=True):
        result[place : place + count] = src[source : source + count]
    return result


SLICES = ([2, 3], [4, 7], [5, 1])
# name -> (operation, formula, inputs)
CASES = {
    "gelu": (
        ipu.nn_ops.gelu,
        lambda x: 0.5 * x * (1 + np.tanh(0.7978845608 * (x + 0.044715 * x**3))),
        [X],
    ),
    "gelu exact": (
        lambda x: ipu.nn_ops.gelu(x, approximate=False),
        lambda x: 0.5 * x * (1 + special.erf(x / np.sqrt(2))),
        [X],
    ),
    "hard_sigmoid": (
        ipu.nn_ops.hard_sigmoid,
        lambda x: np.clip(0.2 * x + 0.5, 0, 1),
        [3 * X],
    ),
    "swish": (ipu.nn_ops.swish, lambda x: x * sigmoid(x), [X]),
    "softmax": (ipu.nn_ops.softmax, softmax, [X]),
    "multi_conv": (
        ipu.nn_ops.multi_conv(lambda x: [x * x, tf.sin(x)]),
        lambda x: [x * x, np.sin(x)],
        [X],
    ),
    "group_norm": (plain("group"), lambda x: norm(x, 2), [IMAGES]),
    "group_norm, 4 groups of neighbours": (
        plain("group", groups=4, strided_channel_grouping=False),
        lambda x: norm(x, 4, strided=False),
        [IMAGES],
    ),
    "group_norm, channels first": (
        plain("group", groups=4, channels_axis=1),
        lambda x: np.moveaxis(norm(np.moveaxis(x, 1, -1), 4), -1, 1),
        [np.moveaxis(IMAGES, -1, 1)],
    ),
    "group_norm, channels first, neighbours": (
        plain("group", groups=4, channels_axis=1, strided_channel_grouping=False),
        lambda x: np.moveaxis(norm(np.moveaxis(x, 1, -1), 4, False), -1, 1),
        [np.moveaxis(IMAGES, -1, 1)],
    ),
    "layer_norm": (plain("layer"), lambda x: norm(x, 1), [IMAGES]),
    "layer_norm, rank 2": (
        plain("layer"),
        lambda x: norm(x, 1),
        [X],
    ),
    "instance_norm": (
        plain("instance"),
        lambda x: norm(x, 8),
        [IMAGES],
    ),
    "serialized_matmul": (
        lambda a, b: ipu.math_ops.serialized_matmul(a, b, 3, "a_rows_b_columns"),
        np.matmul,
        [X, RNG.normal(size=(6, 4)).astype(np.float32)],
    ),
    "serialized_matmul, transposed batches": (
        lambda a, b: ipu.math_ops.serialized_matmul(a, b, 5, "b_rows", True, True),
        lambda a, b: np.swapaxes(a, -1, -2) @ np.swapaxes(b, -1, -2),
        [
            RNG.normal(size=(2, 3, 4)).astype(np.float32),
            RNG.normal(size=(5, 3)).astype(np.float32),
        ],
    ),
    "segment_sum": (
        lambda x: ipu.math_ops.segment_sum(
            x, np.array([0, 0, 1, 1, 1, 3, 3, 3, 5, 9], np.int32), 6
        ),
        lambda x: np.stack(
            [x[:2].sum(0), x[2:5].sum(0), 0 * x[0], x[5:8].sum(0), 0 * x[0], x[8]]
        ),
        [ROWS],
    ),
    "segment_sum by int64, of which one is too large": (
        lambda x: ipu.math_ops.segment_sum(x, np.array([0, 2**32, 1, 1] + [7] * 6), 2),
        lambda x: np.stack([x[0], x[2:4].sum(0)]),
        [ROWS],
    ),
    "embedding_lookup": (
        lambda table: ipu.embedding_ops.embedding_lookup(table, IDS, 2),
        looked_up,
        [TABLE],
    ),
    "embedding_lookup of a scalar": (
        lambda table: ipu.embedding_ops.embedding_lookup(table, np.int64(2**32)),
        lambda table: 0 * table[0],
        [TABLE],
    ),
    "sequence_slice": (
        lambda dst, src: ipu.slicing_ops.sequence_slice(dst, src, *SLICES, False),
        lambda dst, src: sliced(dst, src, *SLICES, False),
        [ROWS[:8] + 1, ROWS],
    ),
    "sequence_slice of rows that do not exist": (
        lambda dst, src: ipu.slicing_ops.sequence_slice(
            dst, src, np.array([3, 2, 2, 2]), [8, -1, 2**32, 4], [0, 4, 6, 2**32], False
        ),
        lambda dst, src: np.stack(
            [*src[8:], 0 * src[0], dst[3], 0 * src[0], src[0], 0 * src[0], 0 * src[0]]
        ),
        [ROWS[:8] + 1, ROWS],
    ),
    "sequence_slice_unpack": (
        lambda src: ipu.slicing_ops.sequence_slice_unpack(src, *SLICES[:2], 7),
        lambda src: sliced(np.zeros([7, 2]), src, *SLICES[:2], [0, 2], True),
        [ROWS],
    ),
    "sequence_slice_pack": (
        lambda dst, src: ipu.slicing_ops.sequence_slice_pack(
            dst, src, SLICES[0], SLICES[2], True
        ),
        lambda dst, src: sliced(dst, src, SLICES[0], [0, 2], SLICES[2], True),
        [ROWS[:8] + 1, ROWS],
    ),
    "histogram_normalize": (
        ipu.statistics_ops.histogram_normalize,
        lambda hist: hist / hist.sum(),
        [np.array([1, 2, 5], np.float32)],
    ),
    "fixed_width_bins": (
        lambda x: ipu.statistics_ops.fixed_width_bins(x, 5),
        lambda x: np.linspace(x.min(), x.max(), 5),
        [X[0]],
    ),
    "normalise_image": (
        lambda x: ipu.image_ops.normalise_image(x, [1.0, 2, 3], [4.0, 5, 6], 2),
        lambda x: np.pad(
            (x * 2 - [1, 2, 3]) * [4, 5, 6], [(0, 0)] * (x.ndim - 1) + [(0, 1)]
        ),
        [RNG.normal(size=(2, 5, 3)).astype(np.float32)],
    ),
    "outlined_function": (
        ipu.functional_ops.outlined_function(lambda x: tf.sin(x) * x),
        lambda x: np.sin(x) * x,
        [X],
    ),
    "barrier": (
        lambda x: ipu.control_flow_ops.barrier((x, 2 * x), True),
        lambda x: (x, 2 * x),
        [X],
    ),
    "codelet_expression_op": (
        functools.partial(
            ipu.custom_ops.codelet_expression_op, lambda x: x * x - 0.5 * abs(x) + 1
        ),
        lambda x: x * x - 0.5 * np.abs(x) + 1,
        [X],
    ),
    "remap": (ipu.internal_ops.remap, lambda x: x, [X]),
    "remap_deduce": (ipu.internal_ops.remap_deduce, lambda x: x, [X]),
    "assume_equal_across_replicas": (
        lambda x: ipu.cross_replica_ops.assume_equal_across_replicas({"a": x}),
        lambda x: {"a": x},
        [X],
    ),
}
HALF = [name for name in CASES if "norm" in name or name in ("gelu", "swish")]


@pytest.mark.parametrize("name", CASES)
def test_an_operation_gives_the_value_of_its_formula(name):
    """In float64's formula to 1e-5."""
    operation, formula, inputs = CASES[name]
    found = operation(*map(tf.constant, inputs))
    expected = formula(*(each.astype(np.float64) for each in inputs))

    tf.nest.assert_same_structure(found, expected)
    for one, other in zip(*map(tf.nest.flatten, (found, expected)), strict=True):
        np.testing.assert_allclose(one.numpy(), other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", HALF)
def test_float16_is_rounded_once(name):
    """Within 2e-3 of the formula of the float16 inputs."""
    operation, formula, inputs = CASES[name]
    inputs = [each.astype(np.float16) for each in inputs]
    found = operation(*map(tf.constant, inputs))

    assert found.dtype == tf.float16
    np.testing.assert_allclose(
        found.numpy(),
        formula(*(each.astype(np.float64) for each in inputs)),
        rtol=2e-3,
        atol=4e-3,
    )


@pytest.mark.parametrize("name", CASES)
def test_a_gradient_is_that_of_the_operation(name):
    """Against differences of the formula, in a random direction, in float64."""
    operation, formula, inputs = CASES[name]
    direction = [RNG.normal(size=each.shape) for each in inputs]
    variables = [tf.Variable(each) for each in inputs]
    with tf.GradientTape() as tape:
        results = tf.nest.flatten(operation(*variables))
        # A sum with weights, since that of a normalisation does not change.
        weights = [RNG.normal(size=each.shape) for each in results]
        total = tf.add_n(
            [
                tf.reduce_sum(each * tf.cast(weight, each.dtype))
                for each, weight in zip(results, weights, strict=True)
            ]
        )
    gradients = tape.gradient(
        total, variables, unconnected_gradients=tf.UnconnectedGradients.ZERO
    )

    def value(step):
        moved = [
            each.astype(np.float64) + step * change
            for each, change in zip(inputs, direction, strict=True)
        ]
        return sum(
            np.sum(each * weight)
            for each, weight in zip(
                tf.nest.flatten(formula(*moved)), weights, strict=True
            )
        )

    along = sum(
        np.sum(gradient.numpy() * change)
        for gradient, change in zip(gradients, direction, strict=True)
    )
    np.testing.assert_allclose(
        along, (value(1e-4) - value(-1e-4)) / 2e-4, rtol=1e-4, atol=1e-4
    )


def test_the_gradient_of_a_lookup_is_dense_and_adds_up():
    """Each occurrence of an id counts; what is outside counts nowhere."""
    table = tf.Variable(tf.cast(TABLE, tf.float16))
    with tf.GradientTape() as tape:
        rows = ipu.embedding_ops.embedding_lookup(table, IDS, name="lookup")
    gradient = tape.gradient(rows, table)

    expected = np.zeros_like(TABLE)
    np.add.at(expected, [0, 7, 3, 3], 1)
    assert gradient.dtype == tf.float16
    np.testing.assert_array_equal(gradient.numpy(), expected)
    older = ipu.embedding_ops.embedding_lookup(table, [1], "a name")
    np.testing.assert_array_equal(older.numpy(), TABLE[1:2].astype(np.float16))
    oldest = ipu.embedding_ops.embedding_lookup(
        table, [1], one_hot_threshold=0, min_encoding_size=1216
    )
    np.testing.assert_array_equal(oldest.numpy(), older.numpy())
    with pytest.raises(TypeError, match="unexpected keyword argument 'threshold'"):
        ipu.embedding_ops.embedding_lookup(table, [1], threshold=0)


@pytest.mark.parametrize("dtype", [tf.float16, tf.bfloat16])
def test_segments_of_16_bit_floats_are_summed_in_32(dtype):
    """Summed in 16 bits, ones would stop at 2048 or 256. Its gradient is a gather."""
    ones = tf.ones([4096, 1], dtype)
    with tf.GradientTape() as tape:
        tape.watch(ones)
        found = ipu.math_ops.segment_sum(ones, tf.zeros([4096], tf.int32), 1)
    gradient = tape.gradient(found, ones)

    assert found.dtype == gradient.dtype == dtype
    np.testing.assert_array_equal(tf.cast(found, tf.float32), [[4096]])
    np.testing.assert_array_equal(gradient, ones)


def test_histograms_count_from_each_level_on():
    """The levels belong to the bin above them, with absolute values, and added."""
    inputs = tf.constant(np.arange(1, 11) / 10, tf.float32)
    levels = tf.constant([0.25, 0.5, 0.75, 1.0])
    counts = ipu.statistics_ops.histogram(inputs, levels)
    absolute = ipu.statistics_ops.histogram(-inputs, levels, absolute_of_input=True)
    more = ipu.statistics_ops.histogram_update(counts, inputs, levels)

    np.testing.assert_array_equal(counts, [2, 2, 3, 2, 1])
    np.testing.assert_array_equal(absolute, counts)
    np.testing.assert_array_equal(more, 2 * counts.numpy())


def test_an_image_of_bytes_becomes_float16():
    """The example of the original's documents."""
    found = ipu.image_ops.normalise_image(
        tf.ones([1, 3], tf.uint8), [1, 2, 3], [4, 5, 6], 2
    )

    assert found.dtype == tf.float16
    np.testing.assert_array_equal(found.numpy(), [[4, 0, -6, 0]])


def test_unpacking_and_packing_is_the_identity():
    """What slices moved away, they move back."""
    apart = ipu.slicing_ops.sequence_slice_unpack(ROWS, [3, 2], [0, 6], 5)
    again = ipu.slicing_ops.sequence_slice_pack(ROWS, apart, [3, 2], [0, 6], False)

    np.testing.assert_array_equal(again, ROWS)
