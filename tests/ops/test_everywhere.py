"""Operations compute the same in loops, pipelines and both styles as eagerly."""

import numpy as np
import pytest
import styles
import tensorflow as tf
from test_values import CASES, IDS

import ipufeed as ipu
from ipufeed.device.config.config import IPUConfig
from ipufeed.device.program.strategy import IPUStrategy
from ipufeed.ops.quarter import f8_ops
from ipufeed.parallel.pipeline.options import OptimizerFunctionOutput
from ipufeed.parallel.pipeline.pipeline import pipeline
from ipufeed.queues import IPUInfeedQueue, IPUOutfeedQueue

pytestmark = [pytest.mark.usefixtures("clean_system"), pytest.mark.long]
v1 = tf.compat.v1
LOGITS = np.random.default_rng(3).normal(size=(4, 2, 3)).astype(np.float32)


def computed(name, step):
    """The results of an operation for its inputs times a number, and their gradients."""
    operation, _, inputs = CASES[name]
    inputs = [tf.constant(each) * step for each in inputs]
    results = [
        tf.convert_to_tensor(each) for each in tf.nest.flatten(operation(*inputs))
    ]
    gradients = tf.gradients(results, inputs, unconnected_gradients="zero")
    return [*results, *gradients]


def losses(step):
    """Losses over label sequences and sampled classes, products of 8-bit floats."""
    x = tf.constant(LOGITS) * step
    logs = tf.nn.log_softmax(x)
    lengths = [2, 1], [4, 3]
    classes = tf.constant(LOGITS[:3, 0]) * step
    table = tf.constant(LOGITS.reshape([8, 3]) / 2)
    sampled = (
        tf.constant([1, 2], tf.int64),
        tf.fill([3, 1], 0.5),
        tf.constant([0.7, 0.2]),
    )
    found = [
        ipu.nn_ops.ctc_loss_v2([[1, 2], [1, 1]], x, *lengths, 0),
        ipu.nn_ops.ctc_loss_with_log_probs([[1, 2], [1, 1]], logs, *lengths, 0),
        *(
            loss(
                table,
                tf.zeros([8]),
                [[1], [5], [0]],
                classes,
                2,
                8,
                sampled_values=sampled,
            )
            for loss in (ipu.nn_ops.sampled_softmax_loss, ipu.nn_ops.nce_loss)
        ),
    ]
    gradients = map(tf.convert_to_tensor, tf.gradients(found, [x, table]))
    packed = f8_ops.convert_to_f8(
        tf.cast(classes, tf.float16), f8_ops.create_metadata(f8_ops.Format.F143)
    )
    products = [
        f8_ops.f8_matmul(packed, packed),
        f8_ops.f8_conv_1d(packed[None], packed[None], 1, "SAME"),
        f8_ops.convert_from_f8(packed, tf.float32),
    ]
    return [tf.cast(each, tf.float32) for each in (*found, *gradients, *products)]


def decoded(step):
    """The best labels, which are found on the host."""
    x = tf.constant(LOGITS) * step
    results = ipu.nn_ops.ctc_beam_search_decoder(x, [4, 3], beam_width=10)
    return [tf.cast(each, tf.float32) for each in results]


