"""What is compiled: a loop of steps that reads from an infeed and writes to an outfeed.

The number of steps and the iterator are inputs of the program: it is traced and compiled
once for all epochs, calls and datasets of one type. It holds no list of variables: weights,
optimizer state, metrics, averages and seeds are variables that the trace captures.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ipufeed.keras.feed import Feed
from ipufeed.keras.metric_reduction import (
    ReplicatedMetricReductionMethod,
    reduce_on_device,
)
from ipufeed.keras.pipelined_program import PipelinedProgram, build
from ipufeed.keras.state import ModelState
from ipufeed.parallel.collectives import ops as collectives
from ipufeed.parallel.optimizers.dtypes import dtype_of
from ipufeed.parallel.optimizers.reduction_method import (
    GradientAccumulationReductionMethod,
)
from ipufeed.queues.outfeed import IPUOutfeedMode, IPUOutfeedQueue


@dataclass
class Program:
    """A compiled function of (steps, iterator), and the outfeed that it writes to.

    Attributes:
        function: The tf.function.
        outfeed: Its results; of the last step only, unless all are wanted.
        metrics: The metrics of replicas; see ReplicaMetrics.
        reduces: Whether the metrics of replicas are reduced on the device.
    """

    function: Any
    outfeed: IPUOutfeedQueue
    metrics: ReplicaMetrics
    reduces: bool = True

    def begin(self, feed: Feed) -> Any:
        """Begins an epoch.

        Returns:
            What runs an execution: a function of the strategy.
        """
        import tensorflow as tf

        iterator = feed.iterator()
        self.metrics.begin_epoch()
        steps = tf.constant(feed.steps.execution)
        again: Callable[[], Any] | None = None

        def execute(strategy: Any) -> None:
            nonlocal again
            if again is not None:
                again()
                return
            strategy.run(self.function, args=[steps, iterator])
            again = _repeated(self.function, strategy, [steps, iterator])

        return execute

    def unpack(self, results: Any) -> Any:
        """Logs or outputs, of what the outfeed gave."""
        return results

    def rows(self, execution: int) -> int:
        """Results of an execution of this many steps."""
        return execution


def _repeated(function: Any, strategy: Any, arguments: list[Any]) -> Any:
    """What runs a function again that has run with these arguments; None: nothing knows.

    The function is called as it was traced and compiled: TensorFlow would look for the
    trace of the arguments each time, which costs more than a small step does.
    """
    import tensorflow as tf

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


@dataclass
class ReplicaMetrics:
    """Keeps the metrics of each replica from one execution to the next.

    A program begins with replica 0's variables on each replica. Metrics must go on from
    the replica's own: they are kept as [replicas, *shape] between two executions.

    Attributes:
        replicas: Copies of the program.
        pairs: Each metric's variable, and the variable that holds those of all replicas.
    """

    replicas: int
    pairs: list[tuple[Any, Any]] = field(default_factory=list)

    def prepare(self, variables: list[Any]) -> None:
        """Makes the variables; before the program is traced, which may make none."""
        import tensorflow as tf

        if self.replicas > 1:
            self.pairs = [
                (each, tf.Variable(tf.stack([each] * self.replicas), trainable=False))
                for each in variables
            ]

    def begin_epoch(self) -> None:
        """Gives all replicas the values of now: those of metrics that were reset."""
        import tensorflow as tf

        for variable, kept in self.pairs:
            kept.assign(tf.stack([variable] * self.replicas))

    def restore(self) -> None:
        """Builds the beginning of a program: each replica takes its own values."""
        import tensorflow as tf

        if self.pairs:
            index = collectives.replication_index()
            for variable, kept in self.pairs:
                variable.assign(tf.gather(kept, index))

    def keep(self) -> None:
        """Builds the end of a program: the values of all replicas, on each."""
        for variable, kept in self.pairs:
            kept.assign(collectives.all_gather(variable, self.replicas))


def program_of(
    model: Any, state: ModelState, mode: str, feed: Feed
) -> Program | PipelinedProgram:
    """The program of a mode, built at its first call since an option has changed.

    That of a pipelined model is bound to its queue, and to the steps of an execution.
    """
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


def _new_program(model: Any, state: ModelState, mode: str) -> Program:
    keeps_all = mode == "predict" or state.asynchronous
    outfeed = IPUOutfeedQueue(
        IPUOutfeedMode.ALL if keeps_all else IPUOutfeedMode.LAST,
        device_ordinal=state.strategy.device_ordinal,
        **state.outfeed,
    )
    metrics = ReplicaMetrics(state.replicas())
    if mode != "predict":
        metrics.prepare(state.kit.metric_variables(model))
    enqueue = _enqueue_reduced(outfeed, state, mode)
    if mode == "fit" and (state.accumulation or 1) > 1:
        body = _accumulating(model, state, enqueue)
    else:
        body = _stepping(state.kit.step(model, mode), enqueue)

    def program(steps: Any, iterator: Any) -> None:
        metrics.restore()
        body(steps, iterator)
        metrics.keep()

    return Program(_compiled(program, program_name(model, mode)), outfeed, metrics)


def program_name(model: Any, mode: str) -> str:
    """By which the log, reports and the cache know a program."""
    return re.sub(r"\W", "_", f"{model.name}_{mode}")


def _compiled(function: Callable[..., Any], name: str) -> Any:
    """The tf.function, under a name."""
    import tensorflow as tf

    function.__name__ = name
    return tf.function(function, jit_compile=True, autograph=False)


def _enqueue_reduced(
    outfeed: IPUOutfeedQueue, state: ModelState, mode: str
) -> Callable[[Any], None]:
    """What enqueues the results of a step, after the replicas' reduction."""
    import tensorflow as tf

    method, replicas = state.metric_reduction, state.replicas()
    kinds = ReplicatedMetricReductionMethod
    # The predictions of all replicas are a list in any case.
    as_they_are = replicas == 1 or (mode == "predict" and method is kinds.LIST)

    def enqueue(results: Any) -> None:
        if not as_they_are and method is not kinds.NONE:
            results = tf.nest.map_structure(
                lambda value: reduce_on_device(method, value, replicas), results
            )
        outfeed.enqueue(results)

    return enqueue


