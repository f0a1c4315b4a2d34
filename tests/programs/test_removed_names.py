"""Names that TensorFlow has removed, and that programs find again."""

import importlib
import sys

import numpy as np
import pytest
import tensorflow as tf

import ipufeed
from ipufeed import compat
from ipufeed.tf_patches import moved_names, removed_names


@pytest.fixture(autouse=True, scope="module")
def installed():
    """As `python -m ipufeed.run` installs it, once for the process."""
    compat.install()


@pytest.mark.parametrize(
    "name",
    sorted(name for names in removed_names.LAYERS.values() for name in names.split()),
)
def test_a_layer_of_version_1_is_given_back(name):
    """Keras 3 has taken it out of tf.compat.v1.layers."""
    assert callable(getattr(tf.compat.v1.layers, name))


@pytest.mark.parametrize(
    "name",
    sorted(name for names in removed_names.CELLS.values() for name in names.split()),
)
def test_a_cell_of_version_1_is_given_back(name):
    """Keras 3 has taken it out of tf.compat.v1.nn.rnn_cell."""
    assert isinstance(getattr(tf.compat.v1.nn.rnn_cell, name), type)


def test_names_of_keras_2_are_given_back():
    """Functions of losses, and what was experimental; by attribute and by import."""
    experimental = importlib.import_module("tensorflow.keras.layers.experimental")
    for keras in (tf.keras, tf.compat.v1.keras, sys.modules["tensorflow.keras"]):
        assert keras.losses.mean_squared_error([[1.0]], [[3.0]]).numpy() == [4.0]
        assert keras.metrics.mean_absolute_error([[1.0]], [[3.0]]).numpy() == [2.0]
        preprocessing = keras.layers.experimental.preprocessing
        assert preprocessing.Rescaling(0.5)(np.ones([2])).numpy().tolist() == [0.5] * 2
        assert preprocessing is experimental.preprocessing
        assert keras.experimental.CosineDecay(0.1, 10)(0).numpy() == np.float32(0.1)
        assert keras.mixed_precision.experimental.global_policy().name == "float32"
        try:
            keras.mixed_precision.experimental.set_policy("mixed_float16")
            assert keras.mixed_precision.global_policy().name == "mixed_float16"
        finally:
            keras.mixed_precision.set_global_policy("float32")
    for name in removed_names.FUNCTIONS:
        assert getattr(tf.losses, name) is getattr(tf.metrics, name)
    for name in removed_names.EXPERIMENTAL:
        assert importlib.import_module(f"tensorflow.keras.{name}")


@pytest.mark.parametrize(
    "statement",
    [
        "from tensorflow.compat.v1.layers import batch_normalization, conv2d, dense",
        "from tensorflow.compat.v1.nn.rnn_cell import LSTMCell; "
        "assert LSTMCell is tf.compat.v1.nn.rnn_cell.LSTMCell",
        "import tensorflow.compat.v1.keras as K; K.layers.Dense",
        "from tensorflow.compat.v1.keras.layers import Dense",
        "import tensorflow.compat.v1.keras.backend as K; K.floatx",
        "from tensorflow.python.layers.normalization import BatchNormalization",
        "from tensorflow.python.training.tracking import base; base.Trackable",
        "import tensorflow.python.training.tracking.util as util; util.Checkpoint",
        "from tensorflow.python.distribute import distribution_strategy_context as c; "
        "c.get_strategy()",
    ],
)
def test_an_import_of_a_former_module(statement):
    """In each form: some make a second module, in which the names have to be, too."""
    exec(statement, {"tf": tf})


@pytest.mark.parametrize(
    ("module", "name"),
    [(module, name) for module, names in moved_names.MOVED.items() for name in names],
)
def test_a_name_that_tensorflow_has_moved(module, name):
    place, _, now = moved_names.MOVED[module][name].partition(":")
    former = getattr(importlib.import_module(module), name)
    assert former is getattr(importlib.import_module(place), now)


def test_a_program_with_moved_names():
    """Conditions, stacks and instances of tensors, as the original's tests have them."""
    control_flow_ops = importlib.import_module("tensorflow.python.ops.control_flow_ops")
    array_ops = importlib.import_module("tensorflow.python.ops.array_ops")
    ops = importlib.import_module("tensorflow.python.framework.ops")

    def net(x):
        assert isinstance(x, ops.Tensor)
        y = control_flow_ops.cond(x > 1.0, lambda: x * 2.0, lambda: x)
        _, z = control_flow_ops.while_loop(
            lambda i, _: i < 3, lambda i, z: (i + 1, z + y), [0, y]
        )
        return array_ops.stack([y, z])

    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        with ipufeed.scopes.ipu_scope("/device:IPU:0"):
            run = ipufeed.ipu_compiler.compile(net, [tf.constant(2.0)])
        assert session.run(run)[0].tolist() == [4.0, 16.0]


