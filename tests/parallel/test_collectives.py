"""Collectives of replicas: values, shapes, groups, gradients, and what is refused."""

import numpy as np
import pytest
import styles
import tensorflow as tf
from replicated import configure, on, run_loop

from ipufeed.device.program import compiler
from ipufeed.device.program.scopes import ipu_scope
from ipufeed.parallel.collectives import ops as collectives
from ipufeed.queues import IPUOutfeedQueue

pytestmark = pytest.mark.usefixtures("clean_system")


def on_replicas(replicas, values, function, style="function"):
    """What `function` gives for values[r] on replica r."""
    values = np.asarray(values)
    with on(replicas, style) as style:
        infeed = style.feed(lambda: tf.data.Dataset.from_tensor_slices(values))
        outfeed = IPUOutfeedQueue()
        run_loop(style, 1, lambda x: outfeed.enqueue(function(x)), infeed)
        (result,) = style.read(outfeed.dequeue())
    return result


VALUES = np.arange(24, dtype=np.float32).reshape(4, 6) ** 2


def test_a_sum_is_the_same_on_all():
    """Of every element."""
    found = on_replicas(4, VALUES, collectives.cross_replica_sum)

    np.testing.assert_array_equal(found, [VALUES.sum(axis=0)] * 4)


def test_a_mean_is_the_sum_divided():
    """By the number of replicas."""
    found = on_replicas(2, VALUES[:2], collectives.cross_replica_mean)

    np.testing.assert_array_equal(found, [VALUES[:2].mean(axis=0)] * 2)


@pytest.mark.parametrize("count", [1, 3, 8192, 100_001])
@pytest.mark.parametrize("dtype", ["float32", "float16", "int32"])
def test_sums_of_all_sizes_are_those_of_numpy(count, dtype):
    """Also of those that the replicas share out, with a remainder."""
    random = np.random.default_rng(1)
    values = random.integers(-50, 50, size=(4, count)).astype(dtype)
    found = on_replicas(4, values, collectives.cross_replica_sum)

    np.testing.assert_array_equal(found, [values.sum(axis=0, dtype=dtype)] * 4)


def test_the_order_of_a_sum_is_that_of_the_replicas():
    """Floats show in which order they were added."""
    values = np.array([[1e8], [1.0], [-1e8], [1.0]], np.float32)
    found = on_replicas(4, values, collectives.cross_replica_sum)
    expected = ((values[0] + values[1]) + values[2]) + values[3]

    np.testing.assert_array_equal(found, [expected] * 4)


def test_floats_of_16_bits_are_summed_in_32():
    """2048 + 1 + 1 is 2048 in float16, step by step."""
    values = np.array([[2048], [1], [1], [0]], np.float16)
    found = on_replicas(4, values, collectives.cross_replica_sum)

    np.testing.assert_array_equal(found, [[2050]] * 4)


def test_groups_have_sums_of_their_own():
    """Replicas that follow each other are a group."""
    found = on_replicas(
        4, VALUES, lambda x: collectives.cross_replica_sum(x, replica_group_size=2)
    )
    first, second = VALUES[:2].sum(axis=0), VALUES[2:].sum(axis=0)

    np.testing.assert_array_equal(found, [first, first, second, second])


def test_all_gather_stacks_the_replicas():
    """In their order, on each."""
    found = on_replicas(4, VALUES, lambda x: collectives.all_gather(x, 4))

    np.testing.assert_array_equal(found, [VALUES] * 4)


@pytest.mark.parametrize("style", ["graph", "function"])
@pytest.mark.parametrize("name", ["all_gather", "reduce_scatter"])
def test_each_tensor_of_a_nest_is_reduced_by_itself(name, style):
    """It gives a list, in which each has its dtype."""

    def collective(x):
        nest = {"a": x, "b": tf.cast(x, tf.int32)}
        results = getattr(collectives, name)(nest, 4)
        assert isinstance(results, list)
        assert [each.dtype for each in results] == [tf.float32, tf.int32]
        return tf.stack([tf.cast(each, tf.float32) for each in results], axis=-1)

    found = on_replicas(4, VALUES, collective, style)
    alone = on_replicas(4, VALUES, lambda x: getattr(collectives, name)(x, 4))

    np.testing.assert_array_equal(found[..., 0], alone)
    np.testing.assert_array_equal(found[..., 1], alone)


EACH = {
    "sum": collectives.cross_replica_sum,
    "sum of a group": lambda x: collectives.cross_replica_sum(x, replica_group_size=2),
    "mean": collectives.cross_replica_mean,
    "gather": lambda x: collectives.all_gather(x, 4),
    "scatter": lambda x: collectives.reduce_scatter(x, 4),
    "to all": lambda x: collectives.all_to_all(tf.reshape(x[:4], [4, 1]), 0, 1, 4),
    "index": lambda x: (
        tf.reduce_sum(x) + tf.cast(collectives.replication_index(), tf.float32)
    ),
}


