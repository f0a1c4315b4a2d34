"""Operations take shapes of version 1, whose sizes are not numbers, known or not."""

import contextlib

import numpy as np
import pytest
import styles
import tensorflow as tf

import ipufeed as ipu
from ipufeed.keras import layers

v1 = tf.compat.v1
ROWS = np.random.default_rng(5).normal(size=(4, 3, 6)).astype(np.float32)
LABELS = np.array([[1, 2], [1, 1], [3, 0]], np.int32)
LENGTHS = np.array([2, 2, 1], np.int32), np.array([4, 4, 4], np.int32)
ONES = v1.ones_initializer()


OPERATIONS = {
    "group_norm": lambda x: ipu.normalization_ops.group_norm(x, 3),
    "instance_norm": lambda x: ipu.normalization_ops.instance_norm(x),
    "layer_norm": lambda x: ipu.normalization_ops.layer_norm(x),
    "GroupNormalization": lambda x: layers.GroupNormalization(groups=3)(x),
    "ctc_loss": lambda x: ipu.nn_ops.ctc_loss_v2(LABELS, x, *LENGTHS, 5),
    "ctc_beam_search_decoder": lambda x: ipu.nn_ops.ctc_beam_search_decoder(
        x, LENGTHS[1], blank_index=-1
    ),
    "sequence_slice": lambda x: ipu.slicing_ops.sequence_slice_unpack(
        x, [1, 2], [0, 1], 5
    ),
    "dropout": lambda x: ipu.rand_ops.dropout(x, rate=0.0),
    "histogram": lambda x: ipu.statistics_ops.histogram(
        tf.reshape(x, [-1]), tf.sort(tf.reshape(x, [-1]))[:5]
    ),
    "PopnnLSTM": lambda x: ipu.rnn_ops.PopnnLSTM(2, weights_initializer=ONES)(x),
    "PopnnGRU": lambda x: ipu.rnn_ops.PopnnGRU(2, weights_initializer=ONES)(x),
    "PopnnAUGRU": lambda x: ipu.rnn_ops.PopnnAUGRU(2, weights_initializer=ONES)(
        x, LENGTHS[0], tf.transpose(x[..., 0])
    ),
    "serialized_matmul": lambda x: ipu.math_ops.serialized_matmul(
        x, x, 2, "a_columns", transpose_a=True
    ),
}


@pytest.mark.parametrize("known", [True, False], ids=["known", "unknown"])
@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_takes_the_shapes_of_version_1(name, known):
    """With a batch that is known only when it runs, too."""
    results = []
    for version_1 in (False, True):
        with (
            styles.version_1_behavior() if version_1 else contextlib.nullcontext(),
            tf.Graph().as_default(),
            v1.Session() as session,
        ):
            x = v1.placeholder(tf.float32, [4 if known else None, *ROWS.shape[1:]])
            found = tf.nest.flatten(OPERATIONS[name](x))
            session.run(v1.global_variables_initializer())
            results.append(session.run(found, {x: ROWS}))

    for one, other in zip(*results, strict=True):
        np.testing.assert_array_equal(one, other)
