"""Explanations of infeeds, contexts, variables, names and training loops."""

import numpy as np
import pytest
import tensorflow as tf
from explained_programs import ones, scaled, sentences

import ipufeed
from ipufeed.device.program import loops
from ipufeed.executable.explanation.explain import explain, explain_programs
from ipufeed.executable.program.names import author_name
from ipufeed.queues import IPUInfeedQueue
from ipufeed.render.terminal_text import named


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


def test_what_is_not_a_program_is_refused_by_name():
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
    """The same ops again: the count of a Python loop is part of the program."""
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
        "the program's results are other values, or in another order"
    ]


def test_explain_is_a_function_whatever_was_imported_before():
    """No module of that name takes its place in the package."""
    import ipufeed.executable.compile.history
    import ipufeed.executable.explanation.explain

    assert ipufeed.executable.explain is explain
