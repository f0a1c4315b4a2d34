"""Builds the compiled programs: loops of steps from an infeed to an outfeed.

The number of steps and the iterator are inputs of the program: it is traced and compiled
once for all epochs, calls and datasets of one type. It has no list of variables: weights,
optimizer state, metrics, averages and seeds are variables that the trace captures.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from ipufeed.device.program.strategy import IPUStrategyV1
from ipufeed.device.program.strategy_contexts import tracing_replicas_of
from ipufeed.keras.changes.functions import is_current, step_function
from ipufeed.keras.checks.host_operations import check_operations
from ipufeed.keras.data.dtypes import Packing
from ipufeed.keras.data.shapes import zeros_of
from ipufeed.keras.feed import Feed
from ipufeed.keras.kit import Kit
from ipufeed.keras.pipelined_program import (
    PipelinedProgram,
    build,
    compiled,
    kept_metrics,
)
from ipufeed.keras.replica_metrics import (
    ReplicaMetrics,
    ReplicatedMetricReductionMethod,
    reduce_on_device,
)
from ipufeed.keras.state import ModelState
from ipufeed.parallel.optimizers.arguments import (
    GradientAccumulationReductionMethod,
    dtype_of,
    names_the_cast,
)
from ipufeed.queues.hooks import device_hooks
from ipufeed.queues.outfeed import IPUOutfeedMode, IPUOutfeedQueue
from ipufeed.tf_types import (
    Function,
    KerasModel,
    Nest,
    NestFunction,
    Tensor,
)

# The attribute of a model with the modes whose step has been traced.
BUILT = "_ipufeed_built"
STEPS = {"fit": "train_step", "evaluate": "test_step", "predict": "predict_step"}
Execute = Callable[[IPUStrategyV1], None]  # runs one execution


@dataclass
class Program:
    """A compiled function of (steps, iterator), and the outfeed that it writes to.

    Attributes:
        function: The tf.function.
        outfeed: The outfeed of its results: of all steps, or of the last one.
        metrics: The metrics of replicas; see ReplicaMetrics.
        packing: How its results are packed into tensors.
        reduces: Whether the metrics of replicas are reduced on the device.
    """

    function: Function
    outfeed: IPUOutfeedQueue
    metrics: ReplicaMetrics
    packing: Packing
    reduces: bool = True

    def begin(self, feed: Feed) -> Execute:
        """Begins an epoch; returns the function of the strategy that runs an execution."""
        iterator = feed.iterator()
        self.metrics.begin_epoch()
        steps = tf.constant(feed.steps.execution)
        again: Callable[[], None] | None = None

        def execute(strategy: IPUStrategyV1) -> None:
            nonlocal again
            if again is not None:
                again()
                return
            strategy.run(self.function, args=[steps, iterator])
            again = _repeated(self.function, strategy, [steps, iterator])

        return execute

    def unpack(self, results: Nest) -> Nest:
        """Converts results of the outfeed to logs or outputs."""
        return self.packing.unpack(results)

    def rows(self, execution: int) -> int:
        """Returns the number of results of an execution of `execution` steps."""
        return execution


def _repeated(
    function: Function, strategy: IPUStrategyV1, arguments: list[Tensor]
) -> Callable[[], None] | None:
    """Returns a fast repetition of a function's call with the same arguments, or None.

    It calls the compiled trace directly: TensorFlow's look-up of the trace of the arguments
    takes longer than a small step.
    """
    traces = function._list_all_concrete_functions()
    if len(traces) != 1 or not strategy._runs_compiled(function):
        return None
    (trace,) = traces
    bound = trace.function_type.bind(*arguments)
    tensors = [
        *trace.function_type.unpack_inputs(bound),
        *trace.function_type.unpack_captures(trace.captured_inputs),
    ]
    call, device = trace.inference_fn.call_flat, strategy._ipu_device

    def run() -> None:
        with tf.device(device):
            call(*tensors)

    return run


AnyProgram = Program | PipelinedProgram


def program_of(
    model: KerasModel, state: ModelState, mode: str, feed: Feed
) -> AnyProgram:
    """Returns the program of a mode; builds it if options have changed since.

    That of a pipelined model is bound to its queue, and to the steps of an execution.
    """
    _follow_keras(model, state, mode, feed)
    if state.pipeline.is_on:
        key = f"{mode} {feed.steps.execution} {feed.dataset.element_spec}"
        if key not in state.programs:
            name = program_name(model, mode)
            state.programs[key] = build(
                model, state, mode, feed.dataset, feed.steps.execution, name
            )
        pipelined: PipelinedProgram = state.programs[key]
        return pipelined
    if mode not in state.programs:
        state.programs[mode] = _new_program(model, state, mode)
    program: Program = state.programs[mode]
    return program


def _follow_keras(model: KerasModel, state: ModelState, mode: str, feed: Feed) -> None:
    """Forgets the program of a mode if Keras's function of the mode has been renewed."""
    known = state.functions.get(mode)
    if known is not None and is_current(model, mode, known):
        return
    if known is not None:
        state.forget_program(mode)
        model.__dict__.get(BUILT, set()).discard(mode)
        state.kit.build(model, zeros_of(feed.dataset), mode)
    state.kit.prepare_batch(model)
    state.functions[mode] = step_function(model, mode)


