"""PopnnLSTM and PopnnGRU: the formulas, with the variables of the original."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.ops import rnn_cell_impl

import ipufeed as ipu
from ipufeed.ops.recurrent import rnn_ops

v1 = tf.compat.v1
RANDOM = np.random.default_rng(0)
TIMES, BATCH, FEATURES, UNITS = 6, 3, 4, 5
X = RANDOM.random((TIMES, BATCH, FEATURES), np.float32)
H, C = RANDOM.random((2, BATCH, UNITS), np.float32)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def lstm(x, kernel, biases):
    """Outputs, and the state `c` and `h`, by the formula; gates: f, i, c, o."""
    h, c, outputs = H, C, []
    for row in x:
        gates = np.concatenate([row, h], 1) @ kernel + biases.reshape(-1)
        forget, take, candidate, output = np.split(gates, 4, 1)
        c = sigmoid(forget) * c + sigmoid(take) * np.tanh(candidate)
        h = sigmoid(output) * np.tanh(c)
        outputs.append(h)
    return [np.array(outputs), c, h]


def gru(x, kernel, biases):
    """Outputs, and the state, by the formula; gates: reset, update, candidate."""
    h, outputs = H, []
    after = biases.ndim == 3
    of_inputs, of_state = np.moveaxis(biases, 1, 0) if after else (biases, 0 * biases)
    for row in x:
        reset, update, candidate = np.split(
            row @ kernel[:FEATURES] + of_inputs.reshape(-1), 3, 1
        )
        weights = np.split(kernel[FEATURES:], 3, 1)
        reset = sigmoid(reset + h @ weights[0] + of_state[0])
        update = sigmoid(update + h @ weights[1] + of_state[1])
        if after:
            candidate = candidate + reset * (h @ weights[2] + of_state[2])
        else:
            candidate = candidate + (reset * h) @ weights[2]
        h = update * h + (1 - update) * np.tanh(candidate)
        outputs.append(h)
    return [np.array(outputs), h]


def constant(*shape):
    """An initializer with the same numbers in each call."""
    numbers = np.random.default_rng(1).normal(size=shape)
    return tf.constant_initializer(numbers * 0.4)


def long_memory():
    return rnn_ops.PopnnLSTM(
        UNITS,
        weights_initializer=constant(FEATURES + UNITS, 4 * UNITS),
        bias_initializer=constant(4, UNITS),
    )


def gated(after):
    return rnn_ops.PopnnGRU(
        UNITS,
        weights_initializer=constant(FEATURES + UNITS, 3 * UNITS),
        bias_initializer=constant(*((3, 2) if after else (3,)), UNITS),
        reset_after=after,
    )


CASES = {
    "lstm": (long_memory, lstm, rnn_cell_impl.LSTMStateTuple(C, H)),
    "gru": (lambda: gated(after=False), gru, H),
    "gru, reset after": (lambda: gated(after=True), gru, H),
}


def trained(layer, state, on_ipu):
    """Variables and results before the first of two steps, and both losses."""

    def step(x):
        outputs, after = layer(x, state, training=True)
        loss = tf.reduce_sum(outputs**2)
        update = v1.train.GradientDescentOptimizer(0.1).minimize(loss)
        return [outputs, *tf.nest.flatten(after), loss, update]

    place = v1.placeholder(tf.float32, X.shape)
    if on_ipu:
        with ipu.scopes.ipu_scope("/device:IPU:0"):
            run = ipu.ipu_compiler.compile(step, [place])
    else:
        run = [result for result in step(place) if tf.is_tensor(result)]
        update = v1.get_collection(v1.GraphKeys.TRAIN_OP)[0]
        with tf.control_dependencies(run), tf.control_dependencies([update]):
            run = [tf.identity(result) for result in run]
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        variables = session.run(v1.trainable_variables())
        *results, first = session.run(run, {place: X})
        return variables, results, [first, session.run(run, {place: X})[-1]]


@pytest.mark.parametrize("case", CASES)
def test_layers_follow_the_formulas_and_train(case):
    """Compiled, with the gradients of the same layer on the host."""
    make, formula, state = CASES[case]
    losses = []
    for on_ipu in (True, False):
        with tf.Graph().as_default(), v1.variable_scope("net", use_resource=True):
            variables, results, found = trained(make(), state, on_ipu)
            names = [variable.name for variable in v1.global_variables()]
        for result, expected in zip(results, formula(X, *variables), strict=True):
            np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)
        losses.append(found)
        kind = "popnn_lstm" if case == "lstm" else "popnn_gru"
        assert names == [f"net/{kind}/kernel:0", f"net/{kind}/biases:0"]
    np.testing.assert_allclose(*losses, rtol=1e-5)
    assert losses[0][0] != losses[0][1]


def test_layers_are_used_in_functions_and_with_defaults():
    """A zero state, no state among the results, activations, and float16."""
    strategy = ipu.IPUStrategy()
    with strategy.scope():
        weights = constant(FEATURES + UNITS, 4 * UNITS)
        layer = rnn_ops.PopnnLSTM(
            UNITS, weights_initializer=weights, return_state=False
        )
        zeros = tf.zeros([BATCH, UNITS])
        whole = rnn_ops.PopnnLSTM(UNITS, weights_initializer=weights)

        @tf.function(jit_compile=True)
        def outputs(x):
            return layer(x), whole(x, rnn_cell_impl.LSTMStateTuple(zeros, zeros))[0]

        found, same = strategy.run(outputs, [X])
    np.testing.assert_allclose(found, same, rtol=1e-6)
    assert layer.canonical_weight_shape == [FEATURES + UNITS, 4 * UNITS]
    assert layer.canonical_bias_shape == [4, UNITS]
    assert layer.state_shape(BATCH) == ([BATCH, UNITS], [BATCH, UNITS])
    outputs_alone = rnn_ops.PopnnGRU(UNITS, return_state=False)(X)
    assert outputs_alone.shape == [len(X), BATCH, UNITS]
    half = rnn_ops.PopnnGRU(
        UNITS, tf.float16, activation=tf.nn.relu, recurrent_activation="hard_sigmoid"
    )
    sequence, state = half(X.astype(np.float16))
    assert sequence.dtype == state.dtype == tf.float16
    np.testing.assert_array_equal(sequence[-1], state)
    assert half.state_shape(2) == [2, UNITS]


def test_wrong_arguments_are_refused():
    """By name; the state must be that of its layer."""
    for text, make in {
        "Only support float16, float32": lambda: rnn_ops.PopnnLSTM(1, tf.float64),
        "`num_units` must be at least 1": lambda: rnn_ops.PopnnGRU(0),
        "`activation` must be one of": lambda: rnn_ops.PopnnGRU(1, activation="elu"),
        "`recurrent_activation` must": lambda: rnn_ops.PopnnGRU(
            1, recurrent_activation="relu"
        ),
        "Expecting input_shape with 3 dims, got 2": lambda: rnn_ops.PopnnGRU(1)(X[0]),
        "last dimension of the inputs": lambda: rnn_ops.PopnnGRU(1).build([1, 1, None]),
        "call build": lambda: rnn_ops.PopnnGRU(1).canonical_weight_shape,
    }.items():
        with pytest.raises(ValueError, match=text):
            make()
    layer = long_memory()
    layer.build(X.shape)
    with pytest.raises(ValueError, match="`EagerTensor`, expecting `LSTMStateTuple`"):
        layer(X, tf.constant(H))


def test_a_state_of_another_shape_is_named():
    """Before the loop is built, of whose arrays TensorFlow would say that none is used."""
    zeros, wrong = np.zeros([2, BATCH, UNITS], np.float32), np.zeros([BATCH, UNITS + 1])
    pair, must = rnn_cell_impl.LSTMStateTuple, rf"must be \[{BATCH}, {UNITS}\],.* got"
    for kind, state, words in (
        (rnn_ops.PopnnGRU, wrong, rf"`initial_state` {must} \({BATCH}, {UNITS + 1}\)"),
        (rnn_ops.PopnnGRU, 3, rf"`initial_state` {must} \(\)"),
        (rnn_ops.PopnnLSTM, pair(zeros[0], wrong), rf"`initial_state.h` {must} \("),
        (rnn_ops.PopnnLSTM, pair(3, zeros[0]), rf"`initial_state.c` {must} \(\)"),
    ):
        with pytest.raises(ValueError, match=words):
            kind(UNITS)(X, initial_state=state)
        with tf.Graph().as_default() as graph:
            with pytest.raises(ValueError, match=words):
                kind(UNITS)(X, initial_state=state)
            assert not any("TensorArray" in op.type for op in graph.get_operations())
    with pytest.raises(
        TypeError, match=r"`initial_state` must be a tensor, .* str 'a'"
    ):
        rnn_ops.PopnnGRU(UNITS)(X, initial_state="a")


@pytest.mark.parametrize("layer", [rnn_ops.PopnnLSTM, rnn_ops.PopnnGRU])
def test_arguments_are_named_when_the_layer_is_made(layer):
    """A seed, an initializer or a name failed later, in TensorFlow and without its name."""
    for words, error, arguments in (
        ("`seed` must be an int or None, got str 'a'", TypeError, {"seed": "a"}),
        ("`seed` must be an int or None, got float 2.5", TypeError, {"seed": 2.5}),
        ("`name` must be a str or None, got int 3", TypeError, {"name": 3}),
        ("`partials_dtype` must be tf.flo", ValueError, {"partials_dtype": tf.int32}),
        ("`dtype` must be tf.float16 or .* got str 'a'", TypeError, {"dtype": "a"}),
        ("`options` must be a dict", TypeError, {"options": 3}),
        ("`options_bwd` must be a dict", TypeError, {"options_bwd": ["a"]}),
        ("`partials_dtype` must be a dtype", TypeError, {"partials_dtype": None}),
        ("`weights_initializer` must be", TypeError, {"weights_initializer": 3}),
        ("`bias_initializer` must be an", TypeError, {"bias_initializer": [1.0]}),
        ("`activation` must be a name", TypeError, {"activation": None}),
        ("`recurrent_activation` must", TypeError, {"recurrent_activation": 1}),
        ("`num_units` must be at most", ValueError, {"num_units": 10**30}),
    ):
        with pytest.raises(error, match=f"^{words}"):
            layer(**{"num_units": 2, **arguments})
