"""The optimizers of ipu.keras.optimizers update as Keras's own, or as their rule says."""

import keras
import keras_models as models
import numpy as np
import pytest
import tensorflow as tf

from ipufeed import compat
from ipufeed import keras as ipu_keras
from ipufeed.device.program.strategy import IPUStrategy
from ipufeed.keras import optimizers

pytestmark = pytest.mark.long

SGD = keras.optimizers.SGD


@pytest.fixture(autouse=True, scope="module")
def one_ipu():
    models.configure(1)


def trained(make, ipus=1, batch=8, loss_weight=None, **options):
    """Weights after two epochs of 64 rows; on the host without `ipus`."""
    models.configure(ipus or 1)
    scope = tf.device("/device:CPU:0") if ipus is None else IPUStrategy().scope()
    with scope:
        keras.utils.set_random_seed(7)
        model = models.dense()
        optimizer = make()
        steps = 64 // batch // (ipus or 1)
        model.compile(
            optimizer,
            models.cross_entropy(),
            loss_weights=loss_weight,
            steps_per_execution=steps,
        )
    if options:
        model.set_gradient_accumulation_options(**options)
    model.fit(models.dataset(batch), epochs=2, verbose=0, shuffle=False)
    return model.get_weights(), optimizer


def assert_near(one, other, most=1e-5):
    assert models.furthest(one[0], other[0]) <= most


def halved(gradient, variable):
    return 0.5 * gradient + 0.01 * variable


class Halved(SGD):
    """What `halved` comes to, as an optimizer of its own."""

    def apply_gradients(self, grads_and_vars):
        pairs = [(halved(gradient, each), each) for gradient, each in grads_and_vars]
        return super().apply_gradients(pairs)


def test_wrappers_pass_everything_on():
    """Updates, learning rate, count, state, configuration."""
    found = trained(lambda: optimizers.IpuOptimizer(keras.optimizers.Adam(0.01)))
    assert_near(trained(lambda: keras.optimizers.Adam(0.01)), found, 0.0)
    optimizer = found[1]
    assert int(optimizer.iterations) == 16
    assert [each.shape for each in optimizer.variables] == [
        each.shape for each in optimizer.inner_optimizer.variables
    ]
    optimizer.learning_rate = 0.5
    assert float(optimizer.inner_optimizer.learning_rate) == 0.5
    again = keras.optimizers.deserialize(keras.optimizers.serialize(optimizer))
    assert isinstance(again, optimizers.IpuOptimizer)
    assert again.inner_optimizer.get_config() == optimizer.inner_optimizer.get_config()


@pytest.mark.parametrize(
    ("given", "saved"),
    [(tf.float16, tf.float16), (None, None), (lambda weight: tf.float16, None)],
)
def test_the_config_of_an_accumulation_has_its_numbers(given, saved):
    """A function has no config: the sums then have the dtype of each weight."""
    optimizer = optimizers.GradientAccumulationOptimizer(
        SGD(0.1), 4, dtype=given, reduction_method="mean"
    )
    again = keras.optimizers.deserialize(keras.optimizers.serialize(optimizer))

    assert again.num_mini_batches == 4
    assert again.reduction_method is optimizer.reduction_method
    assert again.sum_dtype == saved


@pytest.mark.parametrize("name", ["", "InvertedChaining"])
def test_mapped_gradients(name):
    """Of one mini-batch both kinds are the same: also outside of the device."""
    kind = getattr(optimizers, f"MapGradientOptimizer{name}")
    want = trained(lambda: Halved(0.1))
    for ipus in (1, None):
        assert_near(trained(lambda: kind(SGD(0.1), halved), ipus), want)


def test_mapped_before_or_after_the_sum():
    """Clipped to 0.01: each mini-batch's, or the sum over two replicas and four."""

    def clip(gradient, variable):
        return tf.clip_by_value(gradient, -0.01, 0.01)

    class Clipped(SGD):
        def apply_gradients(self, pairs):
            return super().apply_gradients([(clip(g, v), v) for g, v in pairs])

    inverted = optimizers.MapGradientOptimizerInvertedChaining
    found = trained(
        lambda: inverted(SGD(0.1), clip),
        2,
        gradient_accumulation_steps_per_replica=4,
        gradient_accumulation_reduction_method="sum",
    )
    want = trained(lambda: Clipped(0.1), None, batch=64, loss_weight=[8.0])
    assert_near(found, want)

    each = trained(
        lambda: optimizers.MapGradientOptimizer(SGD(0.1), clip),
        1,
        gradient_accumulation_steps_per_replica=8,
        gradient_accumulation_reduction_method="sum",
    )
    # Eight parts of at most 0.01 each, and hardly any is less.
    moved = np.abs(each[0][2] - found[0][2]).max()
    assert moved > 0.001


def test_replicas_are_averaged():
    """CrossReplicaOptimizer: two replicas are one batch of twice the size."""
    found = trained(lambda: optimizers.CrossReplicaOptimizer(SGD(0.1)), ipus=2)
    assert_near(found, trained(lambda: SGD(0.1), None, batch=16))


