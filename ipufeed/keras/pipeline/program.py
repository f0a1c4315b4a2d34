"""Builds the functions of a model's stages, for pipelining_ops.pipeline.

A stage passes on a flat list: the values that later stages use, their masks, the sum of the
layers' losses so far, and the targets.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import tensorflow as tf

from ipufeed.keras.pipeline.calls import Call, Graph
from ipufeed.tf_types import FuncGraph, Nest, NestFunction, Spec, Tensor

Finish = Callable[[Nest, list[Tensor], Tensor], Nest]


@dataclass
class Stages:
    """Builds the stage functions of one program.

    Attributes:
        graph: The graph of the model, whose calls have stages.
        number: The number of stages.
        element_spec: The spec of an element of the dataset.
        inputs_of: Returns the flat inputs of an element.
        training: The argument of the layers.
        check: Called with the graph of each stage and its results, when it is traced.
        finish: Called in the last stage with the outputs, the flat element without its
            inputs, and the sum of the layers' losses; returns the stage's results.
    """

    graph: Graph
    number: int
    element_spec: Spec
    inputs_of: Callable[[Nest], list[Tensor]]
    training: bool
    check: Callable[[FuncGraph, Nest], None]
    finish: Finish
    _masked: dict[int, list[int]] = field(default_factory=dict)
    _counted: set[int] = field(default_factory=set)

    def functions(self) -> list[NestFunction]:
        """Returns a function for each stage, which must be traced in this order."""
        return [self._function(stage) for stage in range(self.number)]

    def _function(self, stage: int) -> NestFunction:
        mine = [each for each in self.graph.flat() if each.stage == stage]
        taken, left = self._live(stage), self._live(stage + 1)

        def run(*arguments: Tensor, **keywords: Tensor) -> Nest:
            if stage == 0:
                element, values = self._first(arguments, keywords)
                losses = tf.zeros([], tf.float32)
            else:
                values, losses, element = self._arrived(stage, taken, list(arguments))
            with self.graph.running(mine, self.training):
                for call in mine:
                    self.graph.run(call, values, self.training)
            losses = losses + self._losses(mine)
            if stage == self.number - 1:
                outputs = [values[slot] for slot in self.graph.outputs]
                results = self.finish(self.graph.pack(outputs), element, losses)
            else:
                results = self._leaving(stage, left, values, losses, element)
            self.check(tf.compat.v1.get_default_graph(), results)
            return results

        run.__name__ = f"stage_{stage}"
        return run

    def _first(
        self, arguments: tuple[Tensor, ...], keywords: dict[str, Tensor]
    ) -> tuple[list[Tensor], dict[int, Tensor]]:
        flat = [*arguments, *keywords.values()] if keywords else list(arguments)
        element = tf.nest.pack_sequence_as(self.element_spec, tf.nest.flatten(flat))
        inputs = self.inputs_of(element)
        return tf.nest.flatten(element), dict(
            zip(self.graph.inputs, inputs, strict=True)
        )

    def _live(self, stage: int) -> list[int]:
        """Returns the slots that cross into the stage: made before, used in it or later."""
        before = {
            slot
            for call in self.graph.flat()
            if call.stage is not None and call.stage < stage
            for slot in call.outputs
        } | set(self.graph.inputs)
        after = {
            slot
            for call in self.graph.flat()
            if call.stage is not None and call.stage >= stage
            for slot in call.inputs
        } | set(self.graph.outputs)
        return sorted(before & after)

    def _leaving(
        self,
        stage: int,
        left: list[int],
        values: dict[int, Tensor],
        losses: Tensor,
        element: list[Tensor],
    ) -> list[Tensor]:
        masks = {slot: getattr(values[slot], "_keras_mask", None) for slot in left}
        self._masked[stage + 1] = [slot for slot in left if masks[slot] is not None]
        return [
            *(values[slot] for slot in left),
            *(masks[slot] for slot in self._masked[stage + 1]),
            losses,
            *element,
        ]

    def _arrived(
        self, stage: int, taken: list[int], arguments: list[Tensor]
    ) -> tuple[dict[int, Tensor], Tensor, list[Tensor]]:
        values = dict(zip(taken, arguments, strict=False))
        masked = self._masked[stage]
        rest = arguments[len(taken) :]
        for slot, mask in zip(masked, rest, strict=False):
            values[slot]._keras_mask = mask
        losses, *element = rest[len(masked) :]
        return values, losses, element

    def _losses(self, mine: list[Call]) -> Tensor:
        """Sums the losses of add_loss and of regularizers, the latter once per layer."""
        total = tf.zeros([], tf.float32)
        here: set[int] = set()  # layers that the stage has called
        for call in mine:
            key = id(call.operation)
            if not call.is_layer or key in here:
                continue
            here.add(key)
            for loss in self.graph.losses(call.operation, key not in self._counted):
                total = total + tf.reduce_sum(tf.cast(loss, tf.float32))
            self._counted.add(key)
        return total
