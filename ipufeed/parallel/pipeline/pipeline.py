"""pipelining_ops.pipeline: a model's stages on several IPUs, at the same time.

    stages.trace()           all stages, and their gradients, in one graph     stages.py
    partition.split()        which op belongs to which position             partition.py
    Plan, ChipProgram        a loop for each chip, rings between them    ipu_program.py
    IpufeedPipeline          one op in the program: runs the chips' loops    ipufeed/cc
    apply_gradients          after each execution, in the program itself

Source: Graphcore's pipelining_ops, whose interface this is; the schedules are those of
schedules.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from ipufeed import _native
from ipufeed.checks import check_flags
from ipufeed.device.program import executor, loops, outside_compilation
from ipufeed.device.system import system
from ipufeed.executable.program.names import ANONYMOUS, author_name
from ipufeed.parallel.optimizers.dtypes import check_dtype
from ipufeed.parallel.optimizers.reduction_method import (
    GradientAccumulationReductionMethod as Reduction,
)
from ipufeed.parallel.pipeline import checks, partition, stages, weight_update
from ipufeed.parallel.pipeline.ipu_program import Accumulation, ChipProgram, Plan
from ipufeed.parallel.pipeline.options import RecomputationMode
from ipufeed.parallel.pipeline.schedules import PipelineSchedule, Position, Schedule
from ipufeed.parallel.pipeline.sums import GRADIENTS, OUTPUTS, Sums, last_value
from ipufeed.queues.chain import put_token, take_token


def pipeline(
    computational_stages: Any,
    gradient_accumulation_count: Any = None,
    gradient_accumulation_dtype: Any = None,
    gradient_accumulation_for_captured_grads: bool = True,
    repeat_count: int = 1,
    batch_serialization_iterations: int = 1,
    inputs: Any = None,
    infeed_queue: Any = None,
    outfeed_queue: Any = None,
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
        device_mapping: The IPU of each stage, nested as the stages are. Default: 0, 1, ...
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
        tf.errors.FailedPreconditionError: The schedule cannot have this many mini-batches
            (`schedules.refusal`); for a tensor, when the program runs.
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
    found = checks.check_stages(computational_stages)
    mapping = checks.check_mapping(device_mapping, found, serialization > 1)
    checks.check_optimizer_function(optimizer_function)
    training = optimizer_function is not None
    kind = checks.check_schedule(pipeline_schedule, serialization, mapping, training)
    mode = checks.check_recomputation(recomputation_mode, kind)
    check_flags(
        gradient_accumulation_for_captured_grads=gradient_accumulation_for_captured_grads,
        offload_weight_update_variables=offload_weight_update_variables,
        replicated_optimizer_state_sharding=replicated_optimizer_state_sharding,
        offload_activations=offload_activations,
        offload_gradient_accumulation_buffers=offload_gradient_accumulation_buffers,
        replicated_weight_sharding=replicated_weight_sharding,
        offload_weights=offload_weights,
        continuous_weight_updates=continuous_weight_updates,
        outfeed_loss=outfeed_loss,
        accumulate_outfeed=accumulate_outfeed,
    )
    checks.check_queues(infeed_queue, outfeed_queue)
    checks.check_outfeed_options(
        outfeed_queue, training, outfeed_loss, accumulate_outfeed, outfeed_mask
    )
    checks.check_stage_options(
        "forward_propagation_stages_poplar_options",
        forward_propagation_stages_poplar_options,
        len(found),
    )
    checks.check_stage_options(
        "backward_propagation_stages_poplar_options",
        backward_propagation_stages_poplar_options,
        len(found),
    )
    checks.check_weight_update_options(weight_update_poplar_options)
    gradient_dtype = check_dtype(gradient_accumulation_dtype, GRADIENTS)
    output_dtype = check_dtype(accumulate_outfeed_dtype, OUTPUTS, "tensor")
    reduction = Reduction.parse(reduction_method)
    offload_state = offloads(offload_weight_update_variables)
    checks.check_update(
        continuous_weight_updates,
        replicated_optimizer_state_sharding,
        offload_state,
        serialization,
        reduction,
    )
    if tf.executing_eagerly():
        raise RuntimeError(
            "pipeline() builds a part of a program: call it inside ipu_compiler.compile, "
            "or a tf.function with jit_compile=True."
        )
    checks.warn_of_no_effect(
        recomputation_mode=mode is not RecomputationMode.Auto,
        forward_propagation_stages_poplar_options=checks.has_options(
            forward_propagation_stages_poplar_options
        ),
        backward_propagation_stages_poplar_options=checks.has_options(
            backward_propagation_stages_poplar_options
        ),
        weight_update_poplar_options=checks.has_options(weight_update_poplar_options),
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
        checks.warn_of_no_effect_on_inference(
            gradient_accumulation_dtype=gradient_accumulation_dtype is not None,
            gradient_accumulation_for_captured_grads=(
                not gradient_accumulation_for_captured_grads
            ),
            offload_weight_update_variables=bool(offload_weight_update_variables),
            reduction_method=reduction is not Reduction.SUM,
        )
    schedule = Schedule(kind, mapping, training)
    count = checks.check_scheduled(count, schedule, serialization, uses_io_tiles())
    values = [tf.convert_to_tensor(value) for value in as_list(inputs)]
    builder = _Builder(
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

    The chips' programs are compiled in any case; what is around them is op by op.
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


class _Builder:
    """Builds one execution of a pipeline; its arguments are those of `pipeline`."""

    def __init__(
        self,
        *,
        schedule: Schedule,
        sums: Sums,
        infeed_queue: Any,
        outfeed_queue: Any,
        outfeed_loss: bool,
        accumulate_outfeed: bool,
        outfeed_mask: Any,
        offload_state: bool,
        prefix: str,
    ) -> None:
        self.schedule = schedule
        self.sums = sums
        self.infeed_queue = infeed_queue
        self.outfeed_queue = outfeed_queue
        self.outfeed_loss = outfeed_loss
        self.accumulate_outfeed = accumulate_outfeed
        self.outfeed_mask = outfeed_mask
        self.offload_state = offload_state
        self.prefix = prefix

    def execution(
        self,
        functions: list[list[Callable[..., Any]]],
        inputs: list[Any],
        optimizer_function: Callable[..., Any] | None,
    ) -> Any:
        """Builds it; gives the operation."""
        import tensorflow as tf

        with stages.accumulating(self.sums.count):
            model = stages.trace(
                functions, self.schedule, inputs, self.infeed_queue, optimizer_function
            )
        model.traced.recomputes = recomputes()
        leaving = self.leaving(model)
        left = [] if leaving is None else tf.nest.flatten(leaving)
        tensors: list[Any] = []
        accumulations: list[Accumulation] = []
        update = None
        captured: dict[str, tuple[Any, Accumulation]] = {}
        queue = None
        if model.optimizer is not None:
            captured = self.sums.of_captured(model)
            queue = model.optimizer.captured_gradient_outfeed
            update = weight_update.trace(
                model, self.sums.dtype_of_gradient, self.last, captured
            )
            tensors += [each for each, _ in model.gradients if each is not None]
            accumulations += self.sums.of_gradients(model)
            tensors += [each for each, _ in captured.values()]
            accumulations += [each for _, each in captured.values()]
            tensors += update.from_stages
            accumulations += [last_value(each) for each in update.from_stages]
        used = len(tensors)
        if left and self.accumulate_outfeed:
            tensors += left
            accumulations += [self.sums.of_output(each) for each in left]
        elif left:
            self.enqueue(model, leaving)
        if queue is not None and not self.sums.accumulates_captured:
            with model.traced.graph.as_default():
                queue.enqueue(model.captured)
        model.traced.results = tensors
        for tensor in tensors:
            check_shape(tensor)
        parts = partition.split(model.traced, self.schedule.positions)
        plan = Plan(model.traced, self.schedule, self.sums.count, parts, accumulations)
        results = launch(plan, self.prefix)
        operations = [take_token().op]
        if left and self.accumulate_outfeed:
            packed = tf.nest.pack_sequence_as(leaving, results[used:])
            operations.append(self.outfeed_queue.enqueue(packed))
        if update is not None:
            if queue is not None and self.sums.accumulates_captured:
                first = len(update.gradients) - len(captured)
                found = dict(zip(captured, results[first:], strict=False))
                operations.append(queue.enqueue(found))
            operations.append(
                weight_update.put(update, model, results[:used], self.offload_state)
            )
        return tf.group(*(each for each in operations if each is not None))

    @property
    def last(self) -> Position:
        """The last forward position."""
        return [each for each in self.schedule.positions if not each.backward][-1]

    def leaving(self, model: stages.Model) -> Any:
        """What is enqueued, as the traced graph has it; None for nothing.

        Raises:
            ValueError: There is something, and no queue for it.
        """
        if self.outfeed_loss:
            assert model.optimizer is not None
            return self.with_queue(model, model.optimizer.loss)
        if self.outfeed_mask is None:
            listed = self.accumulate_outfeed or model.optimizer is not None
            structure = outfeed_structure(model.structure, listed)
            return self.with_queue(model, structure) if model.outputs else None
        mask = list(self.outfeed_mask)
        if len(mask) != len(model.outputs):
            raise ValueError(
                "The last computational stage has "
                f"{len(model.outputs)} outputs, and outfeed_mask has {len(mask)} values: "
                "give one for each output."
            )
        left = [
            tensor
            for tensor, masked in zip(model.outputs, mask, strict=True)
            if not masked
        ]
        return self.with_queue(model, left) if left else None

    def with_queue(self, model: stages.Model, structure: Any) -> Any:
        """The structure; raises ValueError where there is no queue for it."""
        if self.outfeed_queue is not None:
            return structure
        names = ", ".join(tensor.name for tensor in model.outputs)
        raise ValueError(
            f"The last computational stage has tensor outputs: {names}, but no "
            "outfeed_queue has been provided."
        )

    def enqueue(self, model: stages.Model, structure: Any) -> None:
        """The last stage gives each mini-batch's values to the outfeed."""
        with model.traced.graph.as_default(), stages.owned(model.traced, self.last):
            self.outfeed_queue.enqueue(structure)


