"""Operations of TensorFlow compute in a stage what XLA computes alone, and train there."""

import numpy as np
import pytest
import tensorflow as tf
from replicated import configure
from styles import CASES, entered

from ipufeed.device.config.config import IPUConfig
from ipufeed.device.program.strategy import IPUStrategy
from ipufeed.parallel.pipeline.options import OptimizerFunctionOutput
from ipufeed.parallel.pipeline.pipeline import pipeline
from ipufeed.queues import IPUInfeedQueue, IPUOutfeedQueue

pytestmark = pytest.mark.long

COUNT = 4
ROWS = np.random.default_rng(0).normal(size=(4, 6)).astype(np.float32)
IMAGES = np.random.default_rng(1).normal(size=(2, 8, 8, 3)).astype(np.float32)
KERNEL = np.random.default_rng(2).normal(size=(3, 3, 3, 4)).astype(np.float32)


def positive(x):
    """A positive definite matrix."""
    return x @ tf.transpose(x) + 4 * tf.eye(4)


def images(x):
    return IMAGES * x[0, 0]


def whole(x):
    return tf.cast(tf.abs(tf.stop_gradient(x)) * 2, tf.int32)


@tf.custom_gradient
def custom(x):
    return tf.sign(x) * x * x, lambda upstream: upstream * tf.abs(x)


@tf.function
def called(x):
    return tf.where(x > 0, x, tf.math.expm1(x))


def looped(x):
    step = lambda i, value: (i + 1, tf.tanh(value))  # noqa: E731
    return tf.while_loop(lambda i, _: i < 3, step, [0, x], maximum_iterations=3)[1]


