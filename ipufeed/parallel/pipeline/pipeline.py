"""pipelining_ops.pipeline: runs the stages of a model on several IPUs in parallel.

    arguments                what is given, checked together (checks, option_checks)
    stages.trace()           all stages, and their gradients, in one graph
    partition.split()        which op belongs to which position
    Plan                     the positions of each IPU, rings between them
    IPUProgram               a loop for each IPU                        ipu_program.py
    Builder                  all of that for one execution              execution.py
    IpufeedPipeline          one op in the program: runs the IPUs' loops  ipufeed/cc
    weight_update            after each execution, in the program itself

Source: the interface is that of Graphcore's pipelining_ops.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import tensorflow as tf
from tensorflow.python.eager.polymorphic_function import (
    attributes,
    polymorphic_function,
    tracing_compilation,
)

from ipufeed.checks import as_numbers, as_tensor
from ipufeed.device.log import LOGGER
from ipufeed.device.program import executor, loops, outside_compilation
from ipufeed.device.program.variables import contents_of
from ipufeed.device.system import system
from ipufeed.executable.program.names import ANONYMOUS, author_name
from ipufeed.parallel.optimizers.arguments import AccumulatorDType
from ipufeed.parallel.optimizers.arguments import (
    GradientAccumulationReductionMethod as Reduction,
)
from ipufeed.parallel.pipeline import (
    checks,
    option_checks,
    stages,
)
from ipufeed.parallel.pipeline.arguments import Given
from ipufeed.parallel.pipeline.execution import Builder
from ipufeed.parallel.pipeline.options import PipelineStageOptions, RecomputationMode
from ipufeed.parallel.pipeline.schedules import PipelineSchedule
from ipufeed.parallel.pipeline.sums import Sums
from ipufeed.queues.infeed import IPUInfeedQueue
from ipufeed.queues.outfeed import IPUOutfeedQueue
from ipufeed.tf_types import Nest, NestFunction, Operation, Tensor, Variable

StageOptions = Sequence[PipelineStageOptions] | None


@option_checks.with_older_count
def pipeline(
    computational_stages: Sequence[NestFunction | Sequence[NestFunction]],
    gradient_accumulation_count: int | Tensor = None,
    gradient_accumulation_dtype: AccumulatorDType = None,
    gradient_accumulation_for_captured_grads: bool = True,
    repeat_count: int = 1,
    batch_serialization_iterations: int = 1,
    inputs: Nest = None,
    infeed_queue: IPUInfeedQueue | None = None,
    outfeed_queue: IPUOutfeedQueue | None = None,
    optimizer_function: NestFunction | None = None,
    device_mapping: Sequence[int | Sequence[int]] | None = None,
    pipeline_schedule: PipelineSchedule | None = None,
    recomputation_mode: RecomputationMode | None = None,
    forward_propagation_stages_poplar_options: StageOptions = None,
    backward_propagation_stages_poplar_options: StageOptions = None,
    weight_update_poplar_options: PipelineStageOptions | None = None,
    offload_weight_update_variables: bool | None = None,
    replicated_optimizer_state_sharding: bool = False,
    offload_activations: bool | None = None,
    offload_gradient_accumulation_buffers: bool | None = None,
    replicated_weight_sharding: bool | None = None,
    offload_weights: bool | None = None,
    continuous_weight_updates: bool = False,
    outfeed_loss: bool = False,
    accumulate_outfeed: bool = False,
    accumulate_outfeed_dtype: AccumulatorDType = None,
    outfeed_mask: Sequence[bool] | None = None,
    reduction_method: Reduction | str = Reduction.SUM,
    name: str | None = None,
) -> Operation | Tensor:
    """Builds a pipeline: each stage is a program on its own IPU.

        def stage1(x, y):              # the infeed's element
            return layer(x, 64), y
        def stage2(x, y):              # the outputs of stage1
            return loss_of(layer(x, 10), y)
        def optimizer(loss):
            return OptimizerFunctionOutput(GradientDescentOptimizer(0.01), loss)

        pipelining_ops.pipeline([stage1, stage2], gradient_accumulation_count=8,
                                infeed_queue=infeed, outfeed_queue=outfeed,
                                optimizer_function=optimizer)

    One execution passes `gradient_accumulation_count` mini-batches through all stages, and
    then updates the weights once.

    Args:
        computational_stages: Functions, at least two. The first gets `inputs` and then
            the infeed's element (unpacked, or as keywords if it is a dict), each other one
            the outputs of the one before it. A list in place of a function is concurrent
            stages: each gets the same inputs, and their outputs are concatenated.
        gradient_accumulation_count: Mini-batches of an execution: an int, a constant of
            the program; or a scalar integer tensor, an input of the program, whose other
            values do not recompile it. `pipeline_depth` is its name in older releases.
        gradient_accumulation_dtype: The dtype of the gradients' accumulators: a
            floating-point dtype (TensorFlow's, NumPy's or its name), or a function of a
            variable that returns one. The optimizer gets gradients of this dtype, and must
            cast them if its variables have another. Default (None): that of each gradient.
        gradient_accumulation_for_captured_grads: Whether captured gradients
            (OptimizerFunctionOutput) are accumulated as those of variables are. Otherwise
            the outfeed gets those of each mini-batch, and the optimizer the last.
            Default: True.
        repeat_count: Executions, at least 1. Default: 1.
        batch_serialization_iterations: Iterations of each stage for one mini-batch of the
            count; with Sequential, on one IPU. Default: 1.
        inputs: Tensors for the first stage, the same for all mini-batches. Default: None.
        infeed_queue: An IPUInfeedQueue: an element for each mini-batch. Default: None.
        outfeed_queue: An IPUOutfeedQueue for the last stage's outputs. Default: None.
        optimizer_function: Takes the last stage's outputs, and returns an
            OptimizerFunctionOutput. Default (None): inference.
        device_mapping: The IPU of each stage, nested as the stages are; -1 is a stage on
            all IPUs, which one of them computes here. Default: 0, 1, ...
        pipeline_schedule: Default: Grouped; Sequential with batch serialization.
        recomputation_mode: How stages are recomputed, with `allow_recompute` of the
            configuration. Default: Auto.
        forward_propagation_stages_poplar_options: A PipelineStageOptions for each stage.
        backward_propagation_stages_poplar_options: Likewise.
        weight_update_poplar_options: One for the weight update.
        offload_weight_update_variables: Whether the optimizer's state is in the host's
            memory and is moved to the IPU for each update (offloading.py); results are
            the same. Default (None): true if IPUs have remote buffers, as all have that
            can be attached to (`system.has_remote_buffers`).
        replicated_optimizer_state_sharding: Whether replicas share the optimizer's state,
            which must be offloaded. No effect here, as the next four. Default: False.
        offload_activations: Whether activations are in the host's memory. Default: None.
        offload_gradient_accumulation_buffers: Whether accumulators are. Default: None.
        replicated_weight_sharding: Whether replicas share weights. Default: None.
        offload_weights: Whether weights are in the host's memory. Default: None.
        continuous_weight_updates: Not supported. Default: False.
        outfeed_loss: Whether the loss tensor is enqueued; otherwise, in training, a list
            of the last stage's outputs. Default: False.
        accumulate_outfeed: Whether outputs are summed over an execution and enqueued once
            for it. Default: False.
        accumulate_outfeed_dtype: The dtype of these sums: a dtype, or a function of a
            tensor that returns one. Default: that of each output.
        outfeed_mask: A list of bools, one for each output of the last stage: True
            excludes it. Default: None.
        reduction_method: How gradients are reduced: a GradientAccumulationReductionMethod,
            or its name. Default: SUM.
        name: The name of the operation. Default: None.

    Returns:
        An operation; inside a tf.function, which cannot return one, a tensor.

    Raises:
        ValueError, TypeError, NotImplementedError: An argument is wrong.
        RuntimeError: It is called in eager mode.
        tf.errors.FailedPreconditionError: When the program runs: the schedule does not
            allow this number of mini-batches (`schedules.refusal`).
        tf.errors.InternalError: When the program is compiled: its number of IPUs, the
            power of two that holds `device_mapping`, does not divide that of the device. A
            device with a multiple of them runs replicas (device/program/replication.py).
        tf.errors.OutOfRangeError: When it runs: the dataset has ended. The failed
            execution updates no weights.

    Threads: builds a part of the current graph. When it runs, each IPU has a thread.
    """
    # All parameters by their names, before there is any other name.
    given = Given(**locals())
    checked = given.checked()
    if not _is_in_program():
        raise RuntimeError(
            "pipeline() builds a part of a program: call it inside ipu_compiler.compile, "
            "or a tf.function with jit_compile=True."
        )
    given.warn_of_no_effect(checked)
    schedule = checked.schedule
    count = checks.check_scheduled(
        checked.count, schedule, checked.serialization, _uses_io_tiles()
    )
    values = [
        _by_value(f"inputs[{index}]", value)
        for index, value in enumerate(_as_list(inputs))
    ]
    builder = Builder(
        schedule=schedule,
        sums=Sums(
            count,
            checked.method if given.trains else Reduction.SUM,
            checked.gradient_dtype,
            bool(gradient_accumulation_for_captured_grads),
            checked.output_dtype,
        ),
        infeed_queue=infeed_queue,
        outfeed_queue=outfeed_queue,
        outfeed_loss=outfeed_loss,
        accumulate_outfeed=accumulate_outfeed,
        outfeed_mask=outfeed_mask,
        offload_state=checked.offload_state,
        prefix=_program_prefix(name),
    )

    def execution() -> Operation:
        return builder.execution(checked.stages, values, optimizer_function)

    with tf.name_scope(name or "pipeline"):
        if executor.executor() == "xla":
            done = loops.repeat(checked.repeats, execution, [])
        else:
            done = _on_executor(execution, checked.repeats)
    if infeed_queue is not None:
        loops.check_dequeued(infeed_queue)
    return done


def _on_executor(execution: Callable[[], Operation], repeats: int) -> Operation:
    """Builds the executions for TensorFlow's executor: each is a compiled function.

    The IPUs' programs are always compiled; the ops around them run one by one. Executions
    that draw random numbers are one function, and so one run, as in a compiled program.
    """
    stages.share_variables()
    one, draws = compiled(execution)
    if draws:
        every, _ = compiled(lambda: loops.repeat(repeats, one, []))
        return every()
    # The executor's optimizers take a compiled function in an old loop apart.
    return loops.repeat(repeats, one, [], use_while_v1=False)


def compiled(build: Callable[[], Operation]) -> tuple[Callable[[], Operation], bool]:
    """Traces a compiled function; returns its call, and whether it draws numbers."""

    def traced() -> Tensor:
        with stages.resource_variables():
            done = build()
        with tf.control_dependencies([done.op if tf.is_tensor(done) else done]):
            return tf.constant(0)

    # A tf.function would trace code that creates variables twice; `get_variable` creates
    # each once.
    options = tracing_compilation.TracingOptions(
        traced,
        name="pipeline",
        attributes={attributes.XLA_COMPILE: True},
        autograph=False,
    )
    with polymorphic_function.OptionalXlaContext(True):
        function = tracing_compilation.trace_function(tracing_options=options)

    def call() -> Operation:
        with polymorphic_function.OptionalXlaContext(True):
            return function._call_flat([], function.captured_inputs).op

    # Random operations number themselves: see device/random/ops.py.
    return call, hasattr(function.graph, "_ipufeed_seeds_of_own")


def _by_value(name: str, value: Tensor | Variable) -> Tensor:
    """Converts an input to a tensor; reads a variable or its handle, with a warning."""
    if isinstance(value, tf.Variable):
        LOGGER.warning("Passing tensor %s by value.", value.name)
    tensor = as_tensor(name, value)
    if tensor.dtype != tf.resource:
        return as_numbers(name, tensor)
    LOGGER.warning("Passing tensor %s by value.", tensor.name)
    dtype, shape = contents_of(tensor)
    read = tf.raw_ops.ReadVariableOp(resource=tensor, dtype=dtype)
    read.set_shape(shape)
    return read


def _as_list(inputs: Nest) -> list[Tensor]:
    if inputs is None:
        return []
    return list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]


def _uses_io_tiles() -> bool:
    return bool(system.configured().io_tiles.num_io_tiles)


def _program_prefix(name: str | None) -> str:
    """Returns the prefix of the IPUs' program names: the name of the outer program.

    Logs and reports then do not treat unrelated pipelines as versions of one program.
    """
    outer = author_name(outside_compilation.program_name())
    words = [] if outer in ANONYMOUS else [outer]
    return re.sub(r"[^A-Za-z0-9]+", "_", "_".join([*words, name or "pipeline"]))


def _is_in_program() -> bool:
    """Whether this is called in a function, or in a computation that is compiled."""
    if tf.executing_eagerly():
        return False
    graph = tf.compat.v1.get_default_graph()
    return graph.building_function or outside_compilation.current_program() is not None
