"""The functions of a model's stages, as pipelining_ops.pipeline takes them.

Between two stages go the values that later ones use, their masks, the losses that the
layers so far have added, and the targets. All of it is flat.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import keras
import tensorflow as tf

from ipufeed.keras.pipeline import calls as layer_calls
from ipufeed.keras.pipeline.calls import Call, Graph

Finish = Callable[[Any, list[Any], Any], Any]


@dataclass
class Stages:
    """Builds the stage functions of one program.

    Attributes:
        graph: The model, whose calls have stages.
        number: Of stages.
        element_spec: Of an element of the dataset.
        inputs_of: Gives the flat inputs of an element.
        training: Whether layers are called so.
        finish: Called in the last stage with the outputs, the flat element but for its
            inputs, and the sum of the layers' losses; gives what the stage returns.
    """

    graph: Graph
    number: int
    element_spec: Any
    inputs_of: Callable[[Any], list[Any]]
    training: bool
    finish: Finish
    _masked: dict[int, list[int]] = field(default_factory=dict)
    _counted: set[int] = field(default_factory=set)

    def functions(self) -> list[Callable[..., Any]]:
        """One for each stage; they are traced in their order."""
        return [self._function(stage) for stage in range(self.number)]

    def _function(self, stage: int) -> Callable[..., Any]:
        mine = [each for each in self.graph.flat() if each.stage == stage]
        taken, left = self._live(stage), self._live(stage + 1)

        def run(*arguments: Any, **keywords: Any) -> Any:
            if stage == 0:
                element, values = self._first(arguments, keywords)
                losses = tf.zeros([], tf.float32)
            else:
                values, losses, element = self._arrived(stage, taken, list(arguments))
            for call in mine:
                layer_calls.run(call, values, self.training)
            losses = losses + self._losses(mine)
            if stage == self.number - 1:
                outputs = [values[slot] for slot in self.graph.outputs]
                return self.finish(self._packed(outputs), element, losses)
            return self._leaving(stage, left, values, losses, element)

        run.__name__ = f"stage_{stage}"
        return run

    def _first(self, arguments: Any, keywords: Any) -> tuple[list[Any], dict[int, Any]]:
        flat = [*arguments, *keywords.values()] if keywords else list(arguments)
        element = tf.nest.pack_sequence_as(self.element_spec, tf.nest.flatten(flat))
        inputs = self.inputs_of(element)
        return tf.nest.flatten(element), dict(
            zip(self.graph.inputs, inputs, strict=True)
        )

    def _live(self, stage: int) -> list[int]:
        """The slots that this stage or a later one takes, and an earlier one made."""
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
        values: dict[int, Any],
        losses: Any,
        element: list[Any],
    ) -> list[Any]:
        masks = {slot: getattr(values[slot], "_keras_mask", None) for slot in left}
        self._masked[stage + 1] = [slot for slot in left if masks[slot] is not None]
        return [
            *(values[slot] for slot in left),
            *(masks[slot] for slot in self._masked[stage + 1]),
            losses,
            *element,
        ]

    def _arrived(
        self, stage: int, taken: list[int], arguments: list[Any]
    ) -> tuple[dict[int, Any], Any, list[Any]]:
        values = dict(zip(taken, arguments, strict=False))
        masked = self._masked[stage]
        rest = arguments[len(taken) :]
        for slot, mask in zip(masked, rest, strict=False):
            values[slot]._keras_mask = mask
        losses, *element = rest[len(masked) :]
        return values, losses, element

    def _losses(self, mine: list[Call]) -> Any:
        """What regularizers and add_loss of these layers come to; of each layer once."""
        total = tf.zeros([], tf.float32)
        for call in mine:
            if call.is_layer and id(call.operation) not in self._counted:
                self._counted.add(id(call.operation))
                for loss in call.operation.losses:
                    total = total + tf.reduce_sum(tf.cast(loss, tf.float32))
        return total

    def _packed(self, outputs: list[Any]) -> Any:
        if self.graph.structure is None:
            return outputs[0]
        return keras.tree.pack_sequence_as(self.graph.structure, outputs)
