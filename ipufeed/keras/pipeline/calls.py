"""A model as a list of layer calls, in the order in which they are executed.

The values between calls have numbers (slots). A nested model is a call with calls inside;
operations that are not layers belong to the stage of what they compute with.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import keras
from keras.src.backend.common.keras_tensor import KerasTensor
from keras.src.models.functional import Functional

from ipufeed.keras.pipeline.scope import stage_of


@dataclass
class Call:
    """One call of a layer, an operation or a nested model.

    Attributes:
        operation: What is called.
        node_index: Which of its calls this is.
        arguments: Keras's symbolic arguments; None: the one value of a Sequential.
        slots: The slot of each symbolic tensor in them, by id.
        inputs: The slots that it takes.
        outputs: The slots that it makes.
        scope: The stage of the scope that it was called in.
        inner: The calls of a nested model.
        inbound: The operations that made its inputs.
        stage: The stage that it is executed in.
    """

    operation: Any
    node_index: int
    arguments: Any
    slots: dict[int, int]
    inputs: list[int]
    outputs: list[int]
    scope: int | None
    inner: list[Call] | None = None
    inbound: list[Any] = field(default_factory=list)
    stage: int | None = None

    @property
    def is_layer(self) -> bool:
        """Whether it is of the kind that a stage is assigned to."""
        return isinstance(self.operation, keras.layers.Layer)


@dataclass
class Graph:
    """A model's calls.

    Attributes:
        calls: In the order of execution.
        inputs: The slots of its flat inputs.
        outputs: The slots of its flat outputs.
        structure: How the outputs are packed; None for one tensor.
    """

    calls: list[Call]
    inputs: list[int]
    outputs: list[int]
    structure: Any

    def flat(self) -> Iterator[Call]:
        """All calls, with those of nested models in their place."""
        return flat(self.calls)


def flat(calls: list[Call]) -> Iterator[Call]:
    """These calls, with those of nested models in their place."""
    for each in calls:
        if each.inner is None:
            yield each
        else:
            yield from flat(each.inner)


def graph_of(model: Any, example: Any) -> Graph:
    """Takes a model apart.

    Args:
        model: It has been built.
        example: Its inputs, as tensors; for a subclass, whose `call` is followed.

    Raises:
        ValueError: What `call` does with symbolic tensors cannot be followed.
    """
    numbers = itertools.count()
    whole = model
    if not isinstance(model, (keras.Sequential, Functional)):
        whole = _followed(model, example)
    count = 1 if isinstance(whole, keras.Sequential) else len(whole.inputs)
    inputs = [next(numbers) for _ in range(count)]
    calls, outputs = _calls(whole, inputs, numbers, {})
    if isinstance(whole, keras.Sequential):
        return Graph(calls, inputs, outputs, None)
    structure = whole._outputs_struct
    alone = isinstance(structure, KerasTensor) or (
        isinstance(structure, (list, tuple)) and len(structure) == 1
    )
    return Graph(calls, inputs, outputs, None if alone else structure)


def _followed(model: Any, example: Any) -> Any:
    """The calls that `call` of a subclass makes, as a keras.Function."""
    inputs = keras.tree.map_structure(
        lambda each: keras.KerasTensor(
            each.shape, keras.backend.standardize_dtype(each.dtype)
        ),
        example,
    )
    try:
        return keras.Function(inputs, model.call(inputs))
    except Exception as error:
        raise ValueError(
            f"The layers that `call` of the model {model.name} calls cannot be found, "
            "which a pipeline needs: it must consist of layers and of keras.ops, and take "
            f"one argument without a default. {type(error).__name__}: {error}"
        ) from error


def _calls(
    model: Any, inputs: list[int], numbers: Iterator[int], makers: dict[int, Any]
) -> tuple[list[Call], list[int]]:
    """The calls of a model with these inputs, and the slots of its outputs."""
    if isinstance(model, keras.Sequential):
        return _chain(model, inputs, numbers, makers)
    slots = {id(each): slot for each, slot in zip(model.inputs, inputs, strict=True)}
    found = []
    for node in _ordered(model):
        operation = node.operation
        taken = [slots[id(each)] for each in node.input_tensors]
        call = Call(
            operation,
            operation._inbound_nodes.index(node),
            node.arguments,
            {id(each): slots[id(each)] for each in node.input_tensors},
            taken,
            [],
            stage_of(node),
            inbound=[makers[slot] for slot in taken if slot in makers],
        )
        if isinstance(operation, (keras.Sequential, Functional)):
            call.inner, call.outputs = _calls(operation, taken, numbers, makers)
        else:
            call.outputs = [next(numbers) for _ in node.outputs]
        slots |= {
            id(x): slot for x, slot in zip(node.outputs, call.outputs, strict=True)
        }
        makers |= dict.fromkeys(call.outputs, operation)
        found.append(call)
    return found, [slots[id(each)] for each in model.outputs]


def _chain(
    model: Any, inputs: list[int], numbers: Iterator[int], makers: dict[int, Any]
) -> tuple[list[Call], list[int]]:
    found = []
    for layer in model.layers:
        call = Call(layer, 0, None, {}, inputs, [], None)
        call.inbound = [makers[slot] for slot in inputs if slot in makers]
        if isinstance(layer, (keras.Sequential, Functional)):
            call.inner, call.outputs = _calls(layer, inputs, numbers, makers)
        else:
            call.outputs = [next(numbers)]
        makers |= dict.fromkeys(call.outputs, layer)
        found.append(call)
        inputs = call.outputs
    return found, inputs


def _ordered(model: Any) -> Iterator[Any]:
    """The nodes of a functional model, as Keras executes them."""
    for depth in sorted(model._nodes_by_depth, reverse=True):
        for node in model._nodes_by_depth[depth]:
            if node.operation and not node.is_input:
                yield node


def run(call: Call, values: dict[int, Any], training: bool) -> None:
    """Calls the layer with the values of its slots, and keeps those that it makes."""
    if call.arguments is None:
        arguments, keywords = (values[call.inputs[0]],), {}
    else:
        tensors = {key: values[slot] for key, slot in call.slots.items()}
        arguments, keywords = call.arguments.fill_in(tensors)
    if getattr(call.operation, "_call_has_training_arg", False):
        keywords = {**keywords, "training": training}
    results = keras.tree.flatten(call.operation(*arguments, **keywords))
    values |= dict(zip(call.outputs, results, strict=True))
