"""Recurrent layers for sequences of several lengths: each as its sequences alone."""

import numpy as np
import pytest
import tensorflow as tf

from ipufeed.device.program import compiler
from ipufeed.device.program.scopes import ipu_scope
from ipufeed.device.program.strategy import IPUStrategy
from ipufeed.device.program.variables import move_variable_initialization_to_cpu
from ipufeed.ops.recurrent import dynamic_rnn_ops, rnn_ops

RANDOM = np.random.default_rng(0)
TIMES, BATCH, FEATURES, UNITS = 5, 4, 3, 2
X = RANDOM.random((TIMES, BATCH, FEATURES), np.float32)
SCORES = RANDOM.random((BATCH, TIMES), np.float32)
LENGTHS = np.array([5, 0, 2, 3], np.int32)


def constant(*shape):
    numbers = np.random.default_rng(1).normal(size=shape)
    return tf.constant_initializer(numbers * 0.4)


def made(kind, gates, **arguments):
    """A layer whose kernel is the same in each call."""
    return kind(
        UNITS,
        weights_initializer=constant(FEATURES + UNITS, gates * UNITS),
        bias_initializer=constant(gates, UNITS),
        **arguments,
    )


def on_ipu(function, *arguments):
    strategy = IPUStrategy()
    with strategy.scope():
        return strategy.run(tf.function(function, autograph=False), arguments)


def alone(layer, n):
    """The outputs and the state of a sequence, cut to its length."""
    outputs, state = layer(X[: LENGTHS[n], n : n + 1])
    return np.asarray(outputs)[:, 0], tf.nest.map_structure(np.asarray, state)


@pytest.mark.parametrize(
    ("dynamic", "plain", "gates"),
    [
        (dynamic_rnn_ops.PopnnDynamicLSTM, rnn_ops.PopnnLSTM, 4),
        (dynamic_rnn_ops.PopnnDynamicGRU, rnn_ops.PopnnGRU, 3),
    ],
    ids=["lstm", "gru"],
)
def test_each_sequence_is_as_it_is_alone(dynamic, plain, gates):
    layer, reference = made(dynamic, gates), made(plain, gates)
    outputs, state = on_ipu(lambda x, lengths: layer(x, lengths), X, LENGTHS)

    for n, length in enumerate(LENGTHS):
        if length == 0:
            expected = np.zeros([0, UNITS])
            last = tf.nest.map_structure(lambda each: np.zeros([1, UNITS]), state)
        else:
            expected, last = alone(reference, n)
        np.testing.assert_allclose(outputs[:length, n], expected, rtol=1e-5)
        assert not np.any(outputs[length:, n])
        tf.nest.map_structure(
            lambda found, part, n=n: np.testing.assert_allclose(
                found[n], part[0], rtol=1e-5
            ),
            state,
            last,
        )


def test_gradients_stop_at_the_end_of_a_sequence():
    layer = made(dynamic_rnn_ops.PopnnDynamicGRU, 3)

    def net(x, lengths):
        with tf.GradientTape() as tape:
            tape.watch(x)
            outputs, _ = layer(x, lengths)
            total = tf.reduce_sum(outputs)
        return tape.gradient(total, x)

    gradients = on_ipu(net, tf.constant(X), LENGTHS).numpy()

    for n, length in enumerate(LENGTHS):
        assert np.all(gradients[:length, n] != 0)
        assert not np.any(gradients[length:, n])


