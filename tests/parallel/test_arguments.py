"""What a pipeline's arguments must be: each mistake has its own error, before it runs."""

import re

import numpy as np
import pytest
import tensorflow as tf
from replicated import on

from ipufeed.parallel.optimizers.accumulation import GradientAccumulationOptimizerV2
from ipufeed.parallel.optimizers.captured import (
    GradientCaptureContext,
    GradientCaptureTape,
)
from ipufeed.parallel.optimizers.optimizers import MapGradientOptimizer
from ipufeed.parallel.pipeline.options import (
    OptimizerFunctionOutput,
    PipelineStageOptions,
    RecomputationMode,
)
from ipufeed.parallel.pipeline.pipeline import pipeline
from ipufeed.parallel.pipeline.schedules import PipelineSchedule
from ipufeed.queues import IPUInfeedQueue, IPUOutfeedQueue
from ipufeed.queues.outfeed import IPUOutfeedMode

GROUPED, INTERLEAVED, SEQUENTIAL = PipelineSchedule
v1 = tf.compat.v1


def identity(*arguments):
    return arguments


def two_stages():
    return [identity, identity]


def no_optimizer(*arguments):
    raise AssertionError("arguments are looked at before anything is built")


def build(stages=None, count=4, **arguments):
    """Builds a pipeline in a graph."""
    with tf.Graph().as_default():
        arguments.setdefault("inputs", [v1.placeholder(tf.float32, [2])])
        return pipeline(two_stages() if stages is None else stages, count, **arguments)


def outfeed(**arguments):
    return IPUOutfeedQueue(**arguments)


def loops(x):
    return tf.while_loop(
        lambda i: tf.reduce_sum(i) < 3,
        lambda i: tf.ensure_shape(
            tf.numpy_function(lambda x: x, [i], tf.float32), i.shape
        ),
        [x],
    )