def trained(model, x, on_ipu):
    """The losses of three steps of a version 1 model, on an IPU or without."""
    v1 = tf.compat.v1

    def step(x):
        with v1.variable_scope("net", initializer=tf.constant_initializer(0.1)):
            loss = tf.reduce_sum(model(x) ** 2)
        updates = v1.get_collection(v1.GraphKeys.UPDATE_OPS)
        with tf.control_dependencies(updates):
            return loss, v1.train.GradientDescentOptimizer(0.01).minimize(loss)

    with tf.Graph().as_default(), v1.Session() as session:
        v1.get_variable_scope().set_use_resource(True)
        place = v1.placeholder(tf.float32, x.shape)
        if on_ipu:
            with ipufeed.scopes.ipu_scope("/device:IPU:0"):
                run = ipufeed.ipu_compiler.compile(step, [place])
        else:
            run = step(place)
        session.run(v1.global_variables_initializer())
        losses = [session.run(run, {place: x})[0] for _ in range(3)]
        return losses, [variable.name for variable in v1.global_variables()]


def recurrent(x):
    rnn_cell = tf.compat.v1.nn.rnn_cell
    cells = [rnn_cell.BasicLSTMCell(4), rnn_cell.LSTMCell(3), rnn_cell.GRUCell(2)]
    cell = rnn_cell.MultiRNNCell(cells)
    return tf.compat.v1.nn.dynamic_rnn(cell, x, dtype=tf.float32)[0]


def normalized(x):
    layers = tf.compat.v1.layers
    y = layers.batch_normalization(layers.dense(x, 4), training=True, momentum=0.9)
    return layers.BatchNormalization(name="second")(tf.nn.relu(y) + x[..., :1])


@pytest.mark.filterwarnings("ignore:.*is deprecated:UserWarning")
@pytest.mark.parametrize(
    ("model", "names"),
    [
        (recurrent, ["net/rnn/multi_rnn_cell/cell_0/basic_lstm_cell/kernel:0"]),
        (normalized, ["net/batch_normalization/gamma:0", "net/second/moving_mean:0"]),
    ],
)
def test_models_of_version_1_train_on_an_ipu_as_without(model, names):
    """With cells of `tf.nn.rnn_cell`, and batch normalization, of the same names."""
    x = np.random.default_rng(0).random((2, 5, 3), np.float32)
    expected, found = trained(model, x, on_ipu=True), trained(model, x, on_ipu=False)

    np.testing.assert_allclose(*(losses for losses, _ in (expected, found)), rtol=1e-4)
    assert expected[1] == found[1]
    assert {*names} < {*found[1]}


def test_batch_normalization_needs_tf_keras(monkeypatch):
    """Which need not be installed: the error says how it is."""
    monkeypatch.setitem(
        sys.modules, "tf_keras.src.legacy_tf_layers.normalization", None
    )
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'ipufeed\[legacy_ker"):
        tf.compat.v1.layers.batch_normalization(tf.zeros([2, 2]))


@pytest.mark.filterwarnings("ignore:.*is deprecated:UserWarning")
def test_layers_of_version_1_compute_in_a_graph():
    """Functions make variables under their names, and reuse them."""
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        x = tf.ones([2, 4, 4, 3])
        for _ in range(2):
            with v1.variable_scope("net", reuse=v1.AUTO_REUSE):
                y = v1.layers.conv2d(x, 5, 3, name="conv")
                y = v1.layers.max_pooling2d(y, 2, 2)
                y = v1.layers.dense(v1.layers.flatten(y), 7, name="dense")
        session.run(v1.global_variables_initializer())
        assert session.run(y).shape == (2, 7)
        assert [variable.name for variable in v1.trainable_variables()] == [
            "net/conv/kernel:0",
            "net/conv/bias:0",
            "net/dense/kernel:0",
            "net/dense/bias:0",
        ]


def test_layers_of_version_1_follow_the_graph_s_seed():
    """Also with Keras 3, whose initializers have seeds of their own."""

    def kernel():
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            tf.compat.v1.set_random_seed(7)
            layer = tf.compat.v1.layers.Dense(8)
            layer(tf.ones([1, 8]))
            session.run(tf.compat.v1.global_variables_initializer())
            return session.run(layer.kernel)

    np.testing.assert_array_equal(kernel(), kernel())