@pytest.mark.parametrize("name", EACH)
def test_a_version_1_graph_has_the_same_collectives(name):
    """The results are those of a tf.function, whose values the other tests check."""
    found, want = (
        on_replicas(4, VALUES, EACH[name], style) for style in ("graph", "function")
    )

    assert not np.array_equal(want, VALUES)
    np.testing.assert_array_equal(found, want)


EMPTY = {
    "sum": (collectives.cross_replica_sum, [0, 4]),
    "mean": (collectives.cross_replica_mean, [0, 4]),
    "gather": (lambda x: collectives.all_gather(x, 2), [2, 0, 4]),
    "scatter": (lambda x: collectives.reduce_scatter(x, 2), [0]),
    "to all": (lambda x: collectives.all_to_all(x, 1, 0, 2), [0, 2]),
    "to all, rows": (lambda x: collectives.all_to_all(x, 0, 1, 2), [0, 8]),
}


@pytest.mark.parametrize("name", EMPTY)
def test_a_tensor_without_elements_has_the_shape_of_the_collective(name):
    """And its gradient that of the tensor."""
    function, shape = EMPTY[name]

    def both(x):
        empty = tf.zeros([0, 4]) * tf.cast(x, tf.float32)
        result = function(empty)
        (gradient,) = tf.gradients(result, empty)
        assert (result.shape, gradient.shape) == (shape, [0, 4])
        return tf.size(result) + tf.size(gradient) + 1

    np.testing.assert_array_equal(on_replicas(2, np.int32([1, 2]), both), [1, 1])


def test_a_group_of_zero_is_all():
    """As None is."""
    found = on_replicas(4, VALUES, lambda x: collectives.cross_replica_sum(x, 0))
    np.testing.assert_array_equal(found, [VALUES.sum(axis=0)] * 4)


@pytest.mark.parametrize(
    ("op", "reduce"),
    [
        ("COLLECTIVE_OP_ADD", np.sum),
        ("COLLECTIVE_OP_MEAN", np.mean),
        ("COLLECTIVE_OP_MUL", np.prod),
        ("COLLECTIVE_OP_MIN", np.min),
        ("COLLECTIVE_OP_MAX", np.max),
    ],
)
def test_reduce_scatter_gives_each_its_part(op, reduce):
    """Filled up with zeros to equal parts."""
    values = 1 + VALUES[:, :6] / 100
    found = on_replicas(4, values, lambda x: collectives.reduce_scatter(x, 4, op))
    whole = np.concatenate([reduce(values, axis=0), np.zeros(2, np.float32)])

    np.testing.assert_allclose(found, whole.reshape(4, 2), rtol=1e-6)


@pytest.mark.parametrize(("split", "concat"), [(0, 0), (0, 1), (1, 0), (1, -1)])
def test_all_to_all_transposes_parts_and_replicas(split, concat):
    """Part r of each on replica r."""
    values = np.arange(2 * 4 * 6, dtype=np.float32).reshape(2, 4, 6)
    found = on_replicas(
        2, values, lambda x: collectives.all_to_all(x, split, concat, 2)
    )
    parts = [np.split(each, 2, axis=split) for each in values]
    expected = [
        np.concatenate([parts[0][r], parts[1][r]], axis=concat) for r in range(2)
    ]

    np.testing.assert_array_equal(found, expected)