def test_accumulation_of_an_optimizer_is_an_option_of_the_model():
    """`compile` reads it; elsewhere it says what to use."""
    kind = optimizers.GradientAccumulationOptimizer
    found = trained(lambda: kind(SGD(0.1), 4, reduction_method="mean"))
    assert_near(found, trained(lambda: SGD(0.1), None, batch=32))
    assert int(found[1].iterations) == 4
    with pytest.raises(
        tf.errors.FailedPreconditionError, match="not inside a training"
    ):
        kind(SGD(0.1), 2).apply_gradients([])
    with pytest.raises(ValueError, match="must be a positive int, got 0"):
        kind(SGD(0.1), 0)


def test_optimizers_of_the_addons(caplog):
    """Adam and LAMB with extras are Keras's, with the gradients transformed."""
    found = trained(lambda: optimizers.AdamIpuOptimizer(0.01, m_dtype="float16"))
    assert_near(trained(lambda: keras.optimizers.Adam(0.01)), found, 0.0)
    assert "AdamIpuOptimizer(m_dtype=)` has no effect" in caplog.text
    found = trained(lambda: optimizers.LAMBIpuOptimizer(0.01))
    assert_near(trained(lambda: keras.optimizers.Lamb(0.01, epsilon=1e-6)), found)

    class Doubled(keras.optimizers.Adam):
        def apply(self, grads, trainable_variables=None):
            super().apply([2 * each for each in grads], trainable_variables)

    def double(pairs):
        return [(2 * gradient, variable) for gradient, variable in pairs]

    found = trained(
        lambda: optimizers.AdamIpuOptimizer(0.01, gradient_transformers=[double])
    )
    assert_near(trained(lambda: Doubled(0.01)), found)


def test_what_is_refused_names_the_replacement():
    """Another kind of optimizer, a function that is none, names without a counterpart."""
    v1 = tf.compat.v1.train.GradientDescentOptimizer(0.1)
    with pytest.raises(ValueError, match="IpuOptimizer wraps Keras optimizers, got"):
        optimizers.IpuOptimizer(v1)
    with pytest.raises(TypeError, match="`gradient_mapping_function` must be"):
        optimizers.MapGradientOptimizer(SGD(0.1), 3)
    with pytest.raises(AttributeError, match=r"Use keras\.optimizers\.LossScale"):
        optimizers.ALSOptimizer  # noqa: B018
    with pytest.raises(ValueError, match="n_dtype"):
        optimizers.AdamIpuOptimizer(0.1, n_dtype="float16")
    with pytest.raises(ValueError, match="either `amsgrad` or debiasing=False"):
        optimizers.AdamIpuOptimizer(amsgrad=True, debiasing=False)
    with pytest.raises(NotImplementedError, match="its function has no config"):
        optimizers.MapGradientOptimizer(SGD(0.1), halved).get_config()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (
            lambda: optimizers.IpuOptimizer(SGD(), 3),
            "`name` must be a str or None, got",
        ),
        (lambda: optimizers.CrossReplicaOptimizer(SGD(), 3), "`name` must be a str or"),
        (
            lambda: optimizers.GradientAccumulationOptimizer(SGD(), 2, name=3),
            "`name` must be a str or None, got int 3",
        ),
        *(
            (
                lambda flag=flag: optimizers.GradientAccumulationOptimizer(
                    SGD(), 2, **{flag: 3}
                ),
                f"{flag} must be a bool.*, got int 3",
            )
            for flag in (
                "offload_weight_update_variables",
                "replicated_optimizer_state_sharding",
            )
        ),
        (lambda: optimizers.AdamIpuOptimizer(m_dtype=3), "`m_dtype` must be a dtype"),
        (
            lambda: optimizers.LAMBIpuOptimizer(vhat_dtype="x"),
            "`vhat_dtype` must be a dtype such as tf.float32 or None, got str 'x'",
        ),
        (
            lambda: optimizers.AdamIpuOptimizer(epsilon="a"),
            "`epsilon` must be a number, got str 'a'",
        ),
        (
            lambda: optimizers.AdamIpuOptimizer(amsgrad="yes"),
            "amsgrad must be a bool, got str 'yes'",
        ),
        (
            lambda: optimizers.SGDIpuOptimizer(momentum_accum_dtype="x"),
            "`momentum_accum_dtype` must be a dtype",
        ),
        (
            lambda: optimizers.LAMBIpuOptimizer(weight_norm_clip="x"),
            "`weight_norm_clip` must be a number",
        ),
        (
            lambda: optimizers.AdamIpuOptimizer(debiasing="no"),
            "debiasing must be a bool, got str 'no'",
        ),
    ],
)
def test_arguments_of_optimizers_are_named_when_they_are_made(make, words):
    """As those of the optimizers for TensorFlow 1."""
    with pytest.raises(TypeError, match=words):
        make()
    optimizers.AdamIpuOptimizer(epsilon=tf.constant(1e-7), v_dtype=np.float16)


