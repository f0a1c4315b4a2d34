"""What a pipeline's arguments must be: each mistake has its own error, before it runs."""

import re

import pytest
import tensorflow as tf
from pipeline_arguments import (
    GROUPED,
    INTERLEAVED,
    SEQUENTIAL,
    STYLES,
    build,
    identity,
    no_optimizer,
)

from ipufeed.parallel.pipeline.options import (
    PipelineStageOptions,
    RecomputationMode,
)


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
        "Pipeline requires at least two computational stages, got 1.",
    ),
    "stages that are not a list": (
        {"stages": identity},
        TypeError,
        "computational_stages argument needs to be a list or a tuple, got function.",
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
    "concurrent stages that are none": (
        {"stages": [identity, []]},
        ValueError,
        "A list of concurrent stages must not be empty, as that of stage 1 is.",
    ),
    "a mapping that is not a list": (
        {"device_mapping": 0},
        TypeError,
        "device_mapping argument needs to be a list or a tuple, got int 0.",
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
    **{
        f"device {number}": (
            {"device_mapping": [0, number]},
            ValueError,
            f"device_mapping must hold numbers of at most 1073741823, got {number}: a pi",
        )
        for number in (2**30, 2**31 - 1, 10**12, 10**20)
    },
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
        "RecomputeThenBackpropagate is not supported with the pipeline schedule "
        "Sequential. Choose another mode or schedule",
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
    "a reduction without an optimizer that is not a method": (
        {"reduction_method": 3},
        ValueError,
        "Cannot parse 3 as one of GradientAccumulationReductionMethod. Valid values are: "
        "SUM, MEAN, RUNNING_MEAN.",
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
    "backward options that are not a list, in inference": (
        {"backward_propagation_stages_poplar_options": 3},
        TypeError,
        "backward_propagation_stages_poplar_options must be a list or a tuple of "
        "PipelineStageOptions, got int.",
    ),
    "backward options of another kind, in inference": (
        {"backward_propagation_stages_poplar_options": [{}, {}]},
        TypeError,
        "backward_propagation_stages_poplar_options must be a list of "
        "PipelineStageOptions, got dict in it.",
    ),
    "options of the weight update that are none, in inference": (
        {"weight_update_poplar_options": "fast"},
        TypeError,
        "weight_update_poplar_options to be of type PipelineStageOptions, but got str "
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
        "PyFunc, a call of Python",
    ),
    "outputs without a queue": (
        {},
        ValueError,
        "The last computational stage has tensor outputs: ",
    ),
}


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("case", CASES)
def test_a_wrong_argument_is_refused(case, style):
    """With an error of its kind that says what must be what."""
    arguments, error, text = CASES[case]

    with pytest.raises(error, match=re.escape(text)):
        build(style=style, **arguments)
