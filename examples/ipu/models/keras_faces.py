"""Two Keras networks that distinguish faces from other pictures, trained with fit.

The pictures come with scikit-image: 200 of 25 by 25 pixels, half of them faces. An MLP
and a small convolutional network make ten steps in each execution of one program; the
callback says how long the device waited for data. Prints

    mlp: 7538 weights, loss ... to ..., ... of 40 pictures right
    convolutional: 642 weights, loss ... to ..., ... of 40 pictures right
"""

import keras
import numpy as np
import skimage.data
from tensorflow.python import ipu

PICTURES, BATCH, EPOCHS = 200, 16, 8

config = ipu.config.IPUConfig()
config.auto_select_ipus = 1
config.configure_ipu_system()


def make_data():
    pictures = skimage.data.lfw_subset().astype("float32")[..., np.newaxis]
    is_face = np.repeat([1, 0], PICTURES // 2).astype("int32")
    order = np.random.default_rng(1).permutation(PICTURES)
    pictures, is_face = pictures[order] - pictures.mean(), is_face[order]
    return (pictures[:160], is_face[:160]), (pictures[160:], is_face[160:])


def mlp():
    return keras.Sequential(
        [
            keras.Input((25, 25, 1)),
            keras.layers.Flatten(),
            keras.layers.Dense(12, activation="relu"),
            keras.layers.Dense(2),
        ],
        name="mlp",
    )


def convolutional():
    return keras.Sequential(
        [
            keras.Input((25, 25, 1)),
            keras.layers.Conv2D(8, 5, strides=2),
            keras.layers.BatchNormalization(momentum=0.8),
            keras.layers.ReLU(),
            keras.layers.MaxPooling2D(2),
            keras.layers.Dropout(0.1),
            keras.layers.Flatten(),
            keras.layers.Dense(2),
        ],
        name="convolutional",
    )


train, test = make_data()
strategy = ipu.ipu_strategy.IPUStrategy()
for make in (mlp, convolutional):
    keras.utils.set_random_seed(1)
    with strategy.scope():
        model = make()
        model.compile(
            keras.optimizers.Adam(0.003),
            keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            metrics=["accuracy"],
            steps_per_execution=10,
        )
    bound = keras.ipu.InputBound()
    history = model.fit(
        *train, batch_size=BATCH, epochs=EPOCHS, verbose=0, callbacks=[bound]
    )
    found = model.predict(test[0], batch_size=20, verbose=0).argmax(1)
    first, *_, last = history.history["loss"]
    print(
        f"{model.name}: {model.count_params()} weights, loss {first:.3f} to {last:.3f}, "
        f"{(found == test[1]).sum()} of {len(found)} pictures right"
    )