def outfeed_structure(outputs: Any, listed: bool) -> Any:
    """What is enqueued of the last stage's outputs, by the rules of Graphcore's pipeline.

    Args:
        outputs: What the stage returned.
        listed: Whether one output alone is a list, too: in training, and where outputs
            are accumulated.
    """
    if isinstance(outputs, (list, tuple)):
        return list(outputs)
    return [outputs] if listed else outputs


def check_shape(tensor: Any) -> None:
    """Raises ValueError unless the shape is known: there is a buffer of it."""
    if not tensor.shape.is_fully_defined():
        raise ValueError(
            f"What a pipeline accumulates must have a fully defined shape: {tensor.name} "
            f"has {tensor.shape}."
        )


def recomputes() -> bool:
    """`allow_recompute` of the configuration."""
    return bool(system.configured().allow_recompute)


def program_prefix(name: str | None) -> str:
    """How the names of the chips' programs begin: with that of the one around them.

    Unrelated pipelines then are not versions of one program, in the log and in reports.
    """
    outer = author_name(outside_compilation.program_name())
    words = [] if outer in ANONYMOUS else [outer]
    return re.sub(r"[^A-Za-z0-9]+", "_", "_".join([*words, name or "pipeline"]))


def launch(plan: Plan, prefix: str) -> list[Any]:
    """Builds the op that runs the chips; gives what they have accumulated.

    Args:
        plan: What they do.
        prefix: With which the names of their programs begin.
    """
    import tensorflow as tf
    from tensorflow.python.ops import control_flow_util_v2

    programs, chips, operands, counts = [], plan.chips(), [], []
    arguments: dict[int, Any] = {}
    numbers: list[int] = []  # of the accumulated tensors, as the programs give them
    shapes: list[Any] = []
    dtypes: list[Any] = []
    for chip in chips:
        program = ChipProgram(plan, chip)
        graph = stages.new_graph(
            control_flow_util_v2.unique_fn_name(prefix, f"_ipu{chip}")
        )
        with graph.as_default():
            results = program.build()
        graph.outputs = graph.structured_outputs = results
        own = []
        for given in graph.external_captures:
            arguments.setdefault(id(given), given)
            own.append(list(arguments).index(id(given)))
        control_flow_util_v2.create_new_tf_function(graph)
        programs.append(graph.name)
        operands += own
        counts.append(len(own))
        numbers += [-1, *program.results]
        shapes += [each.shape for each in results]
        dtypes += [each.dtype for each in results]
    ends = [each for ring in plan.rings for each in (ring.source, ring.target)]
    values, token = _native.load().ipufeed_pipeline(
        list(arguments.values()),
        take_token(),
        result_types=dtypes,
        result_shapes=shapes,
        programs=programs,
        chips=chips,
        devices=checks.devices_needed(plan.schedule.devices),
        operands=operands,
        operand_counts=counts,
        ring_stages=[each.label for each in ends],
        ring_chips=[each.device for each in ends],
        ring_capacities=[ring.capacity for ring in plan.rings],
        ring_credits=[ring.full for ring in plan.rings],
        schedule=plan.schedule.text(tf.get_static_value(plan.count)),
    )
    put_token(token)
    found = dict(zip(numbers, values, strict=True))
    return [found[number] for number in range(len(plan.traced.results))]
