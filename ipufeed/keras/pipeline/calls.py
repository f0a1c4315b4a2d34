"""A model as a list of layer calls, in the order in which they are executed.

The values between calls have numbers (slots). A nested model is a call with calls inside;
operations that are not layers belong to the stage of their inputs. CallFinder finds the
calls in the nodes in which a Keras records them, which keras3_calls and legacy_calls read;
these also execute calls.
"""

from __future__ import annotations

import abc
import itertools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from ipufeed.keras.pipeline.scope import stage_of
from ipufeed.tf_types import KerasLayer, KerasModel, Nest, Tensor

Logs = dict[str, Any]  # values of metrics, by name


@dataclass
class Call:
    """One call of a layer, an operation or a nested model.

    Attributes:
        operation: The called object.
        node_index: The number of the call among those of the operation.
        arguments: Keras's record of them; None: the single value of a Sequential.
        slots: The slot of each symbolic tensor in them, by id.
        inputs: The slots of its inputs.
        outputs: The slots of its outputs.
        scope: The stage of the scope that it was called in.
        is_layer: Whether a stage is assigned to it.
        inner: The calls of a nested model.
        inbound: The operations that made its inputs.
        stage: The stage that it is executed in.
        training: The value with which a nested model's call overrides `training`, or
            None.
    """

    operation: KerasLayer
    node_index: int
    arguments: Any
    slots: dict[int, int]
    inputs: list[int]
    outputs: list[int]
    scope: int | None
    is_layer: bool = True
    inner: list[Call] | None = None
    inbound: list[KerasLayer] = field(default_factory=list)
    stage: int | None = None
    training: bool | None = None


@dataclass
class Graph:
    """A model's calls.

    Attributes:
        calls: In the order of execution.
        inputs: The slots of its flat inputs.
        outputs: The slots of its flat outputs.
        pack: Packs a flat list to the model's outputs.
        running: Returns a context for the calls of a stage, from these and `training`.
        run: Executes a call with the values of its slots, and stores its outputs.
        losses: Returns the losses that the last call of a layer has added, and, by the
            second argument, those of its regularizers.
    """

    calls: list[Call]
    inputs: list[int]
    outputs: list[int]
    pack: Callable[[list[Tensor]], Nest]
    running: Callable[[list[Call], bool], AbstractContextManager[None]]
    run: Callable[[Call, dict[int, Tensor], bool], None]
    losses: Callable[[KerasLayer, bool], list[Tensor]]

    def flat(self) -> Iterator[Call]:
        """Yields all calls, with those of nested models in their place."""
        return flat(self.calls)


def flat(calls: list[Call]) -> Iterator[Call]:
    """Yields the calls, with those of nested models in their place."""
    for each in calls:
        if each.inner is None:
            yield each
        else:
            yield from flat(each.inner)


@dataclass(frozen=True)
class Node:
    """A call as it is recorded in a functional model.

    Attributes:
        record: Keras's node.
        operation: The called object.
        inputs: The symbolic tensors that it takes.
        outputs: The symbolic tensors that it returns.
        arguments: See Call.
        is_layer: See Call.
        training: The value of `training` that it was called with, or None.
    """

    record: Any
    operation: KerasLayer
    inputs: list[Tensor]
    outputs: list[Tensor]
    arguments: Any
    is_layer: bool = True
    training: bool | None = None


class CallFinder(abc.ABC):
    """Finds the calls of one model; each Keras has a subclass.

    Attributes:
        sequential: The class of models that are a chain of layers.
        functional: The class of models that have nodes.
    """

    sequential: Any
    functional: Any

    def __init__(self) -> None:
        self._numbers = itertools.count()
        self._makers: dict[int, KerasLayer] = {}  # the operation that made a slot

    @abc.abstractmethod
    def nodes(self, model: KerasModel) -> Iterator[Node]:
        """Yields the nodes of a functional model, in Keras's order."""

    def calls(self, model: KerasModel) -> tuple[list[Call], list[int], list[int]]:
        """Returns the calls of a model, and the slots of its inputs and its outputs."""
        count = 1 if isinstance(model, self.sequential) else len(model.inputs)
        inputs = [next(self._numbers) for _ in range(count)]
        calls, outputs = self._calls(model, inputs, None)
        return calls, inputs, outputs

    def _calls(
        self, model: KerasModel, inputs: list[int], training: bool | None
    ) -> tuple[list[Call], list[int]]:
        """Returns the calls of a model with these inputs, and its outputs' slots."""
        found = []
        if isinstance(model, self.sequential):
            for layer in model.layers:
                call = Call(layer, 0, None, {}, inputs, [], None, training=training)
                self._complete(call, 1, training)
                found.append(call)
                inputs = call.outputs
            return found, inputs
        slots = {id(x): slot for x, slot in zip(model.inputs, inputs, strict=True)}
        for node in self.nodes(model):
            call = Call(
                node.operation,
                node.operation._inbound_nodes.index(node.record),
                node.arguments,
                {id(each): slots[id(each)] for each in node.inputs},
                [slots[id(each)] for each in node.inputs],
                [],
                stage_of(node.record),
                node.is_layer,
                training=training,
            )
            own = node.training
            self._complete(call, len(node.outputs), training if own is None else own)
            slots |= {
                id(x): slot for x, slot in zip(node.outputs, call.outputs, strict=True)
            }
            found.append(call)
        return found, [slots[id(each)] for each in model.outputs]

    def _complete(self, call: Call, outputs: int, training: bool | None) -> None:
        """Sets a call's inbound operations and outputs, and the calls inside it."""
        makers = self._makers
        call.inbound = [makers[slot] for slot in call.inputs if slot in makers]
        if isinstance(call.operation, (self.sequential, self.functional)):
            call.inner, call.outputs = self._calls(
                call.operation, call.inputs, training
            )
        else:
            call.outputs = [next(self._numbers) for _ in range(outputs)]
        makers |= dict.fromkeys(call.outputs, call.operation)
