"""The explanation of programs whose difference is known."""

import numpy as np
import pytest
import tensorflow as tf
from lowering import lowering

import ipufeed
from ipufeed.device.program import loops
from ipufeed.executable.explanation.explain import SAME, explain, explain_programs
from ipufeed.executable.program.names import author_name
from ipufeed.queues import IPUInfeedQueue
from ipufeed.render.terminal_text import named


def ones(*dims, dtype=np.float32):
    return np.ones(dims, dtype)


@pytest.fixture(autouse=True)
def one_ipu(clean_system):
    config = ipufeed.IPUConfig()
    config.auto_select_ipus = [1, 1]
    config.configure_ipu_system()


@pytest.fixture
def lower(one_ipu):
    with lowering() as lower:
        yield lower


def sentences(before, after):
    return [str(cause) for cause in explain_programs(before, after)]


def scaled(factor):
    def net(images):
        return tf.reduce_mean(tf.nn.softmax(images * 2.0) * factor)

    return net


def test_equal_programs_are_called_the_same(lower):
    """Two traces of one function have nothing to explain."""
    one, other = lower(scaled(0.5), ones(4, 3)), lower(scaled(0.5), ones(4, 3))

    assert sentences(one, other) == [SAME]


def test_a_batch_size_is_named_once_and_its_consequences_are_counted(lower):
    """The reader sees the argument, not the twenty shapes that follow from it."""
    before, after = (lower(scaled(0.5), ones(n, 28, 28)) for n in (32, 64))

    reported, consequences = explain_programs(before, after)

    assert str(reported).startswith(
        "argument `images` changed shape [32,28,28] -> [64,28,28] (batch size)"
    )
    assert reported.kind == "argument"
    assert (reported.before, reported.after) == ([32, 28, 28], [64, 28, 28])
    assert consequences.kind == "consequences"
    assert consequences.after > 10


def test_a_batch_size_of_several_arguments_is_one_cause(lower):
    """Images and labels change together, and are one sentence."""

    def net(images, labels):
        return tf.reduce_sum(images) + tf.reduce_sum(labels)

    before, after = (lower(net, ones(n, 28), ones(n)) for n in (32, 64))

    causes = explain_programs(before, after)

    assert len([each for each in causes if each.kind != "consequences"]) == 1
    assert "and so did argument `labels`" in str(causes[0])


def test_a_shape_that_is_no_batch_is_not_called_one(lower):
    """Another width is a shape, and no batch size."""
    before, after = (lower(scaled(0.5), ones(4, n)) for n in (28, 30))

    assert sentences(before, after)[0] == (
        "argument `images` changed shape [4,28] -> [4,30]"
    )


def test_a_baked_in_constant_is_named_with_its_op(lower):
    """Value before, value after, where it is, and what to do."""
    before, after = (lower(scaled(factor), ones(4, 3)) for factor in (0.5, 0.7))

    assert sentences(before, after) == [
        "constant 0.5 -> 0.7 baked into `mul_1`: pass it as an input"
    ]


def test_a_constant_is_found_beside_a_batch_size(lower):
    """One cause does not hide the other, and the mean's divisor is none."""
    before, after = lower(scaled(0.5), ones(8, 3)), lower(scaled(0.7), ones(16, 3))

    causes = explain_programs(before, after)

    assert [each.kind for each in causes] == ["argument", "constant", "consequences"]


def test_an_array_says_how_many_values_differ_and_the_first(lower):
    """A table that is baked in is not printed, but located."""

    def table(value):
        return lambda x: x + np.array([1, value, 3], np.float32)

    before, after = lower(table(2), ones(3)), lower(table(5), ones(3))

    assert "1 of 3 values of [3] differ, first [1]: 2.0 -> 5.0" in str(
        explain_programs(before, after)[0]
    )