CASES = {
    "no count": (
        {"count": None},
        ValueError,
        "gradient_accumulation_count must be specified.",
    ),
    "a negative count": (
        {"count": -1},
        ValueError,
        "must be a positive integer, got -1",
    ),
    "a huge count": ({"count": 2**31}, ValueError, "must fit a 32-bit integer"),
    "a count that is not a number": ({"count": "x"}, TypeError, "must be an integer"),
    "a count with a fraction": ({"count": 2.5}, TypeError, "must be an integer"),
    "a count that is a bool": ({"count": True}, TypeError, "must be an integer"),
    "no execution": (
        {"repeat_count": 0},
        ValueError,
        "repeat_count must be a positive integer, got 0.",
    ),
    "one stage": (
        {"stages": [identity]},
        ValueError,
        "Pipeline requires at least two computational stages.",
    ),
    "stages that are not a list": (
        {"stages": identity},
        TypeError,
        "computational_stages argument needs to be a list or a tuple.",
    ),
    "a stage that is not a function": (
        {"stages": [identity, 3]},
        TypeError,
        "must be a function, got int",
    ),
    "lists in lists of stages": (
        {"stages": [identity, [[identity], identity]]},
        ValueError,
        "may be nested once",
    ),
    "a mapping that is not a list": (
        {"device_mapping": 0},
        TypeError,
        "device_mapping argument needs to be a list or a tuple.",
    ),
    "a mapping of another length": (
        {"device_mapping": [0, 1, 2]},
        ValueError,
        "Each stage must be mapped to an IPU: 3 mappings != 2 stages",
    ),
    "a mapping of other concurrent stages": (
        {"stages": [identity, [identity, identity]], "device_mapping": [0, [1]]},
        ValueError,
        "Each stage must be mapped to an IPU: 1 mappings != 2 concurrent stages",
    ),
    "a negative device": (
        {"device_mapping": [0, -2]},
        ValueError,
        "must hold IPUs from 0, or -1 for all of them, got -2",
    ),
    "a schedule that is none": (
        {"pipeline_schedule": "Grouped"},
        TypeError,
        "not a member of the PipelineSchedule enumeration",
    ),
    "interleaved training with two stages on a device": (
        {
            "pipeline_schedule": INTERLEAVED,
            "device_mapping": [0, 0],
            "optimizer_function": no_optimizer,
        },
        NotImplementedError,
        "The pipelining schedule 'Interleaved' does not currently support multiple "
        "pipeline stages on the same device for training graphs.",
    ),
    "batch serialization in a grouped schedule": (
        {"batch_serialization_iterations": 2, "pipeline_schedule": GROUPED},
        NotImplementedError,
        "Batch serialization is only supported with the `Sequential` schedule.",
    ),
    "batch serialization on two devices": (
        {"batch_serialization_iterations": 2, "device_mapping": [0, 1]},
        NotImplementedError,
        "need to be mapped to a single IPU",
    ),
    "batch serialization with a mean": (
        {
            "batch_serialization_iterations": 2,
            "reduction_method": "mean",
            "optimizer_function": no_optimizer,
        },
        ValueError,
        "only supported with the reduction method SUM",
    ),
    "no iterations of a stage": (
        {"batch_serialization_iterations": 0},
        ValueError,
        "batch_serialization_iterations must be a positive integer, got 0",
    ),
    "continuous updates": (
        {"continuous_weight_updates": True},
        NotImplementedError,
        "Continuous weight updates are currently not supported.",
    ),
    "an unknown reduction": (
        {"reduction_method": "median", "optimizer_function": no_optimizer},
        ValueError,
        "Cannot parse median as one of GradientAccumulationReductionMethod. Valid values "
        "are: SUM, MEAN, RUNNING_MEAN.",
    ),
    "a mode of another schedule": (
        {
            "pipeline_schedule": SEQUENTIAL,
            "recomputation_mode": RecomputationMode.RecomputeThenBackpropagate,
        },
        ValueError,
        "RecomputeThenBackpropagate is not supported with the pipeline schedule Sequential",
    ),
    "a mode that is none": (
        {"recomputation_mode": "Auto"},
        TypeError,
        "not a member of the RecomputationMode enumeration",
    ),
    "another infeed": (
        {"infeed_queue": 3},
        TypeError,
        "infeed_queue is not an instance of ipu_infeed_queue.IPUInfeedQueue",
    ),
    "another outfeed": (
        {"outfeed_queue": 3},
        TypeError,
        "outfeed_queue is not an instance of ipu_outfeed_queue.IPUOutfeedQueue",
    ),
    "the loss without an optimizer": (
        {"outfeed_loss": True},
        ValueError,
        "An optimizer_function must be provided when outfeed_loss is True.",
    ),
    "a mask without an optimizer": (
        {"outfeed_mask": [True]},
        ValueError,
        "An optimizer_function must be provided when outfeed_mask is set.",
    ),
    "a mask and the loss": (
        {
            "outfeed_mask": [True],
            "outfeed_loss": True,
            "optimizer_function": no_optimizer,
        },
        ValueError,
        "Only one of `outfeed_loss` and `outfeed_mask` can be set.",
    ),
    "a mask that is not a list": (
        {"outfeed_mask": True, "optimizer_function": no_optimizer},
        TypeError,
        "outfeed_mask must be a list or a tuple of bools, one for each output of the last "
        "computational stage, got True.",
    ),
    "a mask of words": (
        {"outfeed_mask": ["no"], "optimizer_function": no_optimizer},
        TypeError,
        "outfeed_mask must be a list or a tuple of bools",
    ),
    "a flag that is a word": (
        {"offload_weight_update_variables": "yes"},
        TypeError,
        "offload_weight_update_variables must be a bool or None, got str 'yes'.",
    ),
    "a flag that is another number": (
        {"outfeed_loss": 2},
        TypeError,
        "outfeed_loss must be a bool, got int 2.",
    ),
    "an optimizer function that is none": (
        {"optimizer_function": 3},
        TypeError,
        "optimizer_function must be a function that takes what the last stage returns",
    ),
    "a dtype of gradients that is none": (
        {"gradient_accumulation_dtype": "float99"},
        TypeError,
        "`gradient_accumulation_dtype` must be None, a tf.DType of floating point such as "
        "tf.float32, or a function of a variable that returns one, got str 'float99'.",
    ),
    "gradients without fractions": (
        {"gradient_accumulation_dtype": tf.int32},
        TypeError,
        "`gradient_accumulation_dtype` must be None, a tf.DType of floating point such as "
        "tf.float32, or a function of a variable that returns one, got dtype tf.int32.",
    ),
    "outputs that are not numbers": (
        {"accumulate_outfeed_dtype": tf.string},
        TypeError,
        "`accumulate_outfeed_dtype` must be None, a tf.DType of numbers such as "
        "tf.float32, or a function of a tensor that returns one, got dtype tf.string.",
    ),
    "sums without a queue": (
        {"accumulate_outfeed": True},
        ValueError,
        "An outfeed_queue must be provided when accumulate_outfeed is True.",
    ),
    "stage options that are not a list": (
        {"forward_propagation_stages_poplar_options": PipelineStageOptions()},
        TypeError,
        "must be a list or a tuple of PipelineStageOptions",
    ),
    "stage options of another kind": (
        {
            "backward_propagation_stages_poplar_options": [{}, {}],
            "optimizer_function": no_optimizer,
        },
        TypeError,
        "must be a list of PipelineStageOptions, got dict",
    ),
    "options of the weight update that are none": (
        {
            "weight_update_poplar_options": [PipelineStageOptions()],
            "optimizer_function": no_optimizer,
        },
        TypeError,
        "weight_update_poplar_options to be of type PipelineStageOptions, but got list "
        "instead.",
    ),
    "too few stage options": (
        {"forward_propagation_stages_poplar_options": [PipelineStageOptions()]},
        ValueError,
        "same length as computational_stages: 1 != 2",
    ),
    "a stage that returns text": (
        {"stages": [lambda x: tf.as_string(x), identity]},
        TypeError,
        "Stage 0 of the pipeline returns AsString:0 of string: between IPUs, and to the "
        "outfeed, go numbers only.",
    ),
    "a stage that calls Python": (
        {
            "stages": [
                lambda x: tf.numpy_function(lambda x: x, [x], tf.float32),
                identity,
            ]
        },
        TypeError,
        "Stage 0 of the pipeline has PyFunc, a call of Python (tf.py_function, "
        "tf.numpy_function): IPUs run compiled programs. Call it in the dataset",
    ),
    "a loop in a branch of a stage that calls Python": (
        {
            "stages": [
                lambda x: tf.cond(x[0] > 0, lambda: loops(x)[0], lambda: x),
                identity,
            ]
        },
        TypeError,
        "Stage 0 of the pipeline has PyFunc, a call of Python",
    ),
    "outputs without a queue": (
        {},
        ValueError,
        "The last computational stage has tensor outputs: ",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_wrong_argument_is_refused(case):
    """With an error of its kind that says what must be what."""
    arguments, error, text = CASES[case]

    with pytest.raises(error, match=re.escape(text)):
        build(**arguments)


def test_state_that_is_sharded_must_not_be_kept_on_the_device():
    """It is offloaded by default; an optimizer that accumulates gets the error, too."""
    text = "state must be offloaded by using offload_weight_update_variables"
    arguments = {
        "offload_weight_update_variables": False,
        "replicated_optimizer_state_sharding": True,
    }

    build(replicated_optimizer_state_sharding=True, outfeed_queue=outfeed())
    with pytest.raises(ValueError, match=text):
        build(optimizer_function=no_optimizer, **arguments)
    with pytest.raises(ValueError, match=text):
        GradientAccumulationOptimizerV2(V1["opt"](), 4, **arguments)


def test_sums_need_a_queue_that_keeps_all():
    """LAST would drop all but one."""
    queue = outfeed(outfeed_mode=IPUOutfeedMode.LAST)

    with pytest.raises(ValueError, match="it must be in IPUOutfeedMode ALL"):
        build(accumulate_outfeed=True, outfeed_queue=queue)


def test_a_tensor_that_is_no_argument_is_named():
    """A stage gets its tensors through `inputs`, or the infeed."""
    with tf.Graph().as_default():
        outside = v1.placeholder(tf.float32, [2], name="outside")
        with pytest.raises(
            ValueError,
            match="Trying to capture the tensor outside:0 which is not a reso",
        ):
            pipeline([lambda x: x + outside, identity], 4, inputs=[tf.zeros([2])])


def test_an_error_in_a_stage_says_which_it_is():
    """The error itself is TensorFlow's own."""

    def product(x):
        return tf.matmul(x, tf.ones([3, 1]))

    with pytest.raises(ValueError, match=r"Shape must be rank 2") as caught:
        build([identity, product])

    assert caught.value.__notes__ == ["In stage 1 of the pipeline (F1, `product`)."]


def test_a_tensor_of_another_stage_is_named():
    """What a stage needs of an earlier one goes through those between them."""
    kept = []

    def first(x):
        kept.append(x * 2)
        return x

    def third(x):
        return x + kept[0]

    with pytest.raises(
        ValueError, match=r"stage F2 of the pipeline uses .* of stage F0"
    ):
        build([first, identity, third], 6)


WRONG_TOGETHER = {
    "a mean before the schedule": (
        {
            "batch_serialization_iterations": 2,
            "reduction_method": "MEAN",
            "optimizer_function": no_optimizer,
            "pipeline_schedule": GROUPED,
        },
        "reduction method SUM",
    ),
    "continuous updates before the stages": (
        {"continuous_weight_updates": True, "stages": identity},
        "Continuous weight updates",
    ),
    "the schedule before the recomputation": (
        {"pipeline_schedule": 3, "recomputation_mode": 3},
        "PipelineSchedule enumeration",
    ),
    "the infeed before the number of stages": (
        {"stages": [identity], "infeed_queue": 3},
        "infeed_queue is not an instance",
    ),
    "the stages before the mapping": (
        {"stages": [identity], "device_mapping": 3},
        "at least two computational stages",
    ),
    "the mapping before the options": (
        {
            "device_mapping": [0],
            "forward_propagation_stages_poplar_options": 3,
        },
        "Each stage must be mapped",
    ),
    "the options before the mask": (
        {"forward_propagation_stages_poplar_options": 3, "outfeed_mask": [True]},
        "forward_propagation_stages_poplar_options",
    ),
    "the mask before the loss": (
        {"outfeed_mask": [True], "outfeed_loss": True},
        "when outfeed_mask is set",
    ),
    "the argument before the count": (
        {"count": 7, "outfeed_loss": True},
        "when outfeed_loss is True",
    ),
    "the missing queue before the count": (
        {"count": 7},
        "has tensor outputs: .*, but no outfeed_queue has been provided",
    ),
}


@pytest.mark.parametrize("case", WRONG_TOGETHER)
def test_of_two_wrong_arguments_the_original_s_first_is_named(case):
    """Programs catch it, and one that we raise earlier would hide it."""
    arguments, message = WRONG_TOGETHER[case]
    with pytest.raises((TypeError, ValueError, NotImplementedError), match=message):
        build(**arguments)


@pytest.mark.parametrize("style", ["graph", "function"])
@pytest.mark.parametrize("count", [7, np.int64(7), lambda: tf.constant(7)])
def test_a_count_that_does_not_fit_is_refused_when_it_runs(count, style):
    """Building says what else is wrong, and the program can be built."""
    with on(2, style) as ready:
        outfeed = IPUOutfeedQueue()

        def net(x):
            number = count() if callable(count) else count
            return pipeline(two_stages(), number, inputs=[x], outfeed_queue=outfeed)

        run = ready.build(net, np.float32(1.0))
        with pytest.raises(
            tf.errors.FailedPreconditionError,
            match="must be a multiple of 2, but it is 7",
        ):
            run(np.float32(1.0))


@pytest.mark.parametrize("style", ["graph", "function"])
def test_a_stage_may_be_on_all_ipus(style):
    """It gives the values that it gives on one; next to others that are concurrent, too."""
    with on(2, style) as ready:
        outfeed = IPUOutfeedQueue()
        stages = [
            lambda x: x + 1,
            [lambda x: x * 2, lambda x: x * 3],
            lambda x, y: x + y,
        ]
        ready.run(
            lambda x: pipeline(
                stages,
                6,
                inputs=[x],
                outfeed_queue=outfeed,
                device_mapping=[-1, [0, 1], -1],
            ),
            np.float32(1.0),
        )

        assert ready.read(outfeed.dequeue()).tolist() == [10.0] * 6


def test_a_count_that_is_a_tensor_is_one_integer():
    """Its dtype and its shape are looked at when the program is built."""
    with tf.Graph().as_default():
        with pytest.raises(TypeError, match="must be an integer, got float32"):
            pipeline(two_stages(), v1.placeholder(tf.float32, []))
        with pytest.raises(
            ValueError, match=r"a single number, got a tensor of shape \("
        ):
            pipeline(two_stages(), v1.placeholder(tf.int32, [2]))


ARITIES = {
    "the first stage": (
        [lambda x: x, identity],
        r"Stage 0 of the pipeline \(F0, `<lambda>`\) cannot be called with the 2 tensors "
        r"that `inputs` and the infeed give it: too many positional arguments\. It is "
        r"`<lambda>\(x\)`\.",
    ),
    "a later one": (
        [identity, lambda x, y, z: x],
        r"Stage 1 of the pipeline \(F1, `<lambda>`\) cannot be called with the 2 tensors "
        r"that stage 0 \(`identity`\) gives it: missing a required argument: 'z'\.",
    ),
    "a concurrent one": (
        [identity, [identity, lambda x: x]],
        r"Stage 1 of the pipeline \(F1\.1, `<lambda>`\) cannot be called with the 2",
    ),
}


@pytest.mark.parametrize("case", ARITIES)
def test_a_stage_that_takes_other_arguments_is_named(case):
    """By its number and its name, with what it gets and from where."""
    stages, text = ARITIES[case]

    with pytest.raises(TypeError, match=text):
        build(stages, inputs=[tf.zeros([2]).numpy()] * 2, count=6)


def test_eager_mode_is_refused_with_the_way_out():
    """A pipeline is a part of a program."""
    with pytest.raises(RuntimeError, match="jit_compile=True"):
        pipeline(two_stages(), 4, inputs=[1.0])


# ---- What the optimizer function returns

V1 = {"opt": lambda: v1.train.GradientDescentOptimizer(0.1)}
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


@pytest.mark.parametrize("case", OUTPUTS)
def test_a_wrong_output_of_the_optimizer_function_is_refused(case):
    """With the error of the original, which names the argument."""
    makers, error, text = OUTPUTS[case]
    arguments = {name: make() for name, make in makers.items()}
    arguments.setdefault("loss", tf.constant(1.0))

    with pytest.raises(error, match=re.escape(text)):
        OptimizerFunctionOutput(**arguments)


def test_what_is_assigned_later_is_checked_too():
    """Each attribute by its own rule, and what goes together."""
    output = OptimizerFunctionOutput(KERAS["opt"](), tf.constant(1.0))
    output.variables = [tf.Variable(1.0)]
    assert len(output.variables) == 1

    with pytest.raises(TypeError, match=r"\.loss must be a TensorFlow Tensor object"):
        output.loss = 1.0
    with pytest.raises(TypeError, match=r"\.variables must be a tuple or list"):
        output.variables = 3
    with pytest.raises(
        ValueError, match=r"\.tape may not be used when .*\.variables is"
    ):
        output.tape = tf.GradientTape()


@pytest.mark.parametrize("style", ["graph", "function"])
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


@pytest.mark.parametrize("style", ["graph", "function"])
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


def test_an_optimizer_function_must_return_its_output():
    """A bare optimizer is not enough: the loss would be unknown."""
    with pytest.raises(TypeError, match="must return an OptimizerFunctionOutput"):
        build(
            optimizer_function=lambda *_: v1.train.GradientDescentOptimizer(0.1),
            outfeed_queue=outfeed(),
        )


def test_an_optimizer_function_that_takes_other_arguments_is_named():
    """With what it would get, and how it is defined."""

    def optimizer_function(one, two, three):
        raise AssertionError("it is not called with too few")

    with pytest.raises(
        TypeError,
        match=r"The optimizer_function `optimizer_function` cannot be called with the 1 "
        r"tensor that the last stage of the pipeline returns: missing a required argument: "
        r"'two'\. It is `optimizer_function\(one, two, three\)`\.",
    ):
        build(optimizer_function=optimizer_function, outfeed_queue=outfeed())


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


def test_a_mask_has_a_value_for_each_output():
    """Two values for one output are a mistake."""

    def optimizer_function(x):
        variable = v1.get_variable("w", [2], use_resource=True)
        loss = tf.reduce_sum(x * variable)
        return OptimizerFunctionOutput(v1.train.GradientDescentOptimizer(0.1), loss)

    with pytest.raises(ValueError, match="1 outputs, and outfeed_mask has 2 values"):
        build(
            optimizer_function=optimizer_function,
            outfeed_queue=outfeed(),
            outfeed_mask=[True, False],
        )


def test_an_infeed_is_spread_or_given_by_name():
    """As a loop's body gets it: a dict becomes keyword arguments."""
    seen = []

    def first(x, *, left, right):
        seen.append((left.shape.as_list(), right.shape.as_list()))
        return x

    with tf.Graph().as_default():
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
