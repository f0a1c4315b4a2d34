"""Builds the program of a pipelined model: stages of its layers, and queues."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from ipufeed.device.program import executor
from ipufeed.device.program.strategy import IPUStrategyV1
from ipufeed.device.program.strategy_contexts import tracing_replicas_of
from ipufeed.device.system import system
from ipufeed.keras.checks.host_operations import check_operations
from ipufeed.keras.data.dtypes import Packing
from ipufeed.keras.feed import Feed
from ipufeed.keras.pipeline.program import Stages
from ipufeed.keras.replica_metrics import ReplicaMetrics
from ipufeed.keras.state import ModelState
from ipufeed.parallel.pipeline import checks
from ipufeed.parallel.pipeline.options import OptimizerFunctionOutput
from ipufeed.parallel.pipeline.pipeline import pipeline
from ipufeed.parallel.pipeline.schedules import Schedule, possible_counts, refusal
from ipufeed.queues.infeed import IPUInfeedQueue
from ipufeed.queues.outfeed import IPUOutfeedQueue
from ipufeed.tf_types import (
    Dataset,
    FuncGraph,
    Function,
    KerasModel,
    Nest,
    NestFunction,
    Tensor,
    Variable,
)


@dataclass
class PipelinedProgram:
    """A compiled pipeline, and the queues that it is bound to.

    Attributes:
        function: The tf.function, without arguments.
        infeed: Restarted for each call with the call's dataset.
        outfeed: The last stage's flat results.
        pack: Converts these to logs or outputs.
        divisor: The divisor of sums over mini-batches.
        metrics: The metrics of replicas; see ReplicaMetrics.
        reduces: Whether the metrics of replicas are reduced on the device.
    """

    function: Function
    infeed: IPUInfeedQueue
    outfeed: IPUOutfeedQueue
    pack: Callable[[list[Tensor]], Nest]
    divisor: int
    metrics: ReplicaMetrics
    reduces: bool = False

    def begin(self, feed: Feed) -> Callable[[IPUStrategyV1], None]:
        """See programs.Program."""
        feed.start(self.infeed)
        self.metrics.begin_epoch()
        return lambda strategy: strategy.run(self.function)

    def unpack(self, results: Nest) -> Nest:
        """See programs.Program; sums become means."""
        flat = tf.nest.flatten(results)  # a single tensor is not in a list
        if self.divisor > 1:
            flat = [each / self.divisor for each in flat]
        return self.pack(flat)

    def rows(self, execution: int) -> int:
        """See programs.Program."""
        return execution // self.divisor


def check_depth(model: KerasModel, state: ModelState, mode: str, steps: int) -> None:
    """Raises ValueError if the schedule does not allow the mini-batches of a pipeline.

    Args:
        model: The Keras model.
        state: Its ModelState.
        mode: See Kit.
        steps: The steps of an execution.
    """
    own = state.pipeline
    if not own.is_on:
        return
    count = own.mini_batches(mode, steps)
    kind = checks.check_schedule(own.options.get("pipeline_schedule"), 1)
    devices = tuple((each,) for each in own.device_mapping or range(own.stages))
    schedule = Schedule(kind, checks.without_all_devices(devices), mode == "fit")
    io_tiles = bool(system.configured().io_tiles.num_io_tiles)
    if not refusal(schedule, count, io_tiles):
        return
    multiple, least = possible_counts(schedule, io_tiles)
    takes = f"{least} or more" if multiple == 1 else f"a multiple of {multiple}"
    why = " on IPUs with I/O tiles" if io_tiles else ""
    call = "call `set_pipelining_options` with another"
    found = f"`steps_per_execution` is {count}"
    remedy = f"Compile with another number, or {call}"
    if mode == "fit":
        found = f"`gradient_accumulation_steps_per_replica` is {count}"
        remedy = "Call `set_pipelining_options` with another number, or with another"
    elif count < state.kit.steps_per_execution(model):
        found = f"the data have {count}"
        remedy = f"Give more or smaller batches, or {call}"
    raise ValueError(
        f"The model {model.name} has {own.stages} pipeline stages, whose {kind.name} "
        f"schedule in {mode}{why} takes {takes} mini-batches, but {found}. {remedy} "
        "`pipeline_schedule`."
    )


def build(
    model: KerasModel,
    state: ModelState,
    mode: str,
    dataset: Dataset,
    execution: int,
    name: str,
) -> PipelinedProgram:
    """Builds the program of a mode for executions of this many steps.

    Args:
        model: The Keras model, which has been built.
        state: Its ModelState.
        mode: See Kit.
        dataset: The dataset of the first call.
        execution: Steps of an execution.
        name: The name of the program.

    Raises:
        ValueError: The mini-batches of an update are not set.
    """
    own = state.pipeline
    count = own.mini_batches(mode, execution)
    ordinal = state.strategy.device_ordinal
    infeed = IPUInfeedQueue(dataset, **{"device_ordinal": ordinal, **state.infeed})
    outfeed = IPUOutfeedQueue(device_ordinal=ordinal, **state.outfeed)
    names, packed, mask = list[str](), list[Nest](), list[bool]()
    sums = own.accumulate_outfeed and mode != "predict"
    packing = Packing(sums)

    def finish(outputs: Nest, element: list[Tensor], losses: Tensor) -> Nest:
        if mode == "predict":
            packed[:] = [outputs]
            return packing.pack(tf.nest.flatten(outputs))
        data = tf.nest.pack_sequence_as(dataset.element_spec, element)
        loss, logs = state.kit.finish_step(model, data, outputs, losses, mode)
        names[:] = list(logs)
        results = packing.pack([tf.convert_to_tensor(each) for each in logs.values()])
        mask[:] = [True] + [False] * len(results)  # all but the loss are enqueued
        return [loss, *results] if mode == "fit" else results

    stages = Stages(
        own.graph,
        own.stages,
        dataset.element_spec,
        lambda element: state.kit.inputs(model, element),
        mode == "fit",
        functools.partial(_check_stage, model),
        finish,
    )
    options = (
        _of_training(model, state, mask) if mode == "fit" else _of_inference(state)
    )
    metrics = ReplicaMetrics.of(state.replicas(), kept_metrics(model, state, mode))

    @tracing_replicas_of(own.shards())  # Keras divides the loss by their number
    def program() -> None:
        metrics.restore()
        pipeline(
            stages.functions(),
            count,
            repeat_count=execution // count,
            infeed_queue=infeed,
            outfeed_queue=outfeed,
            device_mapping=own.device_mapping,
            accumulate_outfeed=sums,
            **options,
        )
        metrics.keep()

    divisor = count if sums else 1
    function = compiled(program, name, state.kit.converts)
    pack = functools.partial(_packed, packing, packed, names)
    return PipelinedProgram(function, infeed, outfeed, pack, divisor, metrics)


def _packed(
    packing: Packing, outputs: list[Nest], names: list[str], flat: list[Tensor]
) -> Nest:
    """Converts results to the form of the outputs of `predict`, or else to logs."""
    flat = packing.unpack(flat)
    if outputs:
        return tf.nest.pack_sequence_as(outputs[0], flat)
    return dict(zip(names, flat, strict=True))


def kept_metrics(model: KerasModel, state: ModelState, mode: str) -> list[Variable]:
    """Returns the variables of a mode's metrics, which advance from step to step."""
    return [] if mode == "predict" else state.kit.metric_variables(model)


