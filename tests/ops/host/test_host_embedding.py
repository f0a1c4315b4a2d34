"""Tables on the host are what a simulation in NumPy says, and go back to variables."""

import contextlib

import keras
import numpy as np
import pytest
import styles
import tensorflow as tf

from ipufeed.device.config.config import IPUConfig
from ipufeed.device.program.strategy import IPUStrategy
from ipufeed.ops.host import tables
from ipufeed.ops.host_embedding import (
    HostEmbeddingOptimizerSpec,
    HostEmbeddingSGDGAOptimizerSpec,
    create_host_embedding,
)
from ipufeed.parallel.collectives.ops import cross_replica_sum
from ipufeed.parallel.pipeline.options import OptimizerFunctionOutput
from ipufeed.parallel.pipeline.pipeline import pipeline
from ipufeed.queues import IPUInfeedQueue, IPUOutfeedQueue

pytestmark = pytest.mark.usefixtures("clean_system")
v1 = tf.compat.v1
RNG = np.random.default_rng(5)
START = RNG.normal(size=(12, 4)).astype(np.float32)
IDS = RNG.integers(-2, 15, size=(20, 6)).astype(np.int32)
RATE = 0.1


def simulated(factor=1, train=True, steps=20):
    """What each lookup gives, and the table at the end; the loss is sum(row^2) / 2."""
    table, kept, looked_up = START.astype(np.float64), [], []
    for ids in np.clip(IDS[:steps], 0, 11):
        looked_up.append(table[ids])
        kept.append((ids, -RATE * table[ids]))
        if train and len(kept) == factor:
            for each, step in kept:
                np.add.at(table, each, step)
            kept = []
    return looked_up, table


SPECS = {
    "none": (None, 1, False),
    "rate 0": (HostEmbeddingOptimizerSpec(0.0), 1, False),
    "sgd": (HostEmbeddingOptimizerSpec(RATE), 1, True),
    "accumulated": (HostEmbeddingSGDGAOptimizerSpec(RATE, 5), 5, True),
    "accumulated, 1": (HostEmbeddingSGDGAOptimizerSpec(RATE, 1), 1, True),
}