def test_frozen_weights_are_called_weights(lower):
    """A frozen layer is one cause, with the advice that helps."""

    def layer(seed):
        random = np.random.default_rng(seed)
        weights = random.normal(size=(28, 10)).astype(np.float32)
        bias = random.normal(size=10).astype(np.float32)
        return lambda x: x @ weights + bias

    before, after = lower(layer(0), ones(4, 28)), lower(layer(1), ones(4, 28))

    (cause,) = explain_programs(before, after)

    assert cause.kind == "weights"
    assert str(cause).startswith(
        "weights are constants: 2 arrays of 290 values changed"
    )
    assert str(cause).endswith("keep them as variables or inputs")


def test_a_dtype_is_named_as_numpy_does(lower):
    """float32, not f32."""
    before, after = (
        lower(lambda x: x * 2, ones(4, dtype=dtype))
        for dtype in (np.float32, np.float16)
    )

    assert sentences(before, after)[0].startswith(
        "argument `x` changed dtype float32 -> float16"
    )


def test_a_dtype_within_the_program_is_found_where_it_begins(lower):
    """The cast is the cause, what it is multiplied with is not."""

    def through(dtype):
        return lambda x: tf.cast(tf.cast(x, dtype) * 2, tf.float32)

    before, after = (
        lower(through(tf.float16), ones(4)),
        lower(through(tf.bfloat16), ones(4)),
    )

    causes = explain_programs(before, after)

    assert [each.kind for each in causes] == ["dtype", "consequences"]
    assert str(causes[0]) == "`Cast` changed dtype float16 -> bfloat16"


def test_swapped_operands_are_called_swapped(lower):
    """A - b is not b - a, for values that are computed, too."""
    before = lower(lambda a, b: tf.exp(a) - tf.sin(b), ones(4), ones(4))

    def swapped(a, b):
        first = tf.exp(a)
        return tf.sin(b) - first

    assert sentences(before, lower(swapped, ones(4), ones(4))) == [
        "operands of `sub` are swapped"
    ]


def test_another_operand_is_named(lower):
    """X + z in place of x + y."""
    before = lower(lambda x, y, z: x + y, *[ones(4)] * 3)
    after = lower(lambda x, y, z: x + z, *[ones(4)] * 3)

    assert sentences(before, after) == [
        "`add` takes other operands: argument `z` in place of argument `y`"
    ]


@pytest.mark.parametrize(
    ("net", "text"),
    [
        (lambda x: tf.nn.relu(x * 2.0), "op `Relu` (Relu) is new"),
        (lambda x: x, "op `mul` (Mul) is gone"),
        (lambda x: x / 2.0, "`truediv` (RealDiv) is in place of `mul` (Mul)"),
    ],
    ids=["new", "gone", "replaced"],
)
def test_ops_that_come_and_go_are_named(lower, net, text):
    """By op name and type, as the program's author knows them."""
    before = lower(lambda x: x * 2.0, ones(4))

    assert text in sentences(before, lower(net, ones(4)))


def test_the_limit_of_a_loop_is_called_that(lower):
    """A constant that a condition compares with is a number of iterations."""

    def loop(limit):
        def net(x):
            return tf.while_loop(
                lambda i, y: i < limit, lambda i, y: (i + 1, y * 1.5 + x), [0, x]
            )[1]

        return net

    (cause,) = explain_programs(lower(loop(10), ones(4)), lower(loop(20), ones(4)))

    assert cause.kind == "loop count"
    assert (cause.before, cause.after) == (10, 20)


def test_an_attribute_is_named(lower):
    """The same op on another axis."""
    before, after = (
        lower(lambda x, axis=axis: tf.reduce_sum(x, axis), ones(4, 4))
        for axis in (0, 1)
    )

    assert sentences(before, after) == ["`Sum` changed its dimensions [0] -> [1]"]


