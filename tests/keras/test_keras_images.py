"""Layers of kernels that XLA does not have run in compiled programs."""

import contextlib

import keras
import keras_models as models
import numpy as np
import pytest
import tensorflow as tf

from ipufeed.device.program.strategy import IPUStrategy

pytestmark = pytest.mark.long

random = np.random.default_rng(0)
images = random.normal(size=[64, 8, 8, 3]).astype("float32")


@pytest.fixture(scope="module")
def strategy():
    models.configure(1)
    return IPUStrategy()


@pytest.mark.parametrize("interpolation", ["NEAREST", "BILINEAR"])
@pytest.mark.parametrize("mode", ["CONSTANT", "NEAREST", "REFLECT", "WRAP"])
def test_a_transform_is_that_of_the_kernel(strategy, mode, interpolation):
    """Far outside, too; one transform for each image, or one for all; with gradients."""
    pixels = images[:5, :, :7]

    def build(pixels, transforms):
        return tf.raw_ops.ImageProjectiveTransformV3(
            images=pixels,
            transforms=transforms,
            output_shape=[6, 9],
            fill_value=0.5,
            interpolation=interpolation,
            fill_mode=mode,
        )

    @tf.function(jit_compile=True)
    def program(pixels, transforms):
        with tf.GradientTape() as tape:
            tape.watch(pixels)
            result = build(pixels, transforms)
        return result, tape.gradient(result, pixels)

    for count in (5, 1):
        spread = [0.3, 0.3, 9, 0.3, 0.3, 9, 0.01, 0.01]
        transforms = np.float32([1, 0, 0, 0, 1, 0, 0, 0]) + random.normal(
            size=[count, 8]
        ) * np.float32(spread)
        transforms = transforms.astype("float32")
        want = build(pixels, transforms).numpy()
        with strategy.scope():
            found, gradient = strategy.run(
                program, args=[tf.constant(pixels), tf.constant(transforms)]
            )
        assert np.allclose(found, want, atol=1e-5)
        # Each value of the result is a mean of pixels, or filled.
        total = want.size if mode != "CONSTANT" else gradient.numpy().sum()
        assert np.isclose(gradient.numpy().sum(), total, rtol=1e-4)


def assert_trains_as_in_stock_keras(strategy, make, x):
    """The losses of a model, which `make` makes twice, are the same in the scope."""
    found = []
    for scope in (contextlib.nullcontext(), strategy.scope()):
        with scope:
            keras.utils.set_random_seed(7)
            model = make()
            model.compile("adam", models.cross_entropy(), steps_per_execution=4)
        labels = models.arrays()[1]
        history = model.fit(x, labels, 8, epochs=2, verbose=0, shuffle=False)
        found.append(history.history["loss"])

    assert np.allclose(*found, rtol=1e-5)


def test_augmented_images_train_as_in_stock_keras(strategy):
    """By a fixed amount: what is drawn differs with and without XLA, also in Keras."""

    def make():
        layers = keras.layers
        return keras.Sequential(
            [
                keras.Input((8, 8, 3)),
                layers.RandomRotation((0.1, 0.1)),
                layers.RandomZoom((0.3, 0.3), fill_mode="constant"),
                layers.RandomTranslation((0.2, 0.2), 0.0, "wrap"),
                layers.Flatten(),
                layers.Dense(models.CLASSES),
            ]
        )

    assert_trains_as_in_stock_keras(strategy, make, images)


def test_categories_are_encoded_as_in_stock_keras(strategy):
    """Without bincount, whose result has a shape that XLA cannot know."""

    def make():
        inputs = keras.Input((3,))
        encoded = [
            keras.layers.Flatten()(
                keras.layers.CategoryEncoding(20, output_mode=mode)(inputs)
            )
            for mode in ("multi_hot", "count", "one_hot")
        ]
        joined = keras.layers.Concatenate()(encoded)
        return keras.Model(inputs, keras.layers.Dense(models.CLASSES)(joined))

    codes = (np.arange(192) % 20).reshape(64, 3)
    assert_trains_as_in_stock_keras(strategy, make, codes)