def _new_program(model: KerasModel, state: ModelState, mode: str) -> Program:
    # Synthetic data have no last result: `_take` has zeros in place of all of them.
    keeps_all = (
        mode == "predict" or state.asynchronous or device_hooks.synthetic_outfeed()
    )
    outfeed = IPUOutfeedQueue(
        IPUOutfeedMode.ALL if keeps_all else IPUOutfeedMode.LAST,
        device_ordinal=state.strategy.device_ordinal,
        **state.outfeed,
    )
    metrics = ReplicaMetrics.of(state.replicas(), kept_metrics(model, state, mode))
    packing = Packing()
    enqueue = _enqueue_reduced(outfeed, packing, state, mode)
    if mode == "fit" and (state.accumulation or 1) > 1:
        body = _accumulating(model, state, enqueue)
    else:
        step = state.kit.step(model, mode)
        body = _stepping(step, enqueue, f"{type(model).__name__}.{STEPS[mode]}")

    def program(steps: Tensor, iterator: Tensor) -> None:
        metrics.restore()
        with tracing_replicas_of(1):  # Keras divides the loss by their number
            body(steps, iterator)
        metrics.keep()
        if state.strategy._runs_compiled(
            function
        ):  # else the host has these operations
            check_operations(model, tf.compat.v1.get_default_graph())

    function = compiled(program, program_name(model, mode), state.kit.converts)
    return Program(function, outfeed, metrics, packing)


def trace_step(kit: Kit, model: KerasModel, zeros: Nest, mode: str) -> None:
    """Traces a step without running it: it creates the variables that its calls need.

    A loop cannot create variables. Each mode is traced once after `compile`.

    Args:
        kit: The kit of the model's Keras.
        model: The model.
        zeros: An element of the data.
        mode: "fit", "evaluate" or "predict".
    """
    built: set[str] = model.__dict__.setdefault(BUILT, set())
    if mode in built:
        return
    kit.adopt(model)
    step, strategy = kit.step(model, mode), model.distribute_strategy

    def once(data: Nest) -> None:
        strategy.run(lambda each: [step(each), None][1], args=(data,))

    with kit.training(model, mode):
        tf.function(once, autograph=kit.converts).get_concrete_function(zeros)
    built.add(mode)


def own_objects(model: KerasModel, kind: type | tuple[type, ...]) -> list[Any]:
    """Returns the attributes of a model that are of a type, also those in lists."""
    found: list[Any] = []
    for each in vars(model).values():
        several = each if isinstance(each, (list, tuple)) else [each]
        found += [one for one in several if isinstance(one, kind)]
    return found


def program_name(model: KerasModel, mode: str) -> str:
    """Returns the name of a program in the log, reports and the cache."""
    return re.sub(r"\W", "_", f"{model.name}_{mode}")


