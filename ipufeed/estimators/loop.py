"""What the sessions of an estimator run: one loop of a program, and its results."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import tensorflow as tf

from ipufeed.device.program import compiler, sharding
from ipufeed.device.program.scopes import ipu_scope, ipu_shard
from ipufeed.estimators.ipu_run_config import IPURunConfig
from ipufeed.estimators.metrics import Metrics
from ipufeed.queues.infeed import IPUInfeedQueue
from ipufeed.queues.outfeed import IPUOutfeedQueue
from ipufeed.tf_types import Dataset, Graph, Nest, Operation, Tensor, Variable

CPU = "/device:CPU:0"
_ASSIGNS = ("AssignVariableOp", "AssignAddVariableOp", "AssignSubVariableOp")
_PASSES_ON = ("Enter", "Identity")


@dataclass(kw_only=True)
class Loop:
    """One run of a program in a graph of a mode.

    Attributes:
        spec: What the model function returned.
        infeed: The queue that feeds it.
        outfeeds: Those of its results.
        run: Runs the program, and what the host does after it.
        loss: The mean loss of the run, in training.
        results: The results that have not been read, in evaluation and prediction.
        metrics: Those of an evaluation.
        whole: The steps whose results count only together: in an execution of a pipeline
            in which the dataset ends, the stages stop at different mini-batches.
    """

    spec: Any
    infeed: IPUInfeedQueue
    outfeeds: list[IPUOutfeedQueue] = field(default_factory=list)
    run: Operation
    loss: Tensor | None = None
    results: Nest = None
    metrics: Metrics | None = None
    whole: int = 1


def infeed_of(dataset: Dataset, settings: IPURunConfig) -> IPUInfeedQueue:
    """Returns the queue that feeds a program."""
    return IPUInfeedQueue(
        dataset,
        device_ordinal=settings.ordinal,
        prefetch_depth=settings.prefetch_depth,
    )


def outfeed_of(settings: IPURunConfig) -> IPUOutfeedQueue:
    """Returns a queue for the results of a program."""
    return IPUOutfeedQueue(device_ordinal=settings.ordinal)


def compiled(build: Callable[[], Nest], settings: IPURunConfig) -> Nest:
    """Builds a program on the device of the settings; see ipu_compiler.compile.

    A replica has `num_shards` IPUs, also if the model function uses fewer: else the
    program would run in more replicas than the settings have.
    """

    def program() -> Nest:
        with ipu_shard(settings.num_shards - 1):
            tf.no_op("last_shard")
        return build()

    with ipu_scope(f"/device:IPU:{settings.ordinal}"):
        return compiler.compile(program)


def dequeued_after(program: Iterable[Operation], outfeed: IPUOutfeedQueue) -> Nest:
    """Returns the results of a program that runs before they are read."""
    with tf.control_dependencies(list(program)), tf.device(CPU):
        return outfeed.dequeue()


def add_steps(
    global_step: Variable, iterations: int, after: Iterable[Tensor | Operation]
) -> Operation:
    """Adds the steps of a run to the global step, after it."""
    with tf.control_dependencies(list(after)), tf.device(CPU):
        return tf.group(global_step.assign_add(iterations, read_value=False))


def refuse_increments(global_step: Variable) -> None:
    """Raises ValueError if an op of the current graph changes the global step."""
    graph = tf.compat.v1.get_default_graph()
    for op in graph.get_operations():
        if op.type not in _ASSIGNS or op == global_step.initializer or _restores(op):
            continue
        if _source(op.inputs[0], graph) is global_step.handle:
            raise ValueError(
                "Illegal increment of the `global_step` variable by the model function "
                f"(in `{op.name}`): the estimator adds iterations_per_loop to it after "
                "each run. Leave out the `global_step` argument of `minimize` or "
                "`apply_gradients`."
            )


def _restores(assign: Operation) -> bool:
    """Whether an op assigns what a tf.compat.v1.train.Saver reads from a checkpoint."""
    value = assign.inputs[-1].op
    while value.type == "Identity":
        value = value.inputs[0].op
    return bool(value.type == "RestoreV2")


def _source(tensor: Tensor, graph: Graph) -> Tensor:
    """Returns the tensor outside of loops and functions that a tensor stands for."""
    while tensor.op.type in _PASSES_ON:
        tensor = tensor.op.inputs[0]
    for outer, inner in getattr(graph, "captures", ()):
        if inner is tensor:
            return _source(outer, outer.graph)
    return tensor


def check_replicas(replicas: int) -> None:
    """Raises ValueError if the current graph's training does not combine its replicas."""
    graph = tf.compat.v1.get_default_graph()
    if replicas > 1 and not any(
        op.type == "IpufeedCollective"
        for op in sharding.with_called(graph.get_operations())
    ):
        raise ValueError(
            "Replicated training needs a cross-replica reduction, else each replica "
            "trains its own weights: wrap the optimizer in "
            "cross_replica_optimizer.CrossReplicaOptimizer."
        )
