"""What a pipeline's `optimizer_function` returns, and errors of what it must not."""

import re

import numpy as np
import pytest
import tensorflow as tf
from pipeline_arguments import STYLES, V1, build, identity, outfeed, v1
from replicated import on

from ipufeed.device.program.outside_compilation import building
from ipufeed.parallel.optimizers.accumulation import GradientAccumulationOptimizerV2
from ipufeed.parallel.optimizers.gradient_capture import (
    GradientCaptureContext,
    GradientCaptureTape,
)
from ipufeed.parallel.optimizers.optimizers import MapGradientOptimizer
from ipufeed.parallel.pipeline.options import (
    OptimizerFunctionOutput,
)
from ipufeed.parallel.pipeline.pipeline import pipeline
from ipufeed.queues import IPUInfeedQueue, IPUOutfeedQueue

KERAS = {"opt": lambda: tf.keras.optimizers.SGD(0.1)}

OUTPUTS = {
    "no optimizer": (
        {"opt": lambda: 3},
        TypeError,
        "opt must be a TensorFlow Optimizer",
    ),
    "no loss": (
        V1 | {"loss": lambda: 1.0},
        TypeError,
        "loss must be a TensorFlow Tensor",
    ),
    "arguments that are not a tuple": (
        V1 | {"compute_gradients_args": lambda: [1]},
        TypeError,
        "compute_gradients_args must be a tuple, got list",
    ),
    "keywords that are not a dict": (
        V1 | {"apply_gradients_kwargs": lambda: (1,)},
        TypeError,
        "apply_gradients_kwargs must be a dict, got tuple",
    ),
    "a TensorFlow 1 optimizer with variables": (
        V1 | {"variables": lambda: [1]},
        ValueError,
        "variables may only be used with OptimizerV2.",
    ),
    "a TensorFlow 1 optimizer with a tape": (
        V1 | {"tape": tf.GradientTape},
        ValueError,
        "tape may only be used with OptimizerV2.",
    ),
    "a queue for captured gradients that is none": (
        V1 | {"captured_gradient_outfeed": int},
        TypeError,
        "captured_gradient_outfeed must be an instance of IPUOutfeedQueue, got int",
    ),
    "a queue for captured gradients without a context": (
        V1 | {"captured_gradient_outfeed": IPUOutfeedQueue},
        ValueError,
        "captured_gradient_outfeed needs a gradient_capture_context",
    ),
    "a queue for captured gradients with a tape that captures none": (
        KERAS | {"tape": tf.GradientTape, "captured_gradient_outfeed": IPUOutfeedQueue},
        ValueError,
        "or a GradientCaptureTape as the tape",
    ),
    "a context of captured gradients that is none": (
        V1 | {"gradient_capture_context": object},
        TypeError,
        "gradient_capture_context must be an instance of GradientCaptureContext, got ",
    ),
    "two contexts": (
        KERAS
        | {
            "tape": GradientCaptureTape,
            "gradient_capture_context": GradientCaptureContext,
        },
        ValueError,
        "may not be used when OptimizerFunctionOutput.tape is a GradientCaptureTape",
    ),
    "an optimizer that accumulates": (
        {
            "opt": lambda: MapGradientOptimizer(
                GradientAccumulationOptimizerV2(V1["opt"](), 8), lambda g, v: g
            )
        },
        ValueError,
        "OptimizerFunctionOutput.opt must not be a GradientAccumulationOptimizerV2: a "
        "pipeline accumulates the gradients of its gradient_accumulation_count "
        "mini-batches itself. Give the optimizer that it wraps, and multiply "
        "gradient_accumulation_count by 8",
    ),
    "a Keras optimizer with arguments": (
        KERAS | {"compute_gradients_args": lambda: (1,)},
        ValueError,
        "compute_gradients_args may not be used with OptimizerV2 instances.",
    ),
    "a tape and variables": (
        KERAS | {"tape": tf.GradientTape, "variables": lambda: [1]},
        ValueError,
        "tape may not be used when OptimizerFunctionOutput.variables is nonempty.",
    ),
    "a tape that is none": (
        KERAS | {"tape": int},
        TypeError,
        "OptimizerFunctionOutput.tape must be a GradientTape",
    ),
}


def built(style, function):
    """Calls a function in a graph, in a tf.function, or in eager mode."""
    if style == "graph":
        with tf.Graph().as_default():
            function()
    elif style == "function":
        tf.function(function).get_concrete_function()
    else:
        function()


