"""Small Keras models, and how far two trainings of one are from each other."""

import contextlib
import functools

import keras
import numpy as np
import tensorflow as tf

from ipufeed.device.config.config import IPUConfig
from ipufeed.device.program.strategy import IPUStrategy

BATCH, CLASSES, FEATURES = 8, 4, 6


@functools.cache
def arrays(rows=64, seed=0):
    """Numbers, and labels that depend on them."""
    random = np.random.default_rng(seed)
    x = random.normal(size=[rows, FEATURES]).astype("float32")
    weights = random.normal(size=[FEATURES, CLASSES])
    return x, (x @ weights).argmax(1).astype("int32")


def own_train_step(model, data):
    """A step with a loss that `compile` does not know, times the model's `factor`."""
    x, y = data
    with tf.GradientTape() as tape:
        error = model(x, training=True) - tf.cast(y[:, None], tf.float32)
        loss = model.factor * tf.reduce_mean(tf.square(error))
    weights = model.trainable_variables
    gradients = tape.gradient(loss, weights)
    model.optimizer.apply_gradients(zip(gradients, weights, strict=True))
    return {"own": loss}


def dataset(batch=BATCH, rows=64):
    """Batches of `arrays`, in order."""
    data = tf.data.Dataset.from_tensor_slices(arrays(rows))
    return data.batch(batch, drop_remainder=True)


def dense():
    layers = keras.layers
    return keras.Sequential(
        [
            keras.Input((FEATURES,)),
            layers.Dense(8, activation="relu"),
            layers.Dense(CLASSES),
        ]
    )


def stateful():
    """Dropout's seeds, averages, a regularizer."""
    layers = keras.layers
    inputs = keras.Input((FEATURES,))
    x = layers.Dense(8, kernel_regularizer="l2")(inputs)
    x = layers.Activation("relu")(layers.BatchNormalization()(x))
    x = layers.GaussianNoise(0.1)(layers.Dropout(0.3)(x))
    return keras.Model(inputs, layers.Dense(CLASSES)(x))


def convolutional():
    layers = keras.layers
    return keras.Sequential(
        [
            keras.Input((FEATURES,)),
            layers.Reshape([3, 2, 1]),
            layers.Conv2D(4, 2, padding="same", activation="relu"),
            layers.BatchNormalization(),
            layers.GlobalAveragePooling2D(),
            layers.Dense(CLASSES),
        ]
    )


def recurrent():
    layers = keras.layers
    return keras.Sequential(
        [
            keras.Input((FEATURES,)),
            layers.Reshape([3, 2]),
            layers.LSTM(4),
            layers.Dense(CLASSES),
        ]
    )


def transformer():
    layers = keras.layers
    inputs = keras.Input((FEATURES,))
    x = layers.Dense(8)(layers.Reshape([FEATURES, 1])(inputs))
    attended = layers.MultiHeadAttention(2, 4, dropout=0.2)(x, x)
    x = layers.LayerNormalization()(x + attended)
    x = layers.Dropout(0.2)(layers.Dense(8, activation="gelu")(x))
    return keras.Model(
        inputs, layers.Dense(CLASSES)(layers.GlobalAveragePooling1D()(x))
    )


def optimizer(name):
    schedule = keras.optimizers.schedules.ExponentialDecay(0.01, 5, 0.9)
    return {
        "sgd": lambda: keras.optimizers.SGD(0.05),
        "momentum": lambda: keras.optimizers.SGD(0.05, momentum=0.9, nesterov=True),
        "adam": lambda: keras.optimizers.Adam(schedule, clipnorm=1.0),
        "adamw": lambda: keras.optimizers.AdamW(0.01, weight_decay=0.004, use_ema=True),
        "rmsprop": lambda: keras.optimizers.RMSprop(0.01),
    }[name]()


def cross_entropy():
    return keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def compiled(make, name="sgd", **keywords):
    """Returns a model with the weights of seed 7."""
    keras.utils.set_random_seed(7)
    model = make()
    keywords.setdefault("metrics", ["accuracy"])
    model.compile(optimizer(name), cross_entropy(), **keywords)
    return model


def configure(ipus=1):
    config = IPUConfig()
    config.auto_select_ipus = ipus
    config.configure_ipu_system()


@contextlib.contextmanager
def scope(ipus=1):
    """The scope of a strategy on a device of this many IPUs."""
    configure(ipus)
    with IPUStrategy().scope():
        yield


class Steps(keras.callbacks.Callback):
    """Keeps the numbers and the logs of all batches."""

    def __init__(self):
        super().__init__()
        self.begins, self.ends, self.logs = [], [], []

    def on_train_batch_begin(self, batch, logs=None):
        self.begins.append(batch)

    def on_train_batch_end(self, batch, logs=None):
        self.ends.append(batch)
        self.logs.append({name: float(value) for name, value in logs.items()})


def values(model):
    """All variables of a model, of its metrics and its optimizer."""
    variables = [*model.variables, *model.optimizer.variables]
    return [np.asarray(each.numpy(), float) for each in variables]


def numbers(nest):
    """Returns the numbers of a nest, as one array of each leaf."""
    return [np.asarray(each) for each in tf.nest.flatten(nest)]


def furthest(one, other):
    """Returns the largest difference between two lists of arrays."""
    pairs = list(zip(one, other, strict=True))
    return max(float(np.abs(np.subtract(a, b)).max()) for a, b in pairs)


def histories_differ(one, other):
    """Returns the largest difference between two histories with the same names."""
    assert set(one.history) == set(other.history)
    names = sorted(one.history)
    return furthest(
        [one.history[name] for name in names], [other.history[name] for name in names]
    )


def programs(model):
    """The programs that a model has compiled, by their keys."""
    return model.__dict__["_ipufeed"].programs