def test_names_of_the_original():
    """`keras.ipu.optimizers`, `tf.keras.ipu.extensions` and ipu.keras's are these."""
    compat.install()
    from keras.ipu import optimizers as of_keras
    from tensorflow.keras.ipu.extensions import SequentialExtension
    from tensorflow.python.ipu.keras.optimizers import IpuOptimizer

    assert of_keras.CrossReplicaOptimizer is optimizers.CrossReplicaOptimizer
    assert IpuOptimizer is optimizers.IpuOptimizer
    assert SequentialExtension is ipu_keras.extensions.SequentialExtension


def test_tensorflows_old_keras_is_the_one_in_use():
    """By each way to import it; what Keras does not have is TensorFlow's own."""
    compat.install()
    import tensorflow.python.keras.layers as layers
    from tensorflow.python import keras as old
    from tensorflow.python.keras.datasets import mnist
    from tensorflow.python.keras.engine import training
    from tensorflow.python.keras.optimizer_v2.adam import Adam
    from tensorflow.python.keras.preprocessing.sequence import pad_sequences
    from tensorflow.python.keras.utils import conv_utils
    from tensorflow.python.layers import core

    assert old.Sequential is keras.Sequential
    assert layers.Dense is keras.layers.Dense
    assert mnist.load_data is keras.datasets.mnist.load_data
    assert pad_sequences([[1], [2, 3]]).shape == (2, 2)
    assert training.Model is not keras.Model
    assert Adam is keras.optimizers.Adam
    assert conv_utils.normalize_tuple(2, 2, "n") == (2, 2)
    assert core.Dense is not keras.layers.Dense
    with pytest.raises(AttributeError, match=r"keras.layers' has no attribute 'Dens'"):
        layers.Dens  # noqa: B018


def test_extensions_know_what_belongs_to_the_ipu():
    """By where a model was made, and its kind."""
    extensions = ipu_keras.extensions

    class Mine(keras.Model):
        """Of a kind of its own."""

    elsewhere = models.dense()
    plain = IPUStrategy(enable_keras_extensions=False)
    with plain.scope():
        left = models.dense()
    with IPUStrategy().scope():
        made = {
            "Sequential": models.dense(),
            "Functional": models.stateful(),
            "Model": Mine(),
        }
    for name, model in made.items():
        for kind in made:
            asked = getattr(extensions, f"{kind}Extension")
            assert isinstance(model, asked) is (kind == name)
            assert not isinstance(elsewhere, asked)
            assert not isinstance(left, asked)


def test_a_subclass_may_pass_the_name_of_keras_2_on():
    """As the documents of the original have it."""

    class CastGradientsSGD(SGD):
        def apply_gradients(self, grads_and_vars, name=None):
            pairs = [(tf.cast(g, v.dtype), v) for g, v in grads_and_vars]
            return super().apply_gradients(pairs, name)

    options = {"gradient_accumulation_steps_per_replica": 4}
    found = trained(lambda: CastGradientsSGD(0.1), batch=4, **options)

    assert_near(found, trained(lambda: SGD(0.1), batch=4, **options))


def trained_in_half_precision(keras_module, optimizer, **options):
    """Weights after one update with the sum of four gradients, of float32."""
    layers = keras_module.layers
    with IPUStrategy().scope():
        model = keras_module.Sequential(
            [
                keras_module.Input([2], dtype="float16"),
                layers.Dense(1, use_bias=False, dtype="float16"),
            ]
        )
        model.compile(optimizer, "mse", steps_per_execution=4)
        model.set_weights([np.zeros([2, 1], "float16")])
    model.set_gradient_accumulation_options(4, dtype=tf.float32)
    x, y = np.full([4, 2], 100, "float16"), np.full([4, 1], 150, "float16")
    model.fit(x, y, batch_size=1, verbose=0)
    return model.get_weights()[0]


def test_the_optimizer_gets_gradients_of_the_accumulators_dtype():
    """A sum beyond float16 is scaled before it is cast, as in a pipeline."""
    found = []

    class Cast(SGD):
        def apply_gradients(self, grads_and_vars):
            pairs = list(grads_and_vars)
            found.extend(gradient.dtype for gradient, _ in pairs)
            pairs = [(tf.cast(g / 1024, v.dtype), v) for g, v in pairs]
            return super().apply_gradients(pairs)

    # Each gradient is -2 * 150 * 100.
    weights = trained_in_half_precision(keras, Cast(0.125))
    assert set(found) == {tf.float32}
    assert np.allclose(weights, 0.125 * 4 * 30000 / 1024, rtol=1e-3)


def test_an_optimizer_of_tf_keras_that_does_not_cast_is_refused():
    """Its rule computes with one dtype; the error names the option and the remedy."""
    tf_keras = pytest.importorskip("tf_keras")
    with pytest.raises(TypeError, match=r"float32, from `dtype`, and cannot .*float16"):
        trained_in_half_precision(tf_keras, tf_keras.optimizers.SGD(0.125))