def test_several_tensors_meet_at_once():
    """Of different dtypes and shapes."""
    found = on_replicas(
        2,
        VALUES[:2],
        lambda x: tf.concat(
            [
                tf.cast(each, tf.float32)
                for each in collectives.cross_replica_means(
                    [x[:2], tf.cast(x[2:], tf.float16)]
                )
            ],
            axis=0,
        ),
    )

    np.testing.assert_array_equal(found, [VALUES[:2].mean(axis=0)] * 2)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda x: collectives.cross_replica_sum(x), [6.0] * 3),
        (lambda x: collectives.cross_replica_mean(x), [3.0] * 3),
        (lambda x: collectives.all_gather(x, 2), [6.0] * 3),
        (lambda x: collectives.reduce_scatter(x, 2), [3.0] * 3),
        (lambda x: collectives.all_to_all(x[:2], 0, 0, 2), [3.0, 3.0, 0.0]),
    ],
    ids=["sum", "mean", "gather", "scatter", "all to all"],
)
def test_collectives_have_gradients(function, expected):
    """That of a tensor comes from all replicas that it went to."""

    def gradient(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            result = tf.reduce_sum(function(x) * 3.0)
        return tape.gradient(result, x)

    found = on_replicas(2, VALUES[:2, :3], gradient)

    np.testing.assert_array_equal(found, [expected] * 2)


def test_alone_they_give_back_what_they_get():
    """In eager mode, and in a program that runs once."""
    x = tf.constant([1.0, 2.0])

    for function in (collectives.cross_replica_sum, collectives.cross_replica_mean):
        np.testing.assert_array_equal(function(x), x)
    np.testing.assert_array_equal(collectives.all_gather(x, 1), [x])
    np.testing.assert_array_equal(collectives.reduce_scatter(x, 1), x)
    np.testing.assert_array_equal(collectives.all_to_all(x, 0, 0, 1), x)
    assert collectives.replication_index() == 0
    np.testing.assert_array_equal(
        on_replicas(1, VALUES[:1], collectives.cross_replica_sum), VALUES[0]
    )


@pytest.mark.parametrize(
    "function",
    [
        lambda x: collectives.all_gather(x, 4)[0],
        lambda x: collectives.reduce_scatter(x, 4),
        lambda x: collectives.cross_replica_sum(x, 4),
    ],
    ids=["gather", "scatter", "group"],
)
def test_a_program_for_more_replicas_is_refused_when_it_runs(function):
    """With both numbers."""
    with pytest.raises(tf.errors.InvalidArgumentError, match="got 4 for 2"):
        on_replicas(2, VALUES[:2], function)


def test_replicas_in_different_collectives_get_an_error():
    """They would deadlock."""

    def differing(x):
        return tf.cond(
            collectives.replication_index() == 0,
            lambda: collectives.cross_replica_sum(x),
            lambda: collectives.cross_replica_mean(x),
        )

    with pytest.raises(
        tf.errors.InternalError,
        match=r"replica 0 is at a sum \(.*, replica 1 at a mean \(",
    ):
        on_replicas(2, VALUES[:2], differing)


@pytest.mark.parametrize("executor", ["xla", "tensorflow"])
def test_a_sum_takes_sizes_that_are_known_when_it_runs(executor):
    """Of a placeholder, with its gradient; a collective that divides needs them before."""
    v1 = tf.compat.v1
    configure(2 if executor == "xla" else 1)
    with styles.entered("graph", executor) as style:
        place = v1.placeholder(tf.float32, [None, 2])

        def net(x):
            total = collectives.cross_replica_sum(2.0 * x)
            return total, *tf.gradients(total, [x])

        with ipu_scope("/device:IPU:0"):
            results = compiler.compile(net, [place])
        for rows in (1, 3):
            found = style.session.run(results, {place: np.ones([rows, 2])})
            factor = 4.0 if executor == "xla" else 2.0
            np.testing.assert_array_equal(found, np.full([2, rows, 2], factor))
        with pytest.raises(ValueError, match=r"fully defined shape, got \(\?, 2\)"):
            collectives.reduce_scatter(place, 2)


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (
            lambda x: collectives.cross_replica_sum(x, -1),
            ValueError,
            "positive integer",
        ),
        (
            lambda x: collectives.cross_replica_mean(tf.cast(x, tf.int32)),
            TypeError,
            "int32",
        ),
        (
            lambda x: collectives.cross_replica_sum(x > 0),
            TypeError,
            "`x` must be of one of the dtypes .*bool: use tf.cast",
        ),
        (lambda x: collectives.all_gather(x, None), ValueError, "replication_factor"),
        (
            lambda x: collectives.all_gather(x, 10**30),
            ValueError,
            "`replication_factor` must be at most 2147483647, got 10",
        ),
        (lambda x: collectives.reduce_scatter(x, 2, "ADD"), ValueError, "got 'ADD'"),
        (lambda x: collectives.all_to_all(x, 1, 0, 2), ValueError, "split_dimension"),
        (
            lambda x: collectives.all_to_all(x, 0, 0, 4),
            ValueError,
            "divisible by the 4",
        ),
        (
            lambda _: collectives.all_to_all(tf.ones([2] + [1] * 253), 0, 0, 2),
            ValueError,
            "`x` must have at most 253 dimensions, got 254",
        ),
    ],
)
def test_what_cannot_be_reduced_is_refused(call, error, says):
    """When the program is built."""
    with pytest.raises(error, match=says):
        call(tf.constant([1.0, 2.0]))


@pytest.mark.parametrize("text", ["x", ["x", "y"]], ids=str)
@pytest.mark.parametrize(
    "call",
    [
        lambda x: collectives.all_gather(x, 2),
        lambda x: collectives.reduce_scatter(x, 2),
        lambda x: collectives.all_to_all(x, 0, 0, 2),
        collectives.cross_replica_sum,
    ],
    ids=["all_gather", "reduce_scatter", "all_to_all", "cross_replica_sum"],
)
def test_text_is_refused(call, text):
    """When the program is built."""
    with pytest.raises(
        TypeError, match="`x` must be of numbers or bools, got a tensor"
    ):
        call(tf.constant(text))


@pytest.mark.parametrize("op", [[], {}, None, "add"], ids=repr)
def test_a_reduction_is_a_name(op):
    """And the error has all names."""
    with pytest.raises(
        ValueError, match=r"`op` must be one of COLLECTIVE_OP_ADD, .*got"
    ):
        collectives.reduce_scatter(VALUES, 2, op)
