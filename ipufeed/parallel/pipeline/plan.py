"""The plan of a pipeline: what each position does, and which rings join the IPUs."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ipufeed.parallel.pipeline.partition import Part
from ipufeed.parallel.pipeline.schedules import Position, Schedule
from ipufeed.parallel.pipeline.traced import Traced


@dataclass(frozen=True)
class Ring:
    """What crosses from one IPU to another.

    Attributes:
        number: Of the ring.
        source: The position that sends.
        target: The position that receives.
        tensors: Of the traced graph, for each mini-batch; none where only the order counts.
        capacity: Mini-batches that fit.
        full: Empty packets that are in it from the start.
    """

    number: int
    source: Position
    target: Position
    tensors: list[Any]
    capacity: int
    full: int = 0


@dataclass(frozen=True)
class Accumulation:
    """How a tensor is accumulated over mini-batches.

    Attributes:
        dtype: Of the sum.
        update: Gives the new sum of the old one, the value and the mini-batch's number.
    """

    dtype: Any
    update: Callable[[Any, Any, Any], Any]


@dataclass
class Plan:
    """All that the IPUs' programs are made of.

    Attributes:
        traced: The stages.
        schedule: Their order.
        count: Mini-batches of an execution: an int, or an int32 scalar.
        parts: Of each position, what it does.
        accumulations: Of each of `traced.results`.
        rings: Between IPUs.
    """

    traced: Traced
    schedule: Schedule
    count: Any
    parts: list[Part]
    accumulations: list[Accumulation]
    rings: list[Ring] = field(default_factory=list)

    def __post_init__(self) -> None:
        for part in self.parts:
            for source, tensors in self.awaited(part).items():
                if source.device != part.position.device:
                    iterations = self.iterations_between(source, part.position)
                    self.add_ring(source, part.position, tensors, iterations + 2)
        if not self.schedule.one_at_a_time:
            return
        # A mini-batch starts when the one before has left.
        last = self.at_index(self.schedule.length - 1)
        for source, target in itertools.product(last, self.at_index(0)):
            if source.device != target.device:
                self.add_ring(source, target, [], 2, full=1)

    def awaited(self, part: Part) -> dict[Position, list[Any]]:
        """What a position gets from others; nothing from one that it only comes after.

        Each comes after those before it, data or not: the gradient of a linear stage
        depends on nothing that later stages compute, and would be done before them.
        """
        before = self.at_index(part.position.index - 1)
        return {**{each: [] for each in before}, **part.incoming}

    def at_index(self, index: int) -> list[Position]:
        """The positions that share a place; several of concurrent stages."""
        return [each for each in self.schedule.positions if each.index == index]

    def add_ring(
        self,
        source: Position,
        target: Position,
        tensors: list[Any],
        capacity: int,
        full: int = 0,
    ) -> None:
        """Another one."""
        number = len(self.rings)
        self.rings.append(Ring(number, source, target, tensors, capacity, full))

    def iterations_between(self, source: Position, target: Position) -> int:
        """How many iterations a mini-batch is on its way."""
        return self.schedule.lag(target) - self.schedule.lag(source)

    def ipus(self) -> list[int]:
        """The IPUs that have something to do."""
        return sorted({part.position.device for part in self.parts})

    def parts_of(self, ipu: int) -> list[Part]:
        """What an IPU does in an iteration, in order."""
        return sorted(
            (part for part in self.parts if part.position.device == ipu),
            key=lambda part: (
                self.schedule.phase(part.position),
                part.position.index,
                part.position.branch,
            ),
        )