# Each takes ROWS times a weight. Not here: what XLA does not compile by itself, and
# `bincount` of a size that depends on the data, which XLA must know.
CONTROL = {
    "called": called,
    "case": lambda x: tf.case(
        [(tf.reduce_max(x) > 9, lambda: x), (tf.reduce_max(x) > 0, lambda: x * 4)],
        default=lambda: -x,
    ),
    "cond": lambda x: tf.cond(tf.reduce_sum(x) > 0, lambda: x * 2, lambda: x * 3),
    "custom gradient": custom,
    "foldl": lambda x: tf.foldl(lambda a, row: a * 0.5 + row, x),
    "map_fn": lambda x: tf.map_fn(tf.nn.softmax, x),
    "scan": lambda x: tf.scan(lambda a, row: a * 0.5 + row, x),
    "switch_case": lambda x: tf.switch_case(
        whole(x[0, 0]) % 2, [lambda: x, lambda: -x]
    ),
    "while_loop": looped,
}
SHAPES = {
    "band_part": lambda x: tf.linalg.band_part(x, 1, 0),
    "concat": lambda x: tf.concat(tf.split(x, 3, 1)[::-1], 1),
    "cumprod": lambda x: tf.math.cumprod(x * 0.5, 1),
    "cumsum": lambda x: tf.cumsum(x, 1),
    "diag": tf.linalg.diag,
    "embedding_lookup": lambda x: tf.nn.embedding_lookup(x, [1, 1, 3]),
    "gather": lambda x: tf.gather(x, tf.argsort(x, axis=1), batch_dims=1),
    "gather_nd": lambda x: tf.gather_nd(x, [[0, 1], [3, 2]]),
    "meshgrid": lambda x: tf.meshgrid(x[0], x[1])[1],
    "one_hot": lambda x: tf.one_hot(tf.argmax(x, 1), 6) * x,
    "pad": lambda x: tf.pad(x, [[1, 1], [0, 2]], mode="REFLECT"),
    "reverse": lambda x: tf.reverse(x, [1]),
    "reverse_sequence": lambda x: tf.reverse_sequence(x, [1, 2, 3, 4], 1),
    "roll": lambda x: tf.roll(x, 2, 1),
    "scatter": lambda x: tf.tensor_scatter_nd_add(x, [[0], [2]], tf.ones([2, 6])),
    "sequence_mask": lambda x: x * tf.sequence_mask([1, 2, 3, 4], 6, tf.float32),
    "slice": lambda x: x[::2, 1:-1:2],
    "sort": lambda x: tf.sort(x, axis=1),
    "space_to_depth": lambda x: tf.nn.space_to_depth(images(x), 2),
    "tensor_array": lambda x: tf.TensorArray(tf.float32, 4).unstack(x).stack(),
    "tile": lambda x: tf.tile(x, [2, 1]),
    "top_k": lambda x: tf.math.top_k(x, 3)[0],
    "unsorted_segment_sum": lambda x: tf.math.unsorted_segment_sum(x, [0, 1, 0, 2], 3),
    "unstack": lambda x: tf.add_n(tf.unstack(x)),
}
ALGEBRA = {
    "cholesky": lambda x: tf.linalg.cholesky(positive(x)),
    "cross": lambda x: tf.linalg.cross(x[:, :3], x[:, 3:]),
    "dct": tf.signal.dct,
    "eigvalsh": lambda x: tf.linalg.eigvalsh(positive(x)),
    "einsum": lambda x: tf.einsum("ij,kj->ik", x, x),
    "fft": lambda x: tf.abs(tf.signal.fft(tf.cast(x, tf.complex64))),
    "inv": lambda x: tf.linalg.inv(positive(x)),
    "l2_normalize": lambda x: tf.nn.l2_normalize(x, 1),
    "matmul": lambda x: x @ tf.transpose(x),
    "qr": lambda x: tf.linalg.qr(tf.transpose(x))[1],
    "rfft": lambda x: tf.abs(tf.signal.rfft(x)),
    "solve": lambda x: tf.linalg.solve(positive(x), x),
    "stft": lambda x: tf.abs(tf.signal.stft(tf.reshape(x, [24]), 8, 4)),
    "svd": lambda x: tf.linalg.svd(x, compute_uv=False),
}
NUMBERS = {
    "bessel_i0e": tf.math.bessel_i0e,
    "betainc": lambda x: tf.math.betainc(2.0, 3.0, tf.sigmoid(x)),
    "bfloat16": lambda x: tf.cast(tf.cast(x, tf.bfloat16) * 2, tf.float32),
    "bool": lambda x: tf.cast(tf.reduce_any(x > 1, 1), tf.float32)[:, None] * x,
    "bucketize": lambda x: (
        x * tf.cast(tf.raw_ops.Bucketize(input=x, boundaries=[-1.0, 1.0]), tf.float32)
    ),
    "check_numerics": lambda x: tf.debugging.check_numerics(x, "not finite"),
    "digamma": lambda x: tf.math.digamma(tf.abs(x) + 1),
    "erf": tf.math.erf,
    "fake_quant": tf.quantization.fake_quant_with_min_max_args,
    "float16": lambda x: tf.cast(tf.cast(x, tf.float16) * 2, tf.float32),
    "igamma": lambda x: tf.math.igamma(2.0, tf.abs(x)),
    "int64": lambda x: x * tf.cast(tf.argmax(x, 1), tf.float32)[:, None],
    "lgamma": lambda x: tf.math.lgamma(tf.abs(x) + 1),
    "logsumexp": lambda x: tf.reduce_logsumexp(x, 1),
    "ndtri": lambda x: tf.math.ndtri(tf.sigmoid(x)),
    "searchsorted": lambda x: (
        x * tf.cast(tf.searchsorted(tf.sort(x, 1), x), tf.float32)
    ),
    "uint8": lambda x: x + tf.cast(tf.cast(whole(x), tf.uint8), tf.float32),
}
NETWORKS = {
    "avg_pool": lambda x: tf.nn.avg_pool2d(images(x), 2, 2, "SAME"),
    "batch_normalization": lambda x: tf.nn.batch_normalization(
        x, *tf.nn.moments(x, [0]), None, None, 1e-3
    ),
    "clip_by_global_norm": lambda x: tf.clip_by_global_norm([x, x * 2], 1.0)[0][1],
    "conv2d": lambda x: tf.nn.conv2d(images(x), KERNEL * x[1, 1], 1, "SAME"),
    "conv2d_transpose": lambda x: tf.nn.conv2d_transpose(
        images(x), tf.transpose(KERNEL, [0, 1, 3, 2]), [2, 16, 16, 4], 2
    ),
    "depthwise_conv2d": lambda x: tf.nn.depthwise_conv2d(
        images(x), KERNEL, [1, 1, 1, 1], "SAME"
    ),
    "dropout": lambda x: tf.nn.experimental.stateless_dropout(x, 0.5, [1, 2]),
    "elu": tf.nn.elu,
    "fused_batch_norm": lambda x: tf.compat.v1.nn.fused_batch_norm(
        images(x), tf.ones(3), tf.zeros(3)
    )[0],
    "gelu": tf.nn.gelu,
    "log_softmax": tf.nn.log_softmax,
    "lrn": lambda x: tf.nn.lrn(images(x)),
    "max_pool": lambda x: tf.nn.max_pool2d(images(x), 2, 2, "VALID"),
    "resize": lambda x: tf.image.resize(images(x), [4, 5]),
    "rgb_to_hsv": lambda x: tf.image.rgb_to_hsv(tf.nn.sigmoid(images(x))),
    "stateless_normal": lambda x: x * tf.random.stateless_normal([6], [1, 2]),
    "total_variation": lambda x: tf.image.total_variation(images(x)),
    "cross_entropy": lambda x: tf.nn.sparse_softmax_cross_entropy_with_logits(
        [1, 2, 3, 0], x
    ),
}
KINDS = {"control": CONTROL, "shapes": SHAPES, "algebra": ALGEBRA, "numbers": NUMBERS}
KINDS["networks"] = NETWORKS