@pytest.mark.parametrize(
    ("one", "other", "text"),
    [
        (
            lambda x: x[:, 1:4] * 2.0,
            lambda x: x[:, 2:7] * 2.0,
            "`strided_slice` changed its slice dimensions[1] start 1 -> 2",
        ),
        (
            lambda x: tf.reduce_sum(x, axis=0) * 2.0,
            lambda x: tf.reduce_sum(x, axis=1) * 2.0,
            "`Sum` changed its dimensions [0] -> [1]",
        ),
    ],
    ids=["slice", "axis"],
)
def test_an_attribute_comes_before_the_shape_that_follows(lower, one, other, text):
    """What was written is listed with its values, and not what became of it."""
    reported = sentences(lower(one, ones(8, 12)), lower(other, ones(8, 12)))

    assert reported[0].startswith(text), reported


def test_an_argument_that_xla_must_know_is_named(lower):
    """Its value is compiled in; the advice is not to make it an input, which it is."""

    def net(x, steps):
        return tf.while_loop(
            lambda n, _: n < tf.size(tf.range(steps)),
            lambda n, x: (n + 1, tf.sin(x)),
            [0, x],
        )[1]

    one, other = (lower(net, ones(4), np.int32(n)) for n in (3, 5))

    assert one.baked == ("steps",)
    reported = sentences(one, other)
    assert any("value of `steps`: XLA must know it" in each for each in reported), (
        reported
    )
    assert not any("pass it as an input" in each for each in reported), reported


def test_a_shape_without_an_argument_is_found_where_it_begins(lower):
    """tf.zeros of another size."""

    def padded(rows):
        return lambda x: tf.zeros([rows, 10]) + x

    before, after = lower(padded(5), np.float32(1)), lower(padded(6), np.float32(1))

    assert sentences(before, after)[0] == "`zeros` changed shape [5,10] -> [6,10]"


def test_the_batch_size_of_an_infeed_is_named(lower):
    """What a program dequeues is part of what it is."""

    def fed(batch):
        rows = tf.data.Dataset.from_tensors(ones(batch, 3)).repeat()
        queue = IPUInfeedQueue(rows)
        _ = queue.initializer

        def net():
            def body(total, images):
                return total + tf.reduce_mean(images)

            return loops.repeat(3, body, [0.0], queue)

        return net

    causes = sentences(lower(fed(4)), lower(fed(8)))

    assert causes[0].startswith("the infeed changed shape [4,3] -> [8,3] (batch size)")
    assert len(causes) == 2  # and what follows


def test_surroundings_are_named_in_full(lower):
    """An option, a flag and the target by the name under which they are set."""
    before = lower(scaled(0.5), ones(4, 3))
    config = ipufeed.IPUConfig()
    config.auto_select_ipus = 2
    config.ipu_model.tiles_per_ipu = 8
    config.floating_point_behaviour.inv = True
    config.configure_ipu_system()

    text = "\n".join(sentences(before, lower(scaled(0.5), ones(4, 3))))

    assert "the target's number of IPUs changed 1 -> 2" in text
    assert "IPUConfig.ipu_model.tiles_per_ipu changed 0 -> 8" in text
    assert "IPUConfig.floating_point_behaviour.inv changed false -> true" in text


def test_two_programs_are_not_explained_as_one(lower):
    """What has nothing in common is called two programs."""
    before = lower(scaled(0.5), ones(4, 3))
    after = lower(
        lambda a, b: tf.linalg.cholesky(a @ b) - tf.sin(b), ones(9, 9), ones(9, 9)
    )

    assert sentences(before, after)[0].startswith("these are two programs")


def test_a_variable_is_named_after_its_op(lower):
    """TensorFlow calls it "resource"; its user's name says more."""
    with tf.device("/device:IPU:0"):
        weights = tf.Variable(ones(3, 2))

    program = lower(lambda images: images @ weights, ones(4, 3))

    assert [program.describe(n) for n in range(2)] == [
        "argument `images`",
        "variable of `matmul`",
    ]