def _stepping(
    step: Callable[[Any], Any], enqueue: Callable[[Any], None]
) -> Callable[..., None]:
    """A loop of steps."""
    import tensorflow as tf

    def run(steps: Any, iterator: Any) -> None:
        def body(i: Any) -> Any:
            enqueue(step(next(iterator)))
            return i + 1

        tf.while_loop(lambda i: i < steps, body, [0], parallel_iterations=1)

    return run


def _accumulating(
    model: Any, state: ModelState, enqueue: Callable[[Any], None]
) -> Callable[..., None]:
    """A loop of weight updates around one of mini-batches, which carries the sums.

    An execution holds whole updates, so that no sum outlives it: none is a variable.
    """
    import tensorflow as tf

    count = state.accumulation or 1
    weights = list(model.trainable_variables)
    forward = state.kit.forward(model, weights)
    optimizer = model.optimizer
    # Ours distinguish gradients of a mini-batch from those of an update.
    map_each = getattr(optimizer, "map_each", None)
    apply = getattr(optimizer, "apply_accumulated", optimizer.apply_gradients)
    unused: set[int] = set()  # weights that the loss does not depend on

    def run(steps: Any, iterator: Any) -> None:
        def add(j: Any, *sums: Any) -> Any:
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

        def update(i: Any) -> Any:
            zeros = [
                tf.zeros(each.shape, _dtype_of_sum(state, each)) for each in weights
            ]
            _, *sums = tf.while_loop(
                lambda j, *_: j < count, add, [0, *zeros], parallel_iterations=1
            )
            if state.reduction is GradientAccumulationReductionMethod.MEAN:
                sums = [each / tf.cast(count, each.dtype) for each in sums]
            apply(
                (tf.cast(gradient, weight.dtype), weight)
                for i, (gradient, weight) in enumerate(zip(sums, weights, strict=True))
                if i not in unused
            )
            return i + 1

        updates = steps // count
        tf.while_loop(lambda i: i < updates, update, [0], parallel_iterations=1)

    return run


def _dtype_of_sum(state: ModelState, weight: Any) -> Any:
    return dtype_of(state.accumulation_dtype, weight, weight.dtype, "dtype", "variable")


def _accumulate(
    method: GradientAccumulationReductionMethod, total: Any, gradient: Any, j: Any
) -> Any:
    """The sum, or the running mean, with the gradient of mini-batch j."""
    import tensorflow as tf

    gradient = tf.cast(tf.convert_to_tensor(gradient), total.dtype)
    if method is GradientAccumulationReductionMethod.RUNNING_MEAN:
        return total + (gradient - total) / tf.cast(j + 1, total.dtype)
    return total + gradient