def _enqueue_reduced(
    outfeed: IPUOutfeedQueue, packing: Packing, state: ModelState, mode: str
) -> Callable[[Nest], None]:
    """Returns the function that reduces a step's results over replicas and enqueues."""
    method, replicas = state.metric_reduction, state.replicas()
    kinds = ReplicatedMetricReductionMethod
    # The outfeed has the predictions of all replicas as a list already.
    as_they_are = replicas == 1 or (mode == "predict" and method is kinds.LIST)

    def enqueue(results: Nest) -> None:
        if not as_they_are and method is not kinds.NONE:
            results = tf.nest.map_structure(
                lambda value: reduce_on_device(method, value, replicas), results
            )
        outfeed.enqueue(packing.pack(results))

    return enqueue


def _stepping(
    step: NestFunction, enqueue: Callable[[Nest], None], name: str
) -> Callable[..., None]:
    """Builds a loop of steps; `name` is that of the step in errors."""

    def run(steps: Tensor, iterator: Tensor) -> None:
        def body(i: Tensor) -> Tensor:
            results = step(next(iterator))
            if not tf.nest.flatten(results):
                raise ValueError(
                    f"`{name}` returned {results!r}: a step must return at least one "
                    'value, such as {"loss": loss}, which callbacks and History get.'
                )
            enqueue(results)
            return i + 1

        tf.while_loop(lambda i: i < steps, body, [0], parallel_iterations=1)

    return run


def _accumulating(
    model: KerasModel, state: ModelState, enqueue: Callable[[Nest], None]
) -> Callable[..., None]:
    """Builds a loop of weight updates around one of mini-batches, which carries sums.

    An execution holds whole updates, so that sums need not be variables.
    """
    count = state.accumulation or 1
    weights = list(model.trainable_variables)
    forward = state.kit.forward(model, weights)
    optimizer = model.optimizer
    # ipufeed's optimizers distinguish gradients of a mini-batch and of an update.
    map_each = getattr(optimizer, "map_each", None)
    apply = getattr(optimizer, "apply_accumulated", optimizer.apply_gradients)
    unused: set[int] = set()  # weights that the loss does not depend on

    def run(steps: Tensor, iterator: Tensor) -> None:
        def add(j: Tensor, *sums: Tensor) -> list[Tensor]:
            logs, gradients = forward(next(iterator))
            enqueue(logs)
            if map_each is not None:
                pairs = list(zip(gradients, weights, strict=True))
                gradients = [each for each, _ in map_each(pairs)]
            unused.update(i for i, each in enumerate(gradients) if each is None)
            return [
                j + 1,
                *(
                    each if new is None else _accumulate(state.reduction, each, new, j)
                    for each, new in zip(sums, gradients, strict=True)
                ),
            ]

        def update(i: Tensor) -> Tensor:
            zeros = [
                tf.zeros(each.shape, _dtype_of_sum(state, each)) for each in weights
            ]
            _, *sums = tf.while_loop(
                lambda j, *_: j < count, add, [0, *zeros], parallel_iterations=1
            )
            if state.reduction is GradientAccumulationReductionMethod.MEAN:
                sums = [each / tf.cast(count, each.dtype) for each in sums]
            pairs = [
                (gradient, weight)
                for i, (gradient, weight) in enumerate(zip(sums, weights, strict=True))
                if i not in unused
            ]
            if pairs:  # else the model has no weight that is trained
                with names_the_cast(pairs, "dtype"):
                    apply(pairs)
            return i + 1

        updates = steps // count
        tf.while_loop(lambda i: i < updates, update, [0], parallel_iterations=1)

    return run


def _dtype_of_sum(state: ModelState, weight: Tensor) -> Any:
    return dtype_of(state.accumulation_dtype, weight, weight.dtype, "dtype", "variable")


def _accumulate(
    method: GradientAccumulationReductionMethod,
    total: Tensor,
    gradient: Tensor,
    j: Tensor,
) -> Any:
    """Adds the gradient of mini-batch j to the sum or running mean."""
    gradient = tf.cast(tf.convert_to_tensor(gradient), total.dtype)
    if method is GradientAccumulationReductionMethod.RUNNING_MEAN:
        return total + (gradient - total) / tf.cast(j + 1, total.dtype)
    return total + gradient
