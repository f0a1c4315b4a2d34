"""Collectives between the IPUs of one replica, against NumPy."""

import numpy as np
import pytest
import styles
import tensorflow as tf

from ipufeed.device.config.config import IPUConfig
from ipufeed.device.program.scopes import ipu_shard
from ipufeed.device.program.sharding import get_sharding
from ipufeed.ops.within_replica_ops import all_gather, all_reduce, reduce_scatter

pytestmark = pytest.mark.usefixtures("clean_system")
PARTS = [np.array(each, np.float32) for each in ([1, 2, 3], [4, 5, 6])]
OPS = {"ADD": np.sum, "MUL": np.prod, "MIN": np.min, "MAX": np.max}


@pytest.mark.parametrize("op", OPS)
def test_each_shard_gets_the_reduction_or_a_part_of_it(op):
    """Eagerly; what is missing to equal parts is zero."""
    shards = [tf.constant(each) for each in PARTS]
    expected = OPS[op](PARTS, axis=0)

    for each in all_reduce(shards, f"COLLECTIVE_OP_{op}"):
        np.testing.assert_array_equal(each, expected)
    parts = reduce_scatter(shards, f"COLLECTIVE_OP_{op}")
    np.testing.assert_array_equal(np.concatenate(parts), [*expected, 0])


def test_flags_and_local_values():
    """Logical reductions, and none."""
    shards = [tf.constant([True, True]), tf.constant([True, False])]
    both = all_reduce(shards, "COLLECTIVE_OP_LOGICAL_AND")[1]
    either = all_reduce(shards, "COLLECTIVE_OP_LOGICAL_OR")[0]
    own = all_reduce(shards, "COLLECTIVE_OP_LOCAL")

    assert both.numpy().tolist() == [True, False]
    assert either.numpy().tolist() == [True, True]
    assert [each.numpy().tolist() for each in own] == [[True, True], [True, False]]


def test_a_gather_joins_the_elements_in_their_order():
    """Along axis 0 as a concatenation; along others in the flat order; scalars too."""
    shards = [tf.constant(each[None]) for each in PARTS]
    flat = np.arange(1, 7, dtype=np.float32)
    for each in all_gather(shards):
        np.testing.assert_array_equal(each, PARTS)
    np.testing.assert_array_equal(all_gather(shards, axis=1)[0], [flat])
    columns = [tf.constant(each[:, None]) for each in PARTS]
    np.testing.assert_array_equal(all_gather(columns, -1)[1], flat.reshape([3, 2]))
    scalars = [tf.constant(1.0), tf.constant(2.0)]
    assert all_gather(scalars)[1].numpy().tolist() == [1.0, 2.0]


def test_shards_of_a_program_keep_their_ipus():
    """With the gradient: each input's share of what all shards have made of it."""
    config = IPUConfig()
    config.auto_select_ipus = 2
    config.configure_ipu_system()
    with styles.entered("graph", "xla") as style:

        def net(x, y):
            with ipu_shard(0):
                x = x * 2
            with ipu_shard(1):
                y = y * 3
            sums = all_reduce([x, y], "COLLECTIVE_OP_ADD")
            parts = reduce_scatter([x, y], "COLLECTIVE_OP_ADD")
            gathered = all_gather([x, y])
            assert [get_sharding(each.op) for each in sums] == [[0], [1]]
            with pytest.raises(
                tf.errors.FailedPreconditionError, match="incrementing shard order"
            ):
                all_reduce([y, x], "COLLECTIVE_OP_ADD")
            weighted = sums[0] + 10 * sums[1] + gathered[0][:3] + gathered[1][:3]
            gradients = tf.gradients([weighted, parts[1]], [x, y])
            return [*sums, *parts, *gathered, *gradients]

        found = style.run(net, *PARTS)
    total = 2 * PARTS[0] + 3 * PARTS[1]
    joined = np.concatenate([2 * PARTS[0], 3 * PARTS[1]])
    expected = [total, total, total[:2], [total[2], 0], joined, joined]
    expected += [[13, 13, 14], [11, 11, 12]]
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


def test_tensors_that_do_not_go_together_are_refused():
    """In the original's words."""
    one, two = (tf.constant(each) for each in PARTS)
    for shards, text in (
        ([one, one], "should not contain any duplicate entries"),
        ([one, tf.cast(two, tf.int32)], "all be of the same type"),
        ([one, two[None]], "all be of the same rank"),
        ([one, two[:2]], r"except for dim None, but got shapes \(3,\) and \(2,\)"),
        ([], "at least one tensor"),
    ):
        with pytest.raises(ValueError, match=text):
            all_reduce(shards, "COLLECTIVE_OP_ADD")
    with pytest.raises(ValueError, match=r"`op` must be one of .* got 'ADD'"):
        all_reduce([one, two], "ADD")
    with pytest.raises(ValueError, match="rank 0 or 1"):
        reduce_scatter([one[None], two[None]], "COLLECTIVE_OP_ADD")