def test_attention_weakens_the_update_gate():
    layer = made(dynamic_rnn_ops.PopnnAUGRU, 3)
    outputs, state = on_ipu(lambda *inputs: layer(*inputs), X, LENGTHS, SCORES)

    kernel, biases = layer.kernel.numpy(), layer.biases.numpy()
    for n, length in enumerate(LENGTHS):
        h = np.zeros(UNITS)
        for time in range(length):
            of_input = np.split(X[time, n] @ kernel[:FEATURES], 3)
            weights = np.split(kernel[FEATURES:], 3, 1)
            reset = 1 / (1 + np.exp(-(of_input[0] + h @ weights[0] + biases[0])))
            update = 1 / (1 + np.exp(-(of_input[1] + h @ weights[1] + biases[1])))
            candidate = np.tanh(of_input[2] + (reset * h) @ weights[2] + biases[2])
            update *= 1 - SCORES[n, time]
            h = update * h + (1 - update) * candidate
            np.testing.assert_allclose(outputs[time, n], h, rtol=1e-4)
        np.testing.assert_allclose(state[n], h, rtol=1e-4)


def test_attention_has_the_same_gradients_in_a_version_1_loop():
    """Of inputs, scores and weights: against those of version 2."""

    def gradients(inputs, lengths, scores):
        layer = made(dynamic_rnn_ops.PopnnAUGRU, 3)
        total = tf.reduce_sum(layer(inputs, lengths, scores)[0] ** 2)
        return tf.gradients(total, [inputs, scores, layer.kernel])

    def found():
        with tf.Graph().as_default():
            with ipu_scope("/device:IPU:0"):
                arguments = [tf.constant(each) for each in (X, LENGTHS, SCORES)]
                results = compiler.compile(gradients, arguments)
            move_variable_initialization_to_cpu()
            with tf.compat.v1.Session() as session:
                session.run(tf.compat.v1.global_variables_initializer())
                return session.run(results)

    expected = found()
    tf.compat.v1.disable_control_flow_v2()
    try:
        results = found()
    finally:
        tf.compat.v1.enable_control_flow_v2()
    for one, other in zip(results, expected, strict=True):
        assert np.any(one)
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("kind", "more"),
    [
        (dynamic_rnn_ops.PopnnDynamicGRU, ()),
        (dynamic_rnn_ops.PopnnAUGRU, (SCORES,)),
    ],
)
def test_batch_can_come_first(kind, more):
    layer = made(kind, 3)
    outputs, state = layer(X, LENGTHS, *more)
    swapped, other = layer(np.swapaxes(X, 0, 1), LENGTHS, *more, time_major=False)

    np.testing.assert_array_equal(np.swapaxes(swapped, 0, 1), outputs)
    np.testing.assert_array_equal(other, state)
    without = made(kind, 3, return_state=False)
    np.testing.assert_array_equal(without(X, LENGTHS, *more), outputs)


def test_a_length_that_int32_does_not_hold_is_the_whole_sequence():
    """A cast would make it 0, and all outputs zeros."""
    layer = made(dynamic_rnn_ops.PopnnDynamicGRU, 3)
    whole, _ = layer(X, np.full(BATCH, TIMES))
    outputs, _ = layer(X, np.full(BATCH, 2**32))
    np.testing.assert_array_equal(outputs, whole)


def test_wrong_lengths_and_scores_are_refused():
    layer = made(dynamic_rnn_ops.PopnnAUGRU, 3)
    with pytest.raises(TypeError, match="`seq_len` must be integers, got a tensor"):
        layer(X, np.ones(BATCH, np.float32), SCORES)
    with pytest.raises(
        ValueError, match=r"\[batch\], \[4\] for these inputs, got \(4, 1\)"
    ):
        layer(X, LENGTHS[:, None], SCORES)
    with pytest.raises(ValueError, match=r"`seq_len` must be \[batch\], .* got \(3,\)"):
        layer(X, LENGTHS[:3], SCORES)
    with pytest.raises(TypeError, match="`seq_len` must be integers"):
        layer(X, None, SCORES)
    with pytest.raises(
        ValueError, match=r"must be \[batch, time\], \[4, 5\] for these"
    ):
        layer(X, LENGTHS, SCORES.T)
    with pytest.raises(TypeError, match="preserve_final_state"):
        dynamic_rnn_ops.PopnnDynamicLSTM(2, preserve_final_state=1)