@pytest.mark.parametrize("style", ["eager", *STYLES])
@pytest.mark.parametrize("case", OUTPUTS)
def test_a_wrong_output_of_the_optimizer_function_is_refused(case, style):
    """With the error of the original, which names the argument."""
    makers, error, text = OUTPUTS[case]

    def output():
        arguments = {name: make() for name, make in makers.items()}
        arguments.setdefault("loss", tf.constant(1.0))
        OptimizerFunctionOutput(**arguments)

    with pytest.raises(error, match=re.escape(text)):
        built(style, output)


@pytest.mark.parametrize("style", ["eager", *STYLES])
def test_what_is_assigned_later_is_checked_too(style):
    """Each attribute by its own rule, and what goes together."""
    keras, variable = KERAS["opt"](), tf.Variable(1.0)
    passed = []

    def assign():
        output = OptimizerFunctionOutput(keras, tf.constant(1.0))
        output.variables = [variable]
        assert len(output.variables) == 1

        with pytest.raises(TypeError, match=r"\.loss must be a TensorFlow Tensor obj"):
            output.loss = 1.0
        with pytest.raises(TypeError, match=r"\.variables must be a tuple or list"):
            output.variables = 3
        with pytest.raises(
            ValueError, match=r"\.tape may not be used when .*\.variables is"
        ):
            output.tape = tf.GradientTape()
        passed.append(style)

    built(style, assign)
    assert passed == [style]


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (
            lambda loss, keras: OptimizerFunctionOutput(keras, loss),
            RuntimeError,
            "No variables to optimize.",
        ),
        (
            lambda loss, _: OptimizerFunctionOutput(
                V1["opt"](), tf.cast(loss, tf.int32)
            ),
            TypeError,
            "loss must be a floating-point tensor, which has gradients, got",
        ),
    ],
    ids=["no variables", "no gradients"],
)
def test_what_has_no_gradients_is_refused_by_the_pipeline(style, make, error, text):
    """And not when the output is made."""
    keras = KERAS["opt"]()
    with on(2, style) as ready:
        weight = ready.variable(np.float32(2.0), "weight")
        queue = outfeed()
        with pytest.raises(error, match=text):
            ready.run(
                lambda x: pipeline(
                    [lambda x: x * weight, lambda x: x + 1.0],
                    4,
                    inputs=[x],
                    outfeed_queue=queue,
                    optimizer_function=lambda loss: make(loss, keras),
                ),
                np.float32(1.0),
            )


@pytest.mark.parametrize("style", STYLES)
def test_an_optimizer_of_keras_2_trains(style):
    """Of tf_keras, whose `variables` is a method: with its momentum."""
    tf_keras = pytest.importorskip("tf_keras")
    with on(2, style) as ready:
        weight = ready.variable(np.float32(2.0), "weight")
        queue = outfeed()
        with tf.init_scope():
            optimizer = tf_keras.optimizers.legacy.SGD(0.1, momentum=0.9)

        def net(x):
            return pipeline(
                [lambda x: x * weight, lambda x: x + 1.0],
                4,
                repeat_count=2,
                inputs=[x],
                outfeed_queue=queue,
                optimizer_function=lambda loss: OptimizerFunctionOutput(
                    optimizer, loss, variables=[weight]
                ),
            )

        ready.run(net, np.float32(1.0))

        # Gradients of 4 in two updates: 0.4, and 0.9 * 0.4 + 0.4.
        assert ready.read(weight) == pytest.approx(2.0 - 0.4 - 0.76)


@pytest.mark.parametrize("style", STYLES)
def test_an_optimizer_function_must_return_its_output(style):
    """A bare optimizer is not enough: the loss would be unknown."""
    with pytest.raises(TypeError, match="must return an OptimizerFunctionOutput"):
        build(
            style=style,
            optimizer_function=lambda *_: v1.train.GradientDescentOptimizer(0.1),
            outfeed_queue=outfeed(),
        )


@pytest.mark.parametrize("style", STYLES)
def test_an_optimizer_function_that_takes_other_arguments_is_named(style):
    """With what it would get, and how it is defined."""

    def optimizer_function(one, two, three):
        raise AssertionError("it is not called with too few")

    with pytest.raises(
        TypeError,
        match=r"The optimizer_function `optimizer_function` cannot be called with the 1 "
        r"tensor that the last stage of the pipeline returns: missing a required argument: "
        r"'two'\. It is `optimizer_function\(one, two, three\)`\.",
    ):
        build(
            style=style, optimizer_function=optimizer_function, outfeed_queue=outfeed()
        )


