"""Further random ops on an IPU draw what its seed says, or a warning names them."""

import logging

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.eager import context

from ipufeed import no_effect
from ipufeed.device.config.config import IPUConfig
from ipufeed.device.program import compiler as ipu_compiler
from ipufeed.device.program import executor as params
from ipufeed.device.program.scopes import ipu_scope
from ipufeed.device.program.strategy import IPUStrategy
from ipufeed.device.random import unreached
from ipufeed.device.system import system
from ipufeed.device.system.seeds import reset_ipu_seed

pytestmark = [pytest.mark.usefixtures("clean_system"), pytest.mark.long]
RATES = tf.constant([0.5, 3.0, 40.0])
LABELS = tf.constant([[0], [3], [7]], tf.int64)
BOXES = tf.zeros([1, 0, 4])


@pytest.fixture(autouse=True)
def _as_before():
    """Neither a seed of TensorFlow's stays, nor an executor."""
    yield
    context.context()._seed = None
    params.set_executor("xla")


def truncated(**parameters):
    return tf.raw_ops.ParameterizedTruncatedNormal(
        **{
            "shape": [3, 50],
            "means": 0.0,
            "stdevs": 1.0,
            "minvals": -1.0,
            "maxvals": 2.0,
        }
        | parameters
    )


def box():
    return tf.image.sample_distorted_bounding_box(
        [300, 200, 3], BOXES, use_image_if_no_bounding_boxes=True
    )[0]


OPS = {
    "gamma": lambda: tf.random.gamma([37], RATES, 2.0),
    "gamma float16": lambda: tf.random.gamma([37], 0.5, dtype=tf.float16),
    "gamma float64": lambda: tf.cast(
        tf.random.gamma([37], 0.5, dtype=tf.float64), tf.float32
    ),
    "poisson": lambda: tf.random.poisson([37], RATES),
    "poisson int32": lambda: tf.random.poisson([37], 3.0, tf.int32),
    "raw poisson int64": lambda: tf.raw_ops.RandomPoissonV2(shape=[37], rate=RATES),
    "parameterized truncated normal": truncated,
    "box": box,
    "older box": lambda: tf.raw_ops.SampleDistortedBoundingBox(
        image_size=[300, 200, 3],
        bounding_boxes=BOXES,
        use_image_if_no_bounding_boxes=True,
    )[0],
    "image crop": lambda: tf.image.random_crop(tf.range(1000), [100]),
    "uniform classes": lambda: tf.random.uniform_candidate_sampler(
        LABELS, 1, 9, True, 1000
    )[0],
    "classes": lambda: tf.random.log_uniform_candidate_sampler(
        LABELS, 1, 9, False, 10000
    )[0],
    "softmax": lambda: tf.nn.sampled_softmax_loss(
        *(tf.ones([1000, 4]), tf.zeros([1000]), LABELS, tf.ones([3, 4]), 9, 1000)
    ),
}
# XLA has them, too. (Of sampled classes the expected counts may differ in the last bit.)
COMPILED = {"image crop", "uniform classes", "classes"}


def drawn_by(op, executor, runs=2):
    """The bytes of what two such ops draw in each run of a program."""
    params.set_executor(executor)
    program = tf.function(lambda: [op(), op()], jit_compile=executor == "xla")
    strategy = IPUStrategy()
    with strategy.scope():
        results = [strategy.run(program) for _ in range(runs)]
    flat = [[tf.nest.flatten(each) for each in both] for both in results]
    return [
        b"".join(t.numpy().tobytes() for t in each) for both in flat for each in both
    ]


@pytest.mark.parametrize("name", OPS)
def test_a_reset_repeats_a_sequence_of_runs(name):
    """On the executor; runs and ops differ. What XLA has is the same compiled."""
    found = []
    for executor in ("tensorflow", "tensorflow", "xla" if name in COMPILED else None):
        if executor is not None:
            reset_ipu_seed(11)
            found.append(drawn_by(OPS[name], executor))

    assert all(each == found[0] for each in found)
    assert len(set(found[0])) == 4
    reset_ipu_seed(12)
    assert drawn_by(OPS[name], "tensorflow") != found[0]


@pytest.mark.parametrize("name", OPS)
def test_an_eager_op_is_a_run_of_its_own(name):
    """The same as the first op of a program's first run."""
    reset_ipu_seed(11)
    with ipu_scope("/device:IPU:0"):
        values = tf.nest.flatten(OPS[name]())
    reset_ipu_seed(11)

    params.set_executor("tensorflow")
    strategy = IPUStrategy()
    with strategy.scope():
        first = tf.nest.flatten(strategy.run(tf.function(OPS[name])))
    for one, other in zip(values, first, strict=True):
        # Graphs fold constants, with other last bits in what is computed of the numbers.
        np.testing.assert_allclose(one, other, rtol=1e-6)