@pytest.mark.parametrize("name", SPECS)
def test_a_loop_trains_a_table_as_numpy_does(name, caplog):
    """Version 1: an optimizer's gradient of the dummy variable is the update."""
    spec, factor, train = SPECS[name]
    with styles.entered("graph", "xla") as style:
        embedding = create_host_embedding(
            "table", [12, 4], tf.float32, optimizer_spec=spec, initializer=START
        )
        infeed = style.feed(lambda: tf.data.Dataset.from_tensor_slices(IDS))
        outfeed = IPUOutfeedQueue()

        def body(ids):
            rows = embedding.lookup(ids)
            enqueue = outfeed.enqueue(rows)
            if not train:
                return enqueue
            loss = tf.reduce_sum(tf.square(rows)) / 2
            optimizer = v1.train.GradientDescentOptimizer(1.0)
            with tf.control_dependencies([enqueue]):
                return optimizer.minimize(loss)

        go = style.build(lambda: style.repeat(10, body, [], infeed))
        style.initialize()
        with embedding.register(style.session) as registered:
            assert registered is embedding
            go()
            go()
        assert not [each for each in caplog.messages if "Variable.load" in each]
        tensor = embedding.get_embedding_tensor()
        rows, table = simulated(factor, train)
        names = [each.op.name for each in v1.trainable_variables()]
        assert names == (["table/__dummy"] if train else [])
        np.testing.assert_allclose(
            style.read(outfeed.dequeue()), rows, rtol=1e-4, atol=1e-6
        )
        np.testing.assert_allclose(style.read(tensor), table, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("recompute", [False, True])
def test_a_stage_of_a_pipeline_updates_a_table_once(recompute):
    """Forward looks up, backward updates, and a stage that is recomputed does neither."""
    config = IPUConfig()
    config.auto_select_ipus = 2
    config.allow_recompute = recompute
    config.configure_ipu_system()
    strategy = IPUStrategy()
    infeed = IPUInfeedQueue(tf.data.Dataset.from_tensor_slices(IDS))
    outfeed = IPUOutfeedQueue()
    _ = infeed.initializer
    with strategy.scope():
        embedding = create_host_embedding(
            "stage",
            [12, 4],
            tf.float32,
            "ENCODING",
            HostEmbeddingSGDGAOptimizerSpec(RATE, 4),
            initializer=START,
        )

    @tf.function(jit_compile=True)
    def program():
        return pipeline(
            [
                lambda ids: embedding.lookup(ids) * 1.0,
                lambda rows: tf.reduce_sum(tf.square(rows)) / 2,
            ],
            gradient_accumulation_count=4,
            repeat_count=5,
            infeed_queue=infeed,
            outfeed_queue=outfeed,
            optimizer_function=lambda loss: OptimizerFunctionOutput(
                v1.train.GradientDescentOptimizer(1.0), loss
            ),
        )

    with strategy.scope(), embedding.register():
        strategy.run(program)
    rows, table = simulated(4)
    np.testing.assert_allclose(
        outfeed.dequeue()[0], [np.sum(each**2) / 2 for each in rows], rtol=1e-4
    )
    np.testing.assert_allclose(
        embedding.get_embedding_tensor(), table, rtol=1e-4, atol=1e-6
    )


class Scale(keras.layers.Layer):
    """Has a weight, without which Keras computes no gradients."""

    def build(self, _):
        self.factor = self.add_weight(initializer="ones")

    def call(self, rows):
        return rows * self.factor


@pytest.mark.parametrize("stages", [1, 2])
def test_a_keras_model_trains_a_table(stages):
    """A layer that looks rows up, in a model and in the first stage of a pipeline."""
    config = IPUConfig()
    config.auto_select_ipus = stages
    config.configure_ipu_system()
    factor = 1 if stages == 1 else 4
    embedding = create_host_embedding(
        "of a model",
        [12, 4],
        tf.float32,
        optimizer_spec=HostEmbeddingSGDGAOptimizerSpec(RATE, factor),
        initializer=START,
    )
    with IPUStrategy().scope(), embedding.register():
        ids = keras.Input([6], dtype="int32", batch_size=1)
        rows = keras.layers.Lambda(embedding.lookup, output_shape=(6, 4))(ids)
        model = keras.Model(ids, Scale()(rows))
        if stages == 2:
            model.set_pipelining_options(gradient_accumulation_steps_per_replica=4)
            assignments = model.get_pipeline_stage_assignment()
            for stage, each in enumerate(assignments):
                each.pipeline_stage = stage
            model.set_pipeline_stage_assignment(assignments)
        model.compile(
            keras.optimizers.SGD(0.0),
            lambda _, rows: tf.reduce_sum(tf.square(rows), [1, 2]) / 2,
            steps_per_execution=4,
        )
        history = model.fit(IDS, IDS, 1, shuffle=False, verbose=0)
    rows, table = simulated(factor)
    losses = [np.sum(each**2) / 2 for each in rows]
    np.testing.assert_allclose(history.history["loss"], [np.mean(losses)], rtol=1e-4)
    np.testing.assert_allclose(
        embedding.get_embedding_tensor(), table, rtol=1e-4, atol=1e-6
    )


def test_replicas_add_their_updates():
    """The table gets the sum of all replicas'."""
    config = IPUConfig()
    config.auto_select_ipus = 2
    config.configure_ipu_system()
    with styles.entered("function", "xla") as style:
        with style.strategy.scope():
            embedding = create_host_embedding(
                "shared",
                [12, 4],
                tf.float32,
                optimizer_spec=HostEmbeddingOptimizerSpec(RATE),
            )
        ids = [[1], [1], [2], [3]]
        infeed = style.feed(lambda: tf.data.Dataset.from_tensor_slices(ids))

        def body(ids):
            dummy = embedding._dummy()
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(embedding.lookup(ids))
            dummy.assign_sub(tape.gradient(loss, dummy))

        with embedding.register():
            style.run(lambda: style.repeat(2, body, [], infeed))
    expected = np.zeros([12, 4])
    expected[[1, 2, 3]] = [[-0.2], [-0.1], [-0.1]]
    np.testing.assert_allclose(embedding.get_embedding_tensor(), expected, rtol=1e-6)


def test_an_update_before_a_collective_is_seen_by_all_replicas():
    """Lookups of two replicas are not synchronised; a collective between them is."""
    config = IPUConfig()
    config.auto_select_ipus = 2
    config.configure_ipu_system()
    spec = HostEmbeddingOptimizerSpec(RATE)
    with styles.entered("function", "xla") as style:
        embedding = create_host_embedding("seen", [3, 1], tf.float32, "TOKEN", spec)
        infeed = style.feed(lambda: tf.data.Dataset.from_tensor_slices([[0], [1]] * 20))
        outfeed = IPUOutfeedQueue()

        def body(ids):
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(embedding.lookup(ids))
            tape.gradient(loss, tape.watched_variables())
            cross_replica_sum(loss)
            enqueue = outfeed.enqueue(embedding.lookup([0, 1])[:, 0])
            cross_replica_sum(loss)  # and no replica updates before all have looked
            return enqueue

        with embedding.register():
            style.run(lambda: style.repeat(20, body, [], infeed))
        found = style.read(outfeed.dequeue())
    for step in range(20):
        np.testing.assert_allclose(found[step], -RATE * (step + 1), rtol=1e-5)


@pytest.mark.parametrize("jit", [True, None])
@pytest.mark.parametrize("runs_inside", [True, False])
@pytest.mark.parametrize("made_inside", [True, False])
def test_an_embedding_is_trained_wherever_it_was_created(made_inside, runs_inside, jit):
    """In the scope of a strategy or outside of it; the program may be in the other."""
    config = IPUConfig()
    config.auto_select_ipus = 1
    config.configure_ipu_system()
    strategy = IPUStrategy()

    def scope(inside):
        return strategy.scope() if inside else contextlib.nullcontext()

    with scope(made_inside):
        embedding = create_host_embedding(
            "anywhere",
            [12, 4],
            tf.float32,
            optimizer_spec=HostEmbeddingOptimizerSpec(RATE),
            initializer=START,
        )

    @tf.function(jit_compile=jit)
    def program():
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(embedding.lookup([1, 2, 1]))
        (dummy,) = tape.watched_variables()
        assert dummy.name == "anywhere/__dummy:0"
        return tape.gradient(loss, dummy)

    with scope(runs_inside), embedding.register():
        zero = strategy.run(program) if runs_inside else program()
    expected = START.copy()
    expected[[1, 2]] -= [[2 * RATE], [RATE]]
    np.testing.assert_array_equal(zero, 0)
    np.testing.assert_allclose(embedding.get_embedding_tensor(), expected, rtol=1e-6)


def test_a_table_is_registered_while_programs_run():
    """Twice is refused, not at all is an error of the run; an exception copies back."""
    embedding = create_host_embedding(
        "e", [3, 2], tf.float16, initializer=tf.ones([3, 2])
    )
    missing = "Host embedding interface with id='e' not registered. Did you run"
    with pytest.raises(tf.errors.FailedPreconditionError, match=missing):
        embedding.lookup([0])

    def use():
        with embedding.register():
            assert embedding.lookup([[0, 7]]).shape == (1, 2, 2)
            with pytest.raises(
                tf.errors.InvalidArgumentError, match=r"'e' has the ids 0 to 2, got 7"
            ):
                embedding.lookup([0, 7], clip_indices=False)
            with (
                pytest.raises(
                    tf.errors.FailedPreconditionError, match="id='e' it already"
                ),
                embedding.register(),
            ):
                pass
            table = tables.find("e")
            table.rows[1], table.changed = 5, True
            raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        use()
    assert embedding.get_embedding_tensor().numpy().tolist() == [[1, 1], [5, 5], [1, 1]]
    with embedding.register():
        pass


def test_a_checkpoint_within_the_registration_has_the_rows_of_then(tmp_path):
    """Version 1: what reads the variable gets them, and what trains copies nothing."""
    with styles.entered("graph", "xla") as style:
        embedding = create_host_embedding(
            *("table", [12, 4], tf.float32),
            optimizer_spec=HostEmbeddingOptimizerSpec(RATE),
            initializer=START,
        )
        tensor = embedding.get_embedding_tensor()
        infeed = style.feed(lambda: tf.data.Dataset.from_tensor_slices(IDS))

        def body(ids):
            loss = tf.reduce_sum(tf.square(embedding.lookup(ids))) / 2
            return v1.train.GradientDescentOptimizer(1.0).minimize(loss)

        go = style.build(lambda: style.repeat(10, body, [], infeed))
        style.initialize()
        saver = v1.train.Saver([tensor])
        with embedding.register(style.session):
            go()
            assert tables.find("table").changed
            first = saver.save(style.session, str(tmp_path / "first"))
            assert not tables.find("table").changed
            go()
            inside = style.session.run({"rows": [tensor]})["rows"][0]
        last = style.read(tensor)
        assert "run" not in vars(style.session)
    _, table = simulated(steps=10)
    found = tf.train.load_checkpoint(first).get_tensor(tensor.op.name)
    np.testing.assert_allclose(found, table, rtol=1e-4, atol=1e-6)
    np.testing.assert_array_equal(inside, last)
    assert np.abs(last - found).max() > 1e-3


def test_a_variable_that_is_read_eagerly_has_the_rows_of_then(tmp_path):
    """Version 2: so does a checkpoint."""
    strategy = IPUStrategy()
    with strategy.scope():
        embedding = create_host_embedding(
            *("table", [12, 4], tf.float32),
            optimizer_spec=HostEmbeddingOptimizerSpec(RATE),
            initializer=START,
        )

    @tf.function(jit_compile=True)
    def step(ids):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.square(embedding.lookup(ids))) / 2
        tape.gradient(loss, tape.watched_variables())

    tensor = embedding.get_embedding_tensor()
    start = tensor.numpy()
    checkpoint = tf.train.Checkpoint(table=tensor)
    with embedding.register():
        strategy.run(step, [tf.constant(IDS[0])])
        path = checkpoint.save(str(tmp_path / "table"))
        first = tensor.numpy()
        strategy.run(step, [tf.constant(IDS[1])])
    last = tensor.numpy()
    checkpoint.restore(path)
    np.testing.assert_array_equal(tensor.numpy(), first)
    changed = [(a != b).any(axis=1) for a, b in ((start, first), (first, last))]
    for rows, ids in zip(changed, IDS[:2], strict=True):
        assert set(np.flatnonzero(rows)) == set(np.clip(ids, 0, 11))