@pytest.mark.parametrize(
    ("name", "author"),
    [
        ("__inference_train_95[_XlaMustCompile=true,config_proto=1].7", "train"),
        ("cluster_18224372354352691046_f15n_0[].7", "cluster"),
        ("my_net__cluster_1_4821[].3", "my_net"),
        ("cluster_4821.3", "cluster"),
        ("my_net__cluster_1_18224372354352691046_f15n_0[].7", "my_net"),
        ("", "program"),
    ],
)
def test_what_tensorflow_adds_to_a_name_is_taken_off(name, author):
    """A reader knows the function that was written."""
    assert author_name(name) == author


def test_what_is_no_program_is_refused_by_name():
    """Neither a file nor a key; and a key that nothing has."""
    with pytest.raises(LookupError, match="neither a file nor a key in hex"):
        explain("train", "train")
    with pytest.raises(
        LookupError, match=r"has the key 1234\. .*executable_cache_path"
    ):
        explain("1234", "1234")
    with pytest.raises(LookupError, match="There is no executable"):
        explain("/nowhere/1.poplar_exec", "/nowhere/2.poplar_exec")


def test_a_hostile_name_does_not_steer_the_terminal():
    """What a file says is escaped."""
    hostile = "a\x1b[2Jb\u202e"

    assert str(named(hostile)) == "`a\\x1b[2Jb\\u202e`"


def training(batch, rate, layers=2, repeats=1):
    """A training loop with convolutions, moments and gradients."""
    rows = tf.data.Dataset.from_tensors(
        (ones(batch, 8, 8, 3), np.zeros(batch, np.int32))
    )
    queue = IPUInfeedQueue(rows.repeat())
    _ = queue.initializer
    with tf.device("/device:IPU:0"):
        kernels = [tf.Variable(ones(3, 3, 3, 3)) for _ in range(layers)]

    def loss_of(images, labels):
        for kernel in kernels:
            images = tf.nn.relu(tf.nn.conv2d(images, kernel, 1, "SAME"))
            mean, variance = tf.nn.moments(images, [0, 1, 2])
            images = (images - mean) * tf.math.rsqrt(variance + 1e-3)
        logits = tf.reduce_mean(images, [1, 2])
        return tf.reduce_mean(
            tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
        )

    def body(total, images, labels):
        for _ in range(repeats):
            with tf.GradientTape() as tape:
                loss = loss_of(images, labels)
            for kernel, gradient in zip(
                kernels, tape.gradient(loss, kernels), strict=True
            ):
                kernel.assign_sub(rate * gradient)
        return total + loss

    return lambda steps: loops.repeat(steps, body, [0.0], queue)


def test_a_training_loop_is_explained_without_its_gradients(lower):
    """Batch size and learning rate: two causes, of some hundred instructions."""
    before = lower(training(32, 0.01), np.int32(3))
    after = lower(training(64, 0.02), np.int32(3))

    infeed, rate, consequences = explain_programs(before, after)

    assert "[32,8,8,3] -> [64,8,8,3] (batch size), and so did" in str(infeed)
    assert str(rate).startswith("constant 0.01 -> 0.02 baked into ")
    assert consequences.after > 100


def test_an_unrolled_loop_is_recognised(lower):
    """The same ops once more: the count of a Python loop is part of the program."""
    before = lower(training(4, 0.01), np.int32(3))
    after = lower(training(4, 0.01, repeats=2), np.int32(3))

    cause = explain_programs(before, after)[0]

    assert "ops are new" in str(cause)
    assert "`loops.repeat` makes its count an input" in cause.advice


def test_results_in_another_order_are_a_cause(lower):
    """The same values, given the other way round: the last that is looked at."""
    before = lower(lambda x: (tf.sin(x), tf.exp(x)), ones(4))

    def turned(x):
        first = tf.sin(x)
        return tf.exp(x), first

    assert sentences(before, lower(turned, ones(4))) == [
        "the program gives other values, or the same in another order"
    ]


def test_explain_is_a_function_whatever_was_imported_before():
    """No module of that name takes its place in the package."""
    import ipufeed.executable.compile.history
    import ipufeed.executable.explanation.explain

    assert ipufeed.executable.explain is explain
