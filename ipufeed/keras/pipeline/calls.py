"""A model as a list of layer calls, in the order in which they are executed.

The values between calls have numbers (slots). A nested model is a call with calls inside;
operations that are not layers belong to the stage of their inputs. keras3_calls and
legacy_calls take models apart and execute calls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from ipufeed.tf_types import KerasLayer, Nest, Tensor

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
