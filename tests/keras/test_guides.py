"""Programs in the style of Keras's guides train in a compiled program as in stock Keras."""

import contextlib

import keras_models
import numpy as np
import pytest
import tensorflow as tf

pytestmark = pytest.mark.long

ROWS = keras_models.arrays(32)[0]


def noise(shape, seed):
    return tf.random.stateless_normal(shape, (seed, 2))


def update(optimizer, tape, loss, weights):
    optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))


def gan_class(kind):
    """Two models with an optimizer each, and no `call`."""

    class Gan(kind.Model):
        def __init__(self, discriminator, generator):
            super().__init__()
            self.discriminator, self.generator = discriminator, generator

        def compile(self, d_optimizer, g_optimizer, loss_fn, **keywords):
            super().compile(**keywords)
            self.d_optimizer, self.g_optimizer = d_optimizer, g_optimizer
            self.loss_fn = loss_fn
            self.d_loss = kind.metrics.Mean(name="d_loss")
            self.g_loss = kind.metrics.Mean(name="g_loss")

        @property
        def metrics(self):
            return [self.d_loss, self.g_loss]

        def train_step(self, real):
            rows = tf.shape(real)[0]
            fake = self.generator(noise([rows, 4], 1))
            labels = tf.concat([tf.ones([rows, 1]), tf.zeros([rows, 1])], 0)
            with tf.GradientTape() as tape:
                found = self.discriminator(tf.concat([fake, real], 0))
                loss = self.loss_fn(labels, found)
            weights = self.discriminator.trainable_weights
            update(self.d_optimizer, tape, loss, weights)
            self.d_loss.update_state(loss)
            with tf.GradientTape() as tape:
                found = self.discriminator(self.generator(noise([rows, 4], 3)))
                loss = self.loss_fn(tf.zeros([rows, 1]), found)
            update(self.g_optimizer, tape, loss, self.generator.trainable_weights)
            self.g_loss.update_state(loss)
            return {each.name: each.result() for each in self.metrics}

    return Gan


def gan(kind):
    layers = kind.layers
    discriminator = kind.Sequential(
        [layers.Dense(8), layers.LeakyReLU(0.2), layers.Dense(1, activation="sigmoid")]
    )
    generator = kind.Sequential(
        [
            kind.Input((4,)),
            layers.Dense(8),
            layers.BatchNormalization(),
            layers.Dense(6),
        ]
    )
    return gan_class(kind)(discriminator, generator)


def compile_gan(kind, model, **keywords):
    rates = kind.optimizers.schedules.ExponentialDecay(1e-2, 4, 0.9)
    optimizers = kind.optimizers.Adam(1e-2), kind.optimizers.Adam(rates)
    model.compile(*optimizers, kind.losses.BinaryCrossentropy(), **keywords)


def test_a_gan_trains_as_in_stock_keras(strategy, kind):
    """With one unbuilt model; its optimizers and metrics are made outside of the scope."""
    found = []
    for scope, steps in ((contextlib.nullcontext(), 1), (strategy.scope(), 4)):
        with scope:
            kind.utils.set_random_seed(7)
            model = gan(kind)
        compile_gan(kind, model, steps_per_execution=steps, jit_compile=True)
        history = model.fit(ROWS, batch_size=8, epochs=3, verbose=0, shuffle=False)
        found.append(
            [
                *(history.history[name] for name in ("d_loss", "g_loss")),
                *model.generator.get_weights(),
                *model.discriminator.get_weights(),
                int(model.d_optimizer.iterations),
            ]
        )

    assert keras_models.furthest(*found) <= 1e-5
    assert found[1][-1] == 12


def test_what_a_model_without_call_cannot_do_is_refused(strategy, kind):
    """Evaluate and predict, which have no step of its own."""
    with strategy.scope():
        model = gan(kind)
        compile_gan(kind, model)
    for run, step in ((model.evaluate, "test_step"), (model.predict, "predict_step")):
        words = f"`call` for the model gan.* or override `{step}`"
        with pytest.raises(NotImplementedError, match=words):
            run(ROWS, batch_size=8, verbose=0)


def test_a_model_that_is_not_compiled_predicts(strategy, kind):
    """It has no optimizer."""
    found = []
    for scope in (contextlib.nullcontext(), strategy.scope()):
        with scope:
            kind.utils.set_random_seed(7)
            model = kind.Sequential([kind.Input((6,)), kind.layers.Dense(3)])
        found.append([model.predict(ROWS, batch_size=8, verbose=0)])

    assert keras_models.furthest(*found) <= 1e-6