def half_variable():
    return v1.get_variable("w", [2], tf.float16, use_resource=True)


def pipeline_of_wide_sums():
    """Builds a pipeline whose optimizer gets wider gradients than its variable."""

    def optimizer_function(x):
        loss = tf.reduce_sum(tf.cast(x, tf.float16) * half_variable())
        return OptimizerFunctionOutput(V1["opt"](), loss)

    build(
        optimizer_function=optimizer_function,
        outfeed_queue=outfeed(),
        gradient_accumulation_dtype=tf.float32,
    )


def loop_of_wide_sums():
    """The same of an optimizer that accumulates itself."""
    optimizer = GradientAccumulationOptimizerV2(V1["opt"](), 1, dtype=tf.float32)
    with tf.Graph().as_default():
        optimizer.minimize(tf.reduce_sum(half_variable()))


@pytest.mark.parametrize(
    ("make", "argument"),
    [
        (pipeline_of_wide_sums, "gradient_accumulation_dtype"),
        (loop_of_wide_sums, "dtype"),
    ],
    ids=["pipeline", "loop"],
)
def test_an_optimizer_that_does_not_cast_is_refused_with_the_cast(make, argument):
    """Gradients of another dtype than their variable's cannot be applied as they are."""
    text = (
        rf"gradients of float32, from `{argument}`, and cannot apply them to the "
        r"variable w:0 of float16. Cast them back: wrap it in MapGradientOptimizerInverted"
    )
    with pytest.raises(TypeError, match=text):
        make()


@pytest.mark.parametrize("version", [1, 2])
def test_stages_of_two_devices_that_assign_to_one_variable_are_named(version):
    """Each device has its own copy, and neither has what the other wrote."""

    def pieces(variable):
        def stage(x):
            with tf.control_dependencies([variable().assign_add(1.0)]):
                return tf.identity(x)

        return [stage, stage]

    text = (
        r"Stage F0 of the pipeline, on IPU 0, and stage F1, on IPU 1, both assign to the "
        r"variable count.*\. Only stages of one IPU may"
    )
    if version == 1:

        def count():
            with v1.variable_scope("", reuse=v1.AUTO_REUSE):
                return v1.get_variable("count", [], use_resource=True, trainable=False)

        with pytest.raises(ValueError, match=text):
            build(pieces(count), outfeed_queue=outfeed())
        return
    kept = tf.Variable(0.0, trainable=False, name="count")

    @tf.function
    def program():
        pipeline(
            pieces(lambda: kept), 4, inputs=[tf.zeros([2])], outfeed_queue=outfeed()
        )

    with pytest.raises(ValueError, match=text):
        program.get_concrete_function()


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"outfeed_mask": [True, False]}, "1 outputs, and outfeed_mask has 2 values"),
        ({"outfeed_queue": None}, "tensor outputs: .*no outfeed_queue has been provi"),
        (
            {"outfeed_queue": None, "outfeed_loss": True},
            "tensor outputs: .*no outfeed_queue has been provided",
        ),
        ({}, "No variables to optimize"),
    ],
    ids=["mask", "queue", "queue for the loss", "none"],
)
def test_the_outfeed_is_checked_before_the_gradients(arguments, text, style):
    """Whose error, that there are no variables, is then the next."""

    def optimizer_function(x):
        return OptimizerFunctionOutput(V1["opt"](), tf.reduce_sum(x))

    with pytest.raises(ValueError, match=text):
        build(
            style=style,
            optimizer_function=optimizer_function,
            **{"outfeed_queue": outfeed(), **arguments},
        )


def test_an_infeed_is_spread_or_given_by_name():
    """As a loop's body gets it: a dict becomes keyword arguments."""
    seen = []

    def first(x, *, left, right):
        seen.append((left.shape.as_list(), right.shape.as_list()))
        return x

    with tf.Graph().as_default(), building(traced=False):
        queue = IPUInfeedQueue(
            tf.data.Dataset.from_tensors({"left": [1.0], "right": [1.0, 2.0]})
        )
        pipeline(
            [first, identity],
            4,
            inputs=[v1.placeholder(tf.float32, [2])],
            infeed_queue=queue,
            outfeed_queue=outfeed(),
        )

    assert seen[0] == ([1], [2])