def compiled(function: NestFunction, name: str, converts: bool) -> Function:
    """Returns the tf.function of a program; its name is that of logs and reports.

    Args:
        function: Builds the program.
        name: The name of the program.
        converts: Whether autograph converts what the model's layers call.
    """
    function.__name__ = name
    program = tf.function(function, jit_compile=True, autograph=converts)
    # TensorFlow counts the traces of all models' programs as those of one function.
    program._omit_frequent_tracing_warning = True
    return program


def _check_stage(model: KerasModel, graph: FuncGraph, results: Nest) -> None:
    if executor.executor() != "tensorflow":  # which has these operations
        check_operations(model, graph, results)


# Options that apply to training only.
OF_TRAINING = (
    "gradient_accumulation_dtype",
    "gradient_accumulation_for_captured_grads",
    "offload_weight_update_variables",
    "replicated_optimizer_state_sharding",
    "weight_update_poplar_options",
)


def _of_training(
    model: KerasModel, state: ModelState, mask: list[bool]
) -> dict[str, Any]:
    def optimize(loss: Tensor, *_: object) -> OptimizerFunctionOutput:
        weights = state.kit.variables(model.trainable_variables)
        optimizer = state.kit.optimizer(model)
        return OptimizerFunctionOutput(optimizer, loss, variables=weights)

    return {
        **state.pipeline.options,
        "optimizer_function": optimize,
        "outfeed_mask": mask,
        "reduction_method": state.pipeline.reduction,
    }


def _of_inference(state: ModelState) -> dict[str, Any]:
    options = state.pipeline.options
    return {name: options[name] for name in options if name not in OF_TRAINING}
