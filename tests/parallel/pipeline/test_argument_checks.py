"""Arguments of `pipeline` that contradict each other, its stages or its IPUs."""

import contextlib
import functools

import numpy as np
import pytest
import tensorflow as tf
from pipeline_arguments import (
    GROUPED,
    STYLES,
    V1,
    build,
    identity,
    no_optimizer,
    outfeed,
    two_stages,
    v1,
)
from replicated import on

from ipufeed.device.program.outside_compilation import building
from ipufeed.device.program.scopes import ipu_scope
from ipufeed.parallel.optimizers.accumulation import GradientAccumulationOptimizerV2
from ipufeed.parallel.pipeline.options import PipelineStageOptions
from ipufeed.parallel.pipeline.pipeline import pipeline
from ipufeed.queues import IPUOutfeedQueue
from ipufeed.queues.outfeed import IPUOutfeedMode


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


@pytest.mark.parametrize("style", STYLES)
def test_sums_need_a_queue_that_keeps_all(style):
    """LAST would drop all but one."""
    queue = outfeed(outfeed_mode=IPUOutfeedMode.LAST)

    with pytest.raises(ValueError, match="it must be in IPUOutfeedMode ALL"):
        build(style=style, accumulate_outfeed=True, outfeed_queue=queue)


def test_a_tensor_that_is_not_an_argument_is_named():
    """A stage gets its tensors through `inputs`, or the infeed."""
    with tf.Graph().as_default(), building(traced=False):
        outside = v1.placeholder(tf.float32, [2], name="outside")
        with pytest.raises(
            ValueError,
            match="Trying to capture the tensor outside:0 which is not a reso",
        ):
            pipeline([lambda x: x + outside, identity], 4, inputs=[tf.zeros([2])])


@pytest.mark.parametrize("style", STYLES)
def test_an_error_in_a_stage_names_it(style):
    """The error itself is TensorFlow's own, in a tf.function one with more text."""

    def product(x):
        return tf.matmul(x, tf.ones([3, 1]))

    with pytest.raises(ValueError, match=r"Shape must be rank 2") as caught:
        build([identity, product], style=style)

    note = "In stage 1 of the pipeline (F1, `product`)."
    if style == "graph":
        assert caught.value.__notes__ == [note]
    else:
        assert note in str(caught.value)


@pytest.mark.parametrize("style", STYLES)
def test_a_tensor_of_another_stage_is_named(style):
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
        build([first, identity, third], 6, style)


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


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("case", WRONG_TOGETHER)
def test_of_two_wrong_arguments_the_original_s_first_is_named(case, style):
    """Programs catch it, and one that we raise earlier would hide it."""
    arguments, message = WRONG_TOGETHER[case]
    with pytest.raises((TypeError, ValueError, NotImplementedError), match=message):
        build(style=style, **arguments)


@pytest.mark.parametrize("style", STYLES)
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


@pytest.mark.parametrize("style", STYLES)
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


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("case", ARITIES)
def test_a_stage_that_takes_other_arguments_is_named(case, style):
    """By its number and its name, with what it gets and from where."""
    stages, text = ARITIES[case]

    with pytest.raises(TypeError, match=text):
        build(stages, 6, style, inputs=[tf.zeros([2]).numpy()] * 2)


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("inputs", ["abc", [b"abc"], [1.0, tf.constant(["a"]).numpy()]])
def test_inputs_of_text_are_refused(inputs, style):
    """By the pipeline: the error came from the first operation of the first stage."""
    place = 1 if len(inputs) == 2 else 0
    with pytest.raises(TypeError, match=rf"`inputs\[{place}\]` must be of numbers"):
        build(style=style, inputs=inputs, outfeed_queue=outfeed())


@pytest.mark.parametrize("style", STYLES)
def test_a_decorator_may_add_arguments_to_a_stage(style):
    """What counts is what the decorated function takes."""

    def with_one(function):
        return functools.wraps(function)(lambda *values: function(1.0, *values))

    decorated = with_one(lambda one, x, y: (x, y))
    inputs = [tf.zeros([2]).numpy()] * 2
    build([decorated, decorated], 6, style, inputs=inputs, outfeed_queue=outfeed())


@pytest.mark.parametrize("mode", ["eager", "graph"])
def test_a_pipeline_outside_of_a_program_is_refused_with_the_remedy(mode):
    """It is a part of one; a version 1 graph as such is none, also on an IPU."""
    scope = contextlib.nullcontext() if mode == "eager" else tf.Graph().as_default()
    words = pytest.raises(RuntimeError, match="jit_compile=True")
    with scope, ipu_scope("/device:IPU:0"), words:
        pipeline(two_stages(), 4, inputs=[1.0])


@pytest.mark.parametrize("options", ["fast", [("a", "b")], {1: "b"}])
@pytest.mark.parametrize("kind", ["convolution", "matmul", "slice"])
def test_options_of_a_stage_are_names_and_values(kind, options):
    """A list of pairs and a number as a name were accepted silently."""
    with pytest.raises(
        TypeError, match=f"`{kind}_options` must be a dict from the names"
    ):
        PipelineStageOptions(**{f"{kind}_options": options})


def test_the_count_may_have_its_name_of_older_releases():
    """`pipeline_depth`; both names at once, or a position and it, are two counts."""
    with tf.Graph().as_default(), building(traced=False):
        again = functools.partial(
            pipeline, two_stages(), inputs=[v1.placeholder(tf.float32, [2])]
        )
        again(pipeline_depth=4, outfeed_queue=outfeed())
        with pytest.raises(TypeError, match=r"must be an integer .* got float"):
            again(pipeline_depth=0.5, outfeed_queue=outfeed())
        with pytest.raises(TypeError, match="`pipeline_depth` is the older name of"):
            again(gradient_accumulation_count=4, pipeline_depth=4)
    with pytest.raises(TypeError, match="`pipeline_depth` is the older name of"):
        build(count=4, pipeline_depth=4)