@pytest.mark.parametrize("style", styles.TWO, ids=", ".join, indirect=True)
def test_a_loop_computes_what_eager_mode_does(style):
    """All of them in one program, with gradients, in each iteration for other inputs."""
    outfeed = IPUOutfeedQueue()
    names = [name for name in CASES if "histogram" not in name]

    def body(step):
        results = [each for name in names for each in computed(name, step)]
        return step * 2, outfeed.enqueue([*results, *losses(step)])

    go = style.build(lambda: style.repeat(2, body, [tf.constant(0.5)]))
    go()
    found = style.read(outfeed.dequeue())

    def once(step):
        return [
            *(each for name in names for each in computed(name, step)),
            *losses(step),
        ]

    with tf.Graph().as_default(), v1.Session() as session:
        place = v1.placeholder(tf.float32, [])
        results = once(place)
        session.run(v1.global_variables_initializer())
        expected = [session.run(results, {place: step}) for step in (0.5, 1.0)]
    assert len(found) == len(expected[0])
    for iteration in range(2):
        for one, other in zip(found, expected[iteration], strict=True):
            np.testing.assert_allclose(one[iteration], other, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("style", styles.TWO, ids=", ".join, indirect=True)
def test_a_loop_decodes_on_the_host(style):
    """The decoder is not compiled, and neither is its program."""
    outfeed = IPUOutfeedQueue()

    def body(step):
        return step * 2, outfeed.enqueue(decoded(step))

    go = style.build(lambda: style.repeat(2, body, [tf.constant(0.5)]))
    go()
    found = style.read(outfeed.dequeue())

    with tf.Graph().as_default(), v1.Session() as session:
        expected = [session.run(decoded(step)) for step in (0.5, 1.0)]
    for iteration in range(2):
        for one, other in zip(found, expected[iteration], strict=True):
            np.testing.assert_allclose(one[iteration], other, rtol=1e-4)


def test_a_stage_that_decodes_is_refused():
    """While it is traced: a pipeline's stages are compiled."""
    config = IPUConfig()
    config.auto_select_ipus = 2
    config.configure_ipu_system()
    outfeed = IPUOutfeedQueue()

    @tf.function(jit_compile=True)
    def program(step):
        pipeline([lambda x: x, decoded], 2, inputs=[step], outfeed_queue=outfeed)

    with pytest.raises(TypeError, match=r"Stage 1 .* in an outside_compilation_scope"):
        IPUStrategy().run(program, [tf.constant(0.5)])


def model():
    """Two stages that hold many operations, and their variables."""
    start = tf.random.stateless_normal([8, 4], [1, 2])
    with tf.device("cpu"):
        return [tf.Variable(start, name="table"), tf.Variable(tf.ones([4, 4]))]


def stages(table, weights):
    def first(ids):
        rows = ipu.embedding_ops.embedding_lookup(table, ids)
        rows = ipu.nn_ops.gelu(ipu.normalization_ops.layer_norm(rows, -1, False, False))
        return ipu.control_flow_ops.barrier(rows)

    @ipu.outlined_function
    def block(x):
        return ipu.nn_ops.swish(
            ipu.math_ops.serialized_matmul(x, weights, 2, "a_rows_b_columns")
        )

    def second(x):
        x = block(ipu.normalization_ops.group_norm(x, 2, -1, False, False))
        return tf.reduce_sum(tf.square(ipu.nn_ops.softmax(x)))

    return first, second


@pytest.mark.parametrize("recompute", [False, True])
def test_a_pipeline_trains_as_eager_mode_does(recompute):
    """Gradients of 4 mini-batches, summed, with and without recomputation."""
    config = IPUConfig()
    config.auto_select_ipus = 2
    config.allow_recompute = recompute
    config.configure_ipu_system()
    strategy = IPUStrategy()
    ids = np.arange(4 * 6).reshape([4, 2, 3]) % 9  # 8 is not in the table
    infeed = IPUInfeedQueue(tf.data.Dataset.from_tensor_slices(ids.astype(np.int32)))
    outfeed = IPUOutfeedQueue()
    _ = infeed.initializer
    with strategy.scope():
        variables = [tf.Variable(each) for each in model()]

    @tf.function(jit_compile=True)
    def program():
        return pipeline(
            list(stages(*variables)),
            gradient_accumulation_count=4,
            infeed_queue=infeed,
            outfeed_queue=outfeed,
            optimizer_function=lambda loss: OptimizerFunctionOutput(
                v1.train.GradientDescentOptimizer(0.1), loss
            ),
        )

    with strategy.scope():
        strategy.run(program)

    expected = model()
    with tf.GradientTape() as tape:
        first, second = stages(*expected)
        found = [second(first(each)) for each in ids]
        loss = tf.add_n(found)
    gradients = tape.gradient(loss, expected)
    np.testing.assert_allclose(outfeed.dequeue()[0], found, rtol=1e-5)
    for variable, before, gradient in zip(variables, expected, gradients, strict=True):
        np.testing.assert_allclose(
            variable.numpy(), before - 0.1 * gradient, rtol=1e-4, atol=1e-5
        )


LOOKUPS = {
    "embedding_lookup": ipu.embedding_ops.embedding_lookup,
    "sequence_slice": lambda table, ids: ipu.slicing_ops.sequence_slice_unpack(
        table[tf.newaxis], [2], ids[:1], 2
    ),
}


@pytest.mark.parametrize("place", ["compiled", "in a loop", "on the host"])
@pytest.mark.parametrize("lookup", LOOKUPS)
def test_ids_may_be_computed_from_variables(lookup, place):
    """As of a decoder, which looks up what it has predicted; in a version 1 graph."""
    x = np.array([[0.0, 2.0, 1.0], [1.0, 0.0, 3.0]], np.float32)
    first = [np.eye(3, dtype=np.float32), np.arange(15.0, dtype=np.float32)]

    def loss_of(x, weights, table):
        scores = tf.matmul(x, weights)
        ids = tf.argmax(scores, -1, output_type=tf.int32)
        rows = LOOKUPS[lookup](tf.reshape(table, [5, 3]), ids)
        return tf.reduce_sum(tf.square(rows)) + tf.reduce_sum(scores)

    def gradients(*inputs):
        variables = [
            v1.get_variable(f"of_{number}", initializer=value, use_resource=True)
            for number, value in enumerate(first)
        ]
        return tf.gradients(loss_of(x, *variables), variables)

    calls = {
        "compiled": lambda: ipu.ipu_compiler.compile(gradients),
        "in a loop": lambda: ipu.ipu_compiler.compile(
            lambda: ipu.loops.repeat(
                1, gradients, [tf.zeros_like(each) for each in first]
            )
        ),
        "on the host": gradients,
    }
    device = "cpu" if place == "on the host" else "/device:IPU:0"
    with tf.Graph().as_default(), v1.Session() as session:
        with tf.device(device):
            found = calls[place]()
        session.run(v1.global_variables_initializer())
        found = session.run(found)

    variables = [tf.Variable(each) for each in first]
    with tf.GradientTape() as tape:
        loss = loss_of(x, *variables)
    for one, other in zip(found, tape.gradient(loss, variables), strict=True):
        np.testing.assert_allclose(one, other)


def test_replicas_look_up_rows_of_their_own():
    """Each has its part of the dataset, the same table, and its gradient."""
    config = IPUConfig()
    config.auto_select_ipus = 2
    config.configure_ipu_system()
    table = tf.constant(CASES["embedding_lookup"][2][0])
    with styles.entered("function", "xla") as style:
        infeed = style.feed(lambda: tf.data.Dataset.from_tensor_slices(IDS))
        outfeed = IPUOutfeedQueue()

        def body(ids):
            rows = ipu.embedding_ops.embedding_lookup(table, ids)
            (mean, _) = ipu.cross_replica_optimizer.apply_cross_replica_op_single(
                rows, None
            )
            return outfeed.enqueue([rows, mean])

        style.run(lambda: style.repeat(1, body, [], infeed))
        rows, mean = style.read(outfeed.dequeue())
    expected = CASES["embedding_lookup"][1](table.numpy())

    np.testing.assert_array_equal(rows.reshape(expected.shape), expected)
    np.testing.assert_allclose(
        mean.reshape(expected.shape), [expected.mean(0)] * 2, rtol=1e-6
    )
    ours = ipu.cross_replica_optimizer.apply_cross_replica_op([(None, 1), (2.0, 3)])
    assert [pair[0] if pair[0] is None else float(pair[0]) for pair in ours] == [
        None,
        2,
    ]


def test_variables_of_a_norm_have_the_originals_names():
    """Scopes, reuse, initializers and collections of version 1."""
    with tf.Graph().as_default(), v1.Session() as session:
        x = tf.ones([2, 4])
        for reuse in (None, True):
            ipu.normalization_ops.group_norm(x, scope="norm", reuse=reuse)
        ipu.normalization_ops.layer_norm(
            x,
            scale=False,
            param_initializers={"beta": v1.constant_initializer(3.0)},
            variables_collections={"beta": ["mine"]},
            trainable=False,
        )
        session.run([each.initializer for each in v1.get_collection("mine")])
        assert session.run(v1.get_collection("mine")[0]).tolist() == [3.0] * 4
        assert [each.name for each in v1.trainable_variables()] == [
            "norm/beta:0",
            "norm/gamma:0",
        ]
        assert [each.name for each in v1.get_collection("mine")] == ["LayerNorm/beta:0"]


def test_a_function_holds_the_overrides_of_its_decoration():
    """Not those of the place where it is called."""
    with tf.Graph().as_default() as graph:
        tf.RegisterGradient("ipufeed_test_triple")(lambda op, dy: 3.0 * dy)
        with graph.gradient_override_map({"Sin": "ipufeed_test_triple"}):
            inside = ipu.outlined_function(tf.sin)
        outside = ipu.outlined_function(tf.sin)
        x = tf.constant(0.0)
        one = tf.gradients(inside(x), x)[0]
        with graph.gradient_override_map({"Sin": "ipufeed_test_triple"}):
            two = tf.gradients(outside(x), x)[0]
        with v1.Session() as session:
            assert session.run([one, two]) == [3.0, 1.0]


def test_a_norm_has_its_variables_in_a_compiled_loop():
    """Version 1: made in the body, trained by the program."""
    with styles.entered("graph", "xla") as style:
        x = CASES["layer_norm, rank 2"][2][0]

        def body():
            y = ipu.normalization_ops.layer_norm(x)
            loss = tf.reduce_sum(y * np.arange(6, dtype=np.float32))
            return v1.train.GradientDescentOptimizer(0.1).minimize(loss)

        style.run(lambda: style.repeat(3, body, []))
        gamma, beta = (
            next(each for each in v1.global_variables() if each.op.name.endswith(name))
            for name in ("gamma", "beta")
        )
        normal = CASES["layer_norm, rank 2"][1](x)
        np.testing.assert_allclose(
            style.read(beta), -0.1 * 3 * 2 * np.arange(6), rtol=1e-5
        )
        np.testing.assert_allclose(
            style.read(gamma),
            1 - 0.1 * 3 * (normal * np.arange(6)).sum(0),
            rtol=1e-4,
            atol=1e-5,
        )