@pytest.mark.parametrize("name", OPS)
def test_shapes_and_dtypes_are_those_of_the_host(name):
    """The stock ops say which."""
    host = tf.nest.flatten(OPS[name]())
    with ipu_scope("/device:IPU:0"):
        found = tf.nest.flatten(OPS[name]())

    assert [(t.dtype, t.shape) for t in found] == [(t.dtype, t.shape) for t in host]


def test_numbers_have_their_distribution():
    """Means within four standard errors."""
    reset_ipu_seed(1)
    with ipu_scope("/device:IPU:0"):
        gamma = tf.random.gamma([40000], RATES, 2.0).numpy()
        poisson = tf.random.poisson([40000], RATES).numpy()
        rows = truncated(shape=[2, 40000], means=[0.0, 5.0], maxvals=[2.0, 6.0]).numpy()

    rates = RATES.numpy()
    assert (abs(gamma.mean(0) - rates / 2) < 4 * np.sqrt(rates) / 2 / 200).all()
    assert (abs(poisson.mean(0) - rates) < 4 * np.sqrt(rates) / 200).all()
    assert rows.min() >= -1
    assert rows[0].max() <= 2 < rows[1].mean() < rows[1].max() <= 6


def test_the_gradient_of_gamma_is_that_of_its_samples():
    """That for beta is -sample / beta; that for alpha is finite and positive."""
    params.set_executor("tensorflow")

    def net(alpha, beta):
        with tf.GradientTape() as tape:
            tape.watch([alpha, beta])
            samples = tf.random.gamma([1], alpha, beta)
        return samples, tape.gradient(samples, [alpha, beta])

    strategy = IPUStrategy()
    with strategy.scope():
        values = [tf.constant([2.0, 3.0]), tf.constant([4.0, 0.5])]
        samples, (of_alpha, of_beta) = strategy.run(tf.function(net), values)

    np.testing.assert_allclose(of_beta, -samples[0] / [4.0, 0.5], rtol=1e-5)
    assert np.isfinite(of_alpha).all()
    assert (of_alpha.numpy() > 0).all()


@pytest.mark.parametrize("log_uniform", [True, False])
@pytest.mark.parametrize("unique", [True, False])
def test_classes_have_the_expected_counts_that_tensorflow_gives(log_uniform, unique):
    """And come as often as these say."""
    kind = "log_uniform" if log_uniform else "uniform"
    sampler = getattr(tf.random, f"{kind}_candidate_sampler")
    reset_ipu_seed(1)
    with ipu_scope("/device:IPU:0"):
        # Unique ones have no counts to compare: what holds for each, holds for a few.
        draws = 20 if unique else 300
        found = [sampler(LABELS, 1, 5, unique, 8) for _ in range(draws)]
    counts = np.zeros(8)
    for classes, of_true, of_sampled in found:
        if unique:
            assert len(set(classes.numpy())) == 5
        np.testing.assert_allclose(of_true[0, 0], of_true.numpy().ravel()[0])
        assert of_true.shape == [3, 1]
        assert of_sampled.shape == [5]
        np.add.at(counts, classes.numpy(), 1)
    if not unique:
        stock = sampler(LABELS, 1, 5, unique, 8)[1].numpy()
        np.testing.assert_allclose(found[0][1], stock, rtol=1e-5)
        expected = np.array([found[0][1].numpy()[i, 0] for i in range(3)])
        shares = counts[LABELS.numpy().ravel()] / 300
        assert (abs(shares - expected) < 4 * np.sqrt(expected / 300)).all()


@pytest.mark.parametrize("kind", ["uniform", "log_uniform"])
@pytest.mark.parametrize("is_compiled", [True, False])
def test_classes_of_version_1_graphs_are_different_classes(kind, is_compiled):
    """There `==` of tensors compares identities: all classes were -1."""
    sampler = getattr(tf.random, f"{kind}_candidate_sampler")

    def draw():
        return sampler(LABELS.numpy(), 1, 5, True, 8)[0]

    with tf.Graph().as_default(), ipu_scope("/device:IPU:0"):
        drawn = ipu_compiler.compile(draw)[0] if is_compiled else draw()
        with tf.compat.v1.Session() as session:
            found = {tuple(session.run(drawn).tolist()) for _ in range(3)}

    assert len(found) == 3
    assert all(len(set(each)) == 5 for each in found)
    assert all(0 <= number < 8 for each in found for number in each)


def test_seeds_of_ops_and_graphs_count():
    """tf.random.set_seed, and the argument of an op."""
    found = set()
    for graph, own in ((None, None), (1, None), (1, 7), (2, 7)):
        context.context()._seed = None
        if graph is not None:
            tf.random.set_seed(graph)
        reset_ipu_seed(3)
        found |= {
            *drawn_by(lambda own=own: tf.random.gamma([3], 1.0, seed=own), "tensorflow")
        }

    assert len(found) == 16


