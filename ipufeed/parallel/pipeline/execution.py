"""Builds one execution of a pipeline: the op that runs its IPUs, and the weight update.

stages.trace()       the stages, and their gradients, in one graph
partition.split()    which op belongs to which position
launch()             one op that runs the programs of all IPUs
weight_update.put()  the optimizer's update with the accumulated gradients
"""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf
from tensorflow.python.ops import control_flow_util_v2

from ipufeed import _native
from ipufeed.device.system import system
from ipufeed.parallel.optimizers.gradient_capture import by_tag
from ipufeed.parallel.pipeline import (
    checks,
    partition,
    stages,
    traced,
    weight_update,
)
from ipufeed.parallel.pipeline.ipu_program import IPUProgram
from ipufeed.parallel.pipeline.plan import Accumulation, Plan
from ipufeed.parallel.pipeline.schedules import Position, Schedule
from ipufeed.parallel.pipeline.sums import Sums, last_value
from ipufeed.queues.chain import put_token, take_token
from ipufeed.queues.infeed import IPUInfeedQueue
from ipufeed.queues.outfeed import IPUOutfeedQueue
from ipufeed.tf_types import DType, Nest, NestFunction, Operation, Shape, Tensor


class Builder:
    """Builds one execution of a pipeline; its arguments are those of `pipeline`."""

    def __init__(
        self,
        *,
        schedule: Schedule,
        sums: Sums,
        infeed_queue: IPUInfeedQueue | None,
        outfeed_queue: IPUOutfeedQueue | None,
        outfeed_loss: bool,
        accumulate_outfeed: bool,
        outfeed_mask: Sequence[bool] | None,
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
        functions: checks.Stages,
        inputs: list[Tensor],
        optimizer_function: NestFunction | None,
    ) -> Operation:
        """Builds one execution; returns the operation."""
        with stages.accumulating(self.sums.count):
            model = stages.trace(
                functions,
                self.schedule,
                inputs,
                self.infeed_queue,
                optimizer_function,
                self.leaving,
            )
        model.traced.recomputes = _recomputes()
        leaving = self.leaving(model)
        left = [] if leaving is None else tf.nest.flatten(leaving)
        tensors: list[Tensor] = []
        accumulations: list[Accumulation] = []
        update = None
        captured: dict[tuple[str, int], tuple[Tensor, Accumulation]] = {}
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
            self._enqueue(model, leaving)
        if queue is not None and not self.sums.accumulates_captured:
            with model.traced.graph.as_default():
                queue.enqueue(by_tag(model.captured))
        model.traced.results = tensors
        for tensor in tensors:
            _check_shape(tensor)
        parts = partition.split(model.traced, self.schedule.positions)
        plan = Plan(model.traced, self.schedule, self.sums.count, parts, accumulations)
        results = launch(plan, self.prefix)
        operations = [take_token().op]
        if left and self.accumulate_outfeed:
            packed = tf.nest.pack_sequence_as(leaving, results[used:])
            assert self.outfeed_queue is not None  # checked with the outputs
            operations.append(self.outfeed_queue.enqueue(packed))
        if update is not None:
            if queue is not None and self.sums.accumulates_captured:
                first = len(update.gradients) - len(captured)
                found = dict(zip(captured, results[first:], strict=False))
                operations.append(queue.enqueue(by_tag(found)))
            operations.append(
                weight_update.put(update, model, results[:used], self.offload_state)
            )
        return tf.group(*(each for each in operations if each is not None))

    @property
    def last(self) -> Position:
        """The last forward position."""
        return [each for each in self.schedule.positions if not each.backward][-1]

    def leaving(self, model: traced.Model) -> Nest:
        """Returns the nest of traced tensors that is enqueued, or None.

        Raises:
            ValueError: Outputs are to be enqueued without a queue.
        """
        if self.outfeed_loss:
            assert model.optimizer is not None
            return self._with_queue(model, model.optimizer.loss)
        if self.outfeed_mask is None:
            listed = self.accumulate_outfeed or model.optimizer is not None
            structure = _outfeed_structure(model.structure, listed)
            return self._with_queue(model, structure) if model.outputs else None
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
        if left:
            return self._with_queue(model, left)
        if self.outfeed_queue is not None:
            self.outfeed_queue._why_empty = (
                " A pipeline excludes all outputs of its last stage from it, with "
                f"outfeed_mask={mask}: give False for each output to enqueue."
            )
        return None

    def _with_queue(self, model: traced.Model, structure: Nest) -> Nest:
        """Returns the structure; raises ValueError without an outfeed queue."""
        if self.outfeed_queue is not None:
            return structure
        names = ", ".join(tensor.name for tensor in model.outputs)
        raise ValueError(
            f"The last computational stage has tensor outputs: {names}, but no "
            "outfeed_queue has been provided."
        )

    def _enqueue(self, model: traced.Model, structure: Nest) -> None:
        """Builds the last stage's enqueue of each mini-batch's values."""
        assert self.outfeed_queue is not None  # checked with the outputs
        with model.traced.graph.as_default(), stages.owned(model.traced, self.last):
            self.outfeed_queue.enqueue(structure)


def _outfeed_structure(outputs: Nest, listed: bool) -> Nest:
    """Returns the nest to enqueue for the last stage's outputs, as Graphcore's pipeline.

    Args:
        outputs: What the stage returned.
        listed: Whether a single output becomes a list: in training, and if outputs are
            accumulated.
    """
    if isinstance(outputs, (list, tuple)):
        return list(outputs)
    return [outputs] if listed else outputs


def _check_shape(tensor: Tensor) -> None:
    """Raises ValueError unless the shape is known, which the buffer needs."""
    if not tensor.shape.is_fully_defined():
        raise ValueError(
            f"What a pipeline accumulates must have a fully defined shape: {tensor.name} "
            f"has {tensor.shape}."
        )


def _recomputes() -> bool:
    """Returns `allow_recompute` of the configuration."""
    return bool(system.configured().allow_recompute)


def launch(plan: Plan, prefix: str) -> list[Tensor]:
    """Builds the op that runs the IPUs; returns the accumulated tensors.

    Args:
        plan: The plan of the pipeline.
        prefix: The prefix of the names of the IPUs' programs.
    """
    programs, ipus, operands, counts = [], plan.ipus(), [], []
    arguments: dict[int, Tensor] = {}
    numbers: list[
        int
    ] = []  # of the accumulated tensors, in the order of the programs' results
    shapes: list[Shape] = []
    dtypes: list[DType] = []
    for ipu in ipus:
        program = IPUProgram(plan, ipu)
        graph = stages.new_graph(
            control_flow_util_v2.unique_fn_name(prefix, f"_ipu{ipu}")
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
        ipus=ipus,
        devices=checks.devices_needed(plan.schedule.devices),
        operands=operands,
        operand_counts=counts,
        ring_stages=[each.label for each in ends],
        ring_ipus=[each.device for each in ends],
        ring_capacities=[ring.capacity for ring in plan.rings],
        ring_credits=[ring.full for ring in plan.rings],
        schedule=plan.schedule.text(tf.get_static_value(plan.count)),
    )
    put_token(token)
    found = dict(zip(numbers, values, strict=True))
    return [found[number] for number in range(len(plan.traced.results))]
