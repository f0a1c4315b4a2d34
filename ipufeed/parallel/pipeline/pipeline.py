"""pipelining_ops.pipeline: a model's stages on several IPUs, at the same time.

    checks, option_checks    what the arguments must be
    stages.trace()           all stages, and their gradients, in one graph
    partition.split()        which op belongs to which position
    Plan                     the positions of each IPU, rings between them
    IPUProgram              a loop for each IPU                         ipu_program.py
    Builder                  all of that for one execution                 execution.py
    IpufeedPipeline          one op in the program: runs the IPUs' loops     ipufeed/cc
    weight_update            after each execution, in the program itself

Source: Graphcore's pipelining_ops, whose interface this is; the schedules are those of
schedules.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ipufeed.checks import flags_checked
from ipufeed.device.log import LOGGER
from ipufeed.device.program import executor, loops, outside_compilation
from ipufeed.device.system import system
from ipufeed.executable.program.names import ANONYMOUS, author_name
from ipufeed.parallel.optimizers.checks import check_sharded_state
from ipufeed.parallel.optimizers.dtypes import check_dtype
from ipufeed.parallel.optimizers.reduction_method import (
    GradientAccumulationReductionMethod as Reduction,
)
from ipufeed.parallel.pipeline import (
    checks,
    option_checks,
    stages,
)
from ipufeed.parallel.pipeline.execution import Builder
from ipufeed.parallel.pipeline.options import RecomputationMode
from ipufeed.parallel.pipeline.schedules import PipelineSchedule, Schedule
from ipufeed.parallel.pipeline.sums import GRADIENTS, OUTPUTS, Sums

if TYPE_CHECKING:
    from ipufeed.queues.infeed import IPUInfeedQueue
    from ipufeed.queues.outfeed import IPUOutfeedQueue


@flags_checked
def pipeline(
    computational_stages: Any,
    gradient_accumulation_count: Any = None,
    gradient_accumulation_dtype: Any = None,
    gradient_accumulation_for_captured_grads: bool = True,
    repeat_count: int = 1,
    batch_serialization_iterations: int = 1,
    inputs: Any = None,
    infeed_queue: IPUInfeedQueue | None = None,
    outfeed_queue: IPUOutfeedQueue | None = None,
    optimizer_function: Callable[..., Any] | None = None,
    device_mapping: Any = None,
    pipeline_schedule: PipelineSchedule | None = None,
    recomputation_mode: RecomputationMode | None = None,
    forward_propagation_stages_poplar_options: Any = None,
    backward_propagation_stages_poplar_options: Any = None,
    weight_update_poplar_options: Any = None,
    offload_weight_update_variables: bool | None = None,
    replicated_optimizer_state_sharding: bool = False,
    offload_activations: bool | None = None,
    offload_gradient_accumulation_buffers: bool | None = None,
    replicated_weight_sharding: bool | None = None,
    offload_weights: bool | None = None,
    continuous_weight_updates: bool = False,
    outfeed_loss: bool = False,
    accumulate_outfeed: bool = False,
    accumulate_outfeed_dtype: Any = None,
    outfeed_mask: Any = None,
    reduction_method: Any = Reduction.SUM,
    name: str | None = None,
) -> Any:
    """Builds a pipeline: each stage a program of its own, on its own IPU.

        def stage1(x, y):              # the infeed's element
            return layer(x, 64), y
        def stage2(x, y):              # what stage1 has returned
            return loss_of(layer(x, 10), y)
        def optimizer(loss):
            return OptimizerFunctionOutput(GradientDescentOptimizer(0.01), loss)

        pipelining_ops.pipeline([stage1, stage2], gradient_accumulation_count=8,
                                infeed_queue=infeed, outfeed_queue=outfeed,
                                optimizer_function=optimizer)

    One execution takes `gradient_accumulation_count` mini-batches through all stages, and
    then updates the weights once.

    Args:
        computational_stages: Functions, at least two. The first gets `inputs` and then
            the infeed's element (spread, or as keywords if it is a dict), each other one
            what the one before it has returned. A list of functions in their place is
            concurrent stages: each gets the same, and what they return is concatenated.
        gradient_accumulation_count: Mini-batches of an execution: an int, which is a part
            of the program, or a scalar integer tensor, which is an input of it: another
            value does not compile another one.
        gradient_accumulation_dtype: Of the buffers that gradients are accumulated in: a
            dtype of floating point (TensorFlow's, NumPy's or its name), or a function
            that gives one for a variable. The optimizer gets gradients of it, and must
            be one that casts them if its variables have another. Default (None): that of
            each gradient.
        gradient_accumulation_for_captured_grads: Whether gradients that are captured
            (OptimizerFunctionOutput) are accumulated as those of variables are. Otherwise
            the outfeed gets those of each mini-batch, and the optimizer the last.
            Default: True.
        repeat_count: Executions, at least 1. Default: 1.
        batch_serialization_iterations: How often each stage runs for a mini-batch of the
            count; with Sequential, on one IPU. Default: 1.
        inputs: Tensors for the first stage, the same for all mini-batches. Default: None.
        infeed_queue: An IPUInfeedQueue: an element for each mini-batch. Default: None.
        outfeed_queue: An IPUOutfeedQueue for what the last stage returns. Default: None.
        optimizer_function: Takes what the last stage returns, and returns an
            OptimizerFunctionOutput. Default (None): nothing is trained.
        device_mapping: The IPU of each stage, nested as the stages are; -1 for a stage on
            all IPUs, which one of them computes here. Default: 0, 1, ...
        pipeline_schedule: Default: Grouped; Sequential with batch serialization.
        recomputation_mode: With `allow_recompute` of the configuration, how. Default:
            Auto.
        forward_propagation_stages_poplar_options: A PipelineStageOptions for each stage.
        backward_propagation_stages_poplar_options: Likewise.
        weight_update_poplar_options: Likewise, one.
        offload_weight_update_variables: Whether the optimizer's state is in the host's
            memory and is moved to the IPU for each update (offloading.py); what is
            computed is the same, as with the next five, which change nothing here.
            Default (None): it is where IPUs have remote buffers, as all have that can be
            attached to (`system.has_remote_buffers`).
        replicated_optimizer_state_sharding: Needs the optimizer's state to be offloaded,
            by the argument before or its default. Default: False.
        offload_activations: Where activations are kept. Default: None.
        offload_gradient_accumulation_buffers: Where sums are kept. Default: None.
        replicated_weight_sharding: Whether replicas share weights. Default: None.
        offload_weights: Where weights are kept. Default: None.
        continuous_weight_updates: Not supported. Default: False.
        outfeed_loss: Only the loss is enqueued, bare; else in training a list of the last
            stage's outputs. Default: False.
        accumulate_outfeed: Values are summed over an execution and enqueued once in it.
            Default: False.
        accumulate_outfeed_dtype: Of these sums: a dtype, or a function that gives one for
            a tensor. Default: that of each value.
        outfeed_mask: A list of a bool for each output of the last stage: True keeps it
            back.
            Default: None.
        reduction_method: Of gradients: a GradientAccumulationReductionMethod, or its name.
            Default: SUM.
        name: Of the operation. Default: None.

    Returns:
        An operation; inside a tf.function, which cannot return one, a tensor.

    Raises:
        ValueError, TypeError, NotImplementedError: An argument is wrong.
        RuntimeError: It is called in eager mode.
        tf.errors.FailedPreconditionError: When the program runs: the schedule cannot have
            this many mini-batches (`schedules.refusal`).
        tf.errors.InternalError: When the program is compiled: its IPUs, the power of two
            that holds `device_mapping`, do not divide those of the device. A device that
            has more of them runs as many copies (device/replication.py).
        tf.errors.OutOfRangeError: When it runs: the dataset has ended. The execution
            that failed updates no weights.

    Threads: builds a part of the current graph. When it runs, each IPU has its own.
    """
    import tensorflow as tf

    count = checks.check_mini_batches(gradient_accumulation_count)
    repeats = checks.check_count(repeat_count, "repeat_count", least=1)
    serialization = checks.check_count(
        batch_serialization_iterations, "batch_serialization_iterations", least=1
    )
    option_checks.check_optimizer_function(optimizer_function)
    training = optimizer_function is not None
    reduction = Reduction.parse(reduction_method) if training else Reduction.SUM
    option_checks.check_update(continuous_weight_updates, serialization, reduction)
    kind = checks.check_schedule(pipeline_schedule, serialization)
    mode = checks.check_recomputation(recomputation_mode, kind)
    found = checks.check_stages(computational_stages)
    option_checks.check_queues(infeed_queue, outfeed_queue)
    checks.check_number_of_stages(found)
    mapping = checks.check_mapping(device_mapping, found, serialization > 1)
    checks.check_devices(mapping, kind, serialization, training)
    option_checks.check_stage_options(
        "forward_propagation_stages_poplar_options",
        forward_propagation_stages_poplar_options,
        len(found),
    )
    if training:
        option_checks.check_stage_options(
            "backward_propagation_stages_poplar_options",
            backward_propagation_stages_poplar_options,
            len(found),
        )
        option_checks.check_weight_update_options(weight_update_poplar_options)
    option_checks.check_outfeed_options(
        outfeed_queue, training, outfeed_loss, accumulate_outfeed, outfeed_mask
    )
    gradient_dtype = check_dtype(gradient_accumulation_dtype, GRADIENTS)
    output_dtype = check_dtype(accumulate_outfeed_dtype, OUTPUTS, "tensor")
    offload_state = offloads(offload_weight_update_variables)
    check_sharded_state(replicated_optimizer_state_sharding, offload_state)
    if tf.executing_eagerly():
        raise RuntimeError(
            "pipeline() builds a part of a program: call it inside ipu_compiler.compile, "
            "or a tf.function with jit_compile=True."
        )
    option_checks.warn_of_no_effect(
        recomputation_mode=mode is not RecomputationMode.Auto,
        forward_propagation_stages_poplar_options=option_checks.has_options(
            forward_propagation_stages_poplar_options
        ),
        backward_propagation_stages_poplar_options=option_checks.has_options(
            backward_propagation_stages_poplar_options
        ),
        weight_update_poplar_options=option_checks.has_options(
            weight_update_poplar_options
        ),
        replicated_optimizer_state_sharding=bool(replicated_optimizer_state_sharding),
        offload_activations=offload_activations is not None,
        offload_gradient_accumulation_buffers=(
            offload_gradient_accumulation_buffers is not None
        ),
        replicated_weight_sharding=replicated_weight_sharding is not None,
        offload_weights=offload_weights is not None,
        accumulate_outfeed_dtype=(
            accumulate_outfeed_dtype is not None and not accumulate_outfeed
        ),
    )
    if not training:
        option_checks.warn_of_no_effect_on_inference(
            gradient_accumulation_dtype=gradient_accumulation_dtype is not None,
            gradient_accumulation_for_captured_grads=(
                not gradient_accumulation_for_captured_grads
            ),
            offload_weight_update_variables=bool(offload_weight_update_variables),
            reduction_method=reduction_method not in (Reduction.SUM, "SUM", "sum"),
        )
    schedule = Schedule(kind, checks.without_all_devices(mapping), training)
    count = checks.check_scheduled(count, schedule, serialization, uses_io_tiles())
    values = [by_value(value) for value in as_list(inputs)]
    builder = Builder(
        schedule=schedule,
        sums=Sums(
            count,
            reduction,
            gradient_dtype,
            bool(gradient_accumulation_for_captured_grads),
            output_dtype,
        ),
        infeed_queue=infeed_queue,
        outfeed_queue=outfeed_queue,
        outfeed_loss=outfeed_loss,
        accumulate_outfeed=accumulate_outfeed,
        outfeed_mask=outfeed_mask,
        offload_state=offload_state,
        prefix=program_prefix(name),
    )

    def execution() -> Any:
        return builder.execution(found, values, optimizer_function)

    is_compiled = executor.executor() == "xla"
    body = execution if is_compiled else compiled(execution)
    with tf.name_scope(name or "pipeline"):
        # The executor's optimizers take a compiled function in an old loop apart.
        done = loops.repeat(repeats, body, [], use_while_v1=is_compiled)
    if infeed_queue is not None:
        loops.check_dequeued(infeed_queue)
    return done


def compiled(execution: Callable[[], Any]) -> Callable[[], Any]:
    """What builds an execution as a compiled function, for TensorFlow's executor.

    The IPUs' programs are compiled in any case; what is around them is op by op.
    """
    import tensorflow as tf
    from tensorflow.python.eager.polymorphic_function import (
        attributes,
        polymorphic_function,
        tracing_compilation,
    )

    stages.share_variables()

    def traced() -> Any:
        with stages.resource_variables(), tf.control_dependencies([execution()]):
            return tf.constant(0)

    # A tf.function would trace what makes variables twice, and `get_variable` makes each
    # once.
    options = tracing_compilation.TracingOptions(
        traced,
        name="pipeline",
        attributes={attributes.XLA_COMPILE: True},
        autograph=False,
    )

    def call() -> Any:
        with polymorphic_function.OptionalXlaContext(True):
            return tracing_compilation.call_function(tracing_options=options).op

    return call


def by_value(value: Any) -> Any:
    """An input as a tensor; of a variable its value, with a warning."""
    import tensorflow as tf

    if isinstance(value, tf.Variable):
        LOGGER.warning("Passing tensor %s by value.", value.name)
    return tf.convert_to_tensor(value)


def as_list(inputs: Any) -> list[Any]:
    """None, one value or several."""
    if inputs is None:
        return []
    return list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]


def offloads(wanted: bool | None) -> bool:
    """Whether the optimizer's state is offloaded; without a wish where it can be."""
    return system.has_remote_buffers() if wanted is None else bool(wanted)


def uses_io_tiles() -> bool:
    """Whether some tiles only move data."""
    config = system.configured()
    return bool(config.io_tiles.num_io_tiles)


def program_prefix(name: str | None) -> str:
    """How the names of the IPUs' programs begin: with that of the one around them.

    Unrelated pipelines then are not versions of one program, in the log and in reports.
    """
    outer = author_name(outside_compilation.program_name())
    words = [] if outer in ANONYMOUS else [outer]
    return re.sub(r"[^A-Za-z0-9]+", "_", "_".join([*words, name or "pipeline"]))