def test_devices_have_seeds_of_their_own():
    """Of two devices with one seed each draws the same, run by run."""
    config = IPUConfig()
    config.auto_select_ipus = [1, 1]
    system.configure_ipu_system(config)
    found = []
    for ordinal in range(2):
        reset_ipu_seed(5, f"/device:IPU:{ordinal}")
        with ipu_scope(f"/device:IPU:{ordinal}"):
            found += [tf.random.poisson([50], 9.0).numpy().tolist() for _ in range(2)]

    assert found[0] == found[2] != found[1] == found[3]


# ---- What the device's seed does not reach


def pool(**keywords):
    return tf.nn.fractional_max_pool(
        tf.ones([1, 8, 8, 1]), [1.0, 1.4, 1.4, 1.0], pseudo_random=True, **keywords
    )


def generator():
    return tf.random.Generator.from_non_deterministic_state()


def candidates(name, **more):
    sampler = getattr(tf.raw_ops, name)
    return sampler(
        true_classes=LABELS, num_true=1, num_sampled=2, unique=True, range_max=9, **more
    )


UNREACHED = {
    "tf.random.fixed_unigram_candidate_sampler": lambda: candidates(
        "FixedUnigramCandidateSampler", unigrams=[1.0] * 9
    ),
    "tf.random.learned_unigram_candidate_sampler": lambda: candidates(
        "LearnedUnigramCandidateSampler"
    ),
    "tf.random.thread_unsafe_unigram_candidate_sampler": lambda: candidates(
        "ThreadUnsafeUnigramCandidateSampler"
    ),
    "tf.nn.fractional_max_pool": pool,
    "tf.nn.fractional_avg_pool": lambda: tf.nn.fractional_avg_pool(
        tf.ones([1, 8, 8, 1]), [1.0, 1.4, 1.4, 1.0], pseudo_random=True
    ),
    unreached.GENERATOR: lambda: generator().normal([3]),
}


@pytest.fixture
def warned(caplog):
    """Gives the operations that were warned of since the last call."""
    no_effect.forget()
    unreached.forget()
    caplog.set_level(logging.WARNING, "ipufeed")

    def names():
        found = [r.args[0] for r in caplog.records if "does not reach" in r.msg]
        caplog.clear()
        return found

    yield names
    no_effect.forget()
    unreached.forget()


@pytest.mark.parametrize("name", UNREACHED)
def test_what_the_seed_does_not_reach_is_warned_of_once(warned, name):
    """After a reset, or with it; on the host never."""
    op = UNREACHED[name]
    op()
    reset_ipu_seed(1)
    op()
    assert warned() == []
    with ipu_scope("/device:IPU:0"):
        op()
        op()
    reset_ipu_seed(2)
    assert warned() == [name]


@pytest.mark.parametrize("name", UNREACHED)
def test_what_was_built_before_the_reset_is_warned_of_then(warned, name):
    """Without a reset there is nothing to say."""
    with ipu_scope("/device:IPU:0"):
        UNREACHED[name]()
    assert warned() == []
    reset_ipu_seed(2)
    reset_ipu_seed(3)
    assert warned() == [name]


def test_what_has_a_seed_of_its_own_is_not_warned_of(warned):
    """A generator from a seed, or reset to one; pooling with a seed."""
    reset_ipu_seed(1)
    other = generator()
    other.reset_from_seed(4)
    with ipu_scope("/device:IPU:0"):
        tf.random.Generator.from_seed(3).normal([2])
        other.normal([2])
        pool(seed=5)
    assert warned() == []


def test_every_random_op_of_tensorflow_is_in_one_of_the_tables():
    """A new release of TensorFlow may have another one."""
    from tensorflow.python.framework import op_def_registry

    from ipufeed.device.random import candidates, ops, samplers

    known = {
        **ops.REWRITTEN,
        **samplers.RANDOM,
        **samplers.IMAGE,
        **candidates.REWRITTEN,
        **unreached.CANDIDATES,
        **unreached.POOLING,
    }
    raw = {"".join(word.capitalize() for word in name.split("_")) for name in known}
    found = set()
    for name in dir(tf.raw_ops):
        op = op_def_registry.get(name)
        if op is None or "Dataset" in name or "Cudnn" in name or "Queue" in name:
            continue
        if {"seed", "seed2"} <= {each.name for each in op.attr}:
            found.add(name)
    # All the classes there are, and which of them are equal: nothing is drawn.
    found -= {"AllCandidateSampler", "ComputeAccidentalHits"}
    assert found - {"RandomCrop", "RandomPoisson"} == raw  # removed from TensorFlow