def results_of(kind, x, weights):
    """The result of each operation of a kind."""
    return [function(x * weights) for function in KINDS[kind].values()]


def loss_of(results):
    return tf.add_n([0.5 * tf.reduce_sum(each) for each in results])


@pytest.mark.soak
@pytest.mark.parametrize("kind", KINDS)
def test_a_stage_computes_and_trains_as_xla_alone(kind):
    """Results of each mini-batch, and the sum of their gradients."""
    config = IPUConfig()
    config.auto_select_ipus = 2
    config.configure_ipu_system()
    batches = np.stack([ROWS * (k + 1) / 2 for k in range(COUNT)])
    start = np.full([4, 6], 1.1, np.float32)

    @tf.function(jit_compile=True)
    def alone(x, weights):
        with tf.GradientTape() as tape:
            tape.watch(weights)
            results = results_of(kind, x, weights)
            loss = loss_of(results)
        return results, tape.gradient(loss, weights)

    with tf.device("/device:CPU:0"):
        expected = [alone(tf.constant(x), tf.constant(start)) for x in batches]

    infeed = IPUInfeedQueue(tf.data.Dataset.from_tensor_slices(batches))
    outfeed = IPUOutfeedQueue()
    strategy = IPUStrategy()
    with strategy.scope():
        weights = tf.Variable(start)

    def second(x):
        results = results_of(kind, x, weights)
        return [loss_of(results), *results]

    def optimizer(loss, *_):
        descent = tf.compat.v1.train.GradientDescentOptimizer(1.0)
        return OptimizerFunctionOutput(descent, loss)

    @tf.function(jit_compile=True)
    def program():
        pipeline(
            [lambda x: x, second],
            gradient_accumulation_count=COUNT,
            infeed_queue=infeed,
            outfeed_queue=outfeed,
            device_mapping=[0, 1],
            optimizer_function=optimizer,
            reduction_method="sum",
        )

    _ = infeed.initializer
    strategy.run(program)
    found = outfeed.dequeue()[1:]

    for number, name in enumerate(KINDS[kind]):
        for batch in range(COUNT):
            np.testing.assert_allclose(
                *(found[number][batch], expected[batch][0][number]),
                **{"rtol": 1e-3, "atol": 1e-3, "err_msg": name},
            )
    gradient = sum(each[1].numpy() for each in expected)
    np.testing.assert_allclose(
        start - weights.numpy(), gradient, rtol=1e-3, atol=1e-3 * np.abs(gradient).max()
    )


def behind(operation):
    with tf.control_dependencies([operation]):
        return tf.no_op()


# What waits for a read or an assignment; none of it has a result that is used.
WAITING = {
    "itself": lambda x, done: done,
    "group": lambda x, done: tf.group(done, x),
    "groups": lambda x, done: tf.group(behind(behind(done)), tf.no_op()),
    "result": lambda x, done: tf.negative(done),
}


@pytest.mark.parametrize(("style", "executor"), CASES)
@pytest.mark.parametrize("kind", WAITING)
def test_an_operation_of_a_stage_waits_for_what_it_is_to_wait_for(
    clean_system, style, executor, kind
):
    """Also where what it waits for is not an operation of the stage's results."""
    configure(2)
    with entered(style, executor) as program:
        count = program.variable(0.0, "count")
        infeed = program.feed(lambda: tf.data.Dataset.from_tensors(1.0).repeat())
        outfeed = IPUOutfeedQueue()

        def second(x):
            before = count.read_value()
            with tf.control_dependencies([WAITING[kind](x, before)]):
                done = tf.identity(count.assign_add(x))
            with tf.control_dependencies([WAITING[kind](x, done)]):
                after = count.read_value()
            return before + 0 * x, after

        def net():
            return pipeline(
                [lambda x: x * 2, second],
                gradient_accumulation_count=COUNT,
                infeed_queue=infeed,
                outfeed_queue=outfeed,
            )

        run = program.build(net)
        results = outfeed.dequeue() if style != "function" else None
        run()
        before, after = program.read(results or outfeed.dequeue())

    np.testing.assert_array_equal(before, [0, 2, 4, 6])
    np.testing.assert_array_equal(after, [2, 4, 6, 8])