def vae(kind):
    """An encoder with a sampling layer, and a decoder; losses in train_step."""
    layers = kind.layers

    class Sampling(layers.Layer):
        def call(self, inputs):
            mean, log_var = inputs
            return mean + tf.exp(0.5 * log_var) * noise(tf.shape(mean), 5)

    class Vae(kind.Model):
        def __init__(self, encoder, decoder):
            super().__init__()
            self.encoder, self.decoder = encoder, decoder
            self.total = kind.metrics.Mean(name="loss")

        @property
        def metrics(self):
            return [self.total]

        def _loss(self, data):
            mean, log_var, z = self.encoder(data)
            kl = 1 + log_var - tf.square(mean) - tf.exp(log_var)
            distance = tf.reduce_mean(tf.square(data - self.decoder(z)))
            return distance - 0.5 * tf.reduce_mean(kl)

        def train_step(self, data):
            with tf.GradientTape() as tape:
                loss = self._loss(data)
            update(self.optimizer, tape, loss, self.trainable_weights)
            self.total.update_state(loss)
            return {"loss": self.total.result()}

        def test_step(self, data):
            x = data[0] if isinstance(data, tuple) else data
            self.total.update_state(self._loss(x))
            return {"loss": self.total.result()}

    inputs = kind.Input((6,))
    x = layers.Dense(8, activation="relu")(inputs)
    mean, log_var = layers.Dense(2)(x), layers.Dense(2)(x)
    encoder = kind.Model(inputs, [mean, log_var, Sampling()([mean, log_var])])
    decoder = kind.Sequential([kind.Input((2,)), layers.Dense(6)])
    return Vae(encoder, decoder)


def test_a_variational_autoencoder_trains_as_in_stock_keras(strategy, kind):
    """And is evaluated, by a step of its own."""
    found = []
    for scope, steps in ((contextlib.nullcontext(), 1), (strategy.scope(), 4)):
        with scope:
            kind.utils.set_random_seed(7)
            model = vae(kind)
            model.compile(
                optimizer=kind.optimizers.Adam(1e-2),
                steps_per_execution=steps,
                jit_compile=True,
            )
        history = model.fit(ROWS, batch_size=8, epochs=3, verbose=0, shuffle=False)
        score = model.evaluate(ROWS, batch_size=8, verbose=0)
        weights = [*model.encoder.get_weights(), *model.decoder.get_weights()]
        found.append([history.history["loss"], np.asarray(score), *weights])

    assert keras_models.furthest(*found) <= 1e-5


def siamese(kind):
    """A step of its own reads three tensors of an element, none of them a label."""
    layers = kind.layers
    net = kind.Sequential([kind.Input((6,)), layers.Dense(8, "relu"), layers.Dense(3)])
    tensors = [kind.Input((6,)) for _ in range(3)]
    encoded = kind.Model(tensors, [net(each) for each in tensors])

    class Siamese(kind.Model):
        def __init__(self):
            super().__init__()
            self.encoded = encoded
            self.distance = kind.metrics.Mean(name="loss")

        def call(self, inputs):
            anchor, positive, negative = self.encoded(inputs)
            near = tf.reduce_sum(tf.square(anchor - positive), -1)
            return near, tf.reduce_sum(tf.square(anchor - negative), -1)

        def _loss(self, data):
            near, far = self(data)
            return tf.reduce_mean(tf.maximum(near - far + 0.5, 0.0))

        def train_step(self, data):
            with tf.GradientTape() as tape:
                loss = self._loss(data)
            update(self.optimizer, tape, loss, self.encoded.trainable_weights)
            self.distance.update_state(loss)
            return {"loss": self.distance.result()}

        def test_step(self, data):
            self.distance.update_state(self._loss(data))
            return {"loss": self.distance.result()}

        @property
        def metrics(self):
            return [self.distance]

    return Siamese()


def test_a_siamese_network_trains_as_in_stock_keras(strategy, kind):
    """The model cannot be called with its first tensor alone: its own steps build it."""
    found = []
    rows = [np.roll(ROWS, shift, 0) for shift in range(3)]
    data = tf.data.Dataset.from_tensor_slices(tuple(rows)).batch(8, drop_remainder=True)
    for scope, steps in ((contextlib.nullcontext(), 1), (strategy.scope(), 2)):
        with scope:
            kind.utils.set_random_seed(7)
            model = siamese(kind)
            model.compile(
                kind.optimizers.Adam(1e-2), steps_per_execution=steps, jit_compile=True
            )
        history = model.fit(
            data, epochs=2, verbose=0, shuffle=False, validation_data=data
        )
        score = model.evaluate(data, verbose=0)
        weights = model.encoded.get_weights()
        found.append([*history.history.values(), np.asarray(score), *weights])

    assert keras_models.furthest(*found) <= 1e-6
