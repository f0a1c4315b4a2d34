"""The plan of a pipeline: the ops of each position, and the rings between IPUs."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field

from ipufeed.parallel.pipeline.partition import Part
from ipufeed.parallel.pipeline.schedules import Position, Schedule
from ipufeed.parallel.pipeline.traced import Traced
from ipufeed.tf_types import DType, Tensor


@dataclass(frozen=True)
class Ring:
    """A queue of tensors from one IPU to another.

    Attributes:
        number: The number of the ring.
        source: The position that sends.
        target: The position that receives.
        tensors: The sent tensors of the traced graph; none if it only orders.
        capacity: The mini-batches that it can hold.
        full: Empty packets that it contains at the start.
    """

    number: int
    source: Position
    target: Position
    tensors: list[Tensor]
    capacity: int
    full: int = 0


@dataclass(frozen=True)
class Accumulation:
    """How a tensor is accumulated over mini-batches.

    Attributes:
        dtype: The dtype of the sum.
        update: Returns the new sum from the old one, the value and the mini-batch's number.
    """

    dtype: DType
    update: Callable[[Tensor, Tensor, Tensor], Tensor]


@dataclass
class Plan:
    """The description from which the IPUs' programs are built.

    Attributes:
        traced: The stages.
        schedule: Their order.
        count: Mini-batches of an execution: an int, or an int32 scalar.
        parts: The ops of each position.
        accumulations: The accumulation of each of `traced.results`.
        rings: Between IPUs.
    """

    traced: Traced
    schedule: Schedule
    count: int | Tensor
    parts: list[Part]
    accumulations: list[Accumulation]
    rings: list[Ring] = field(default_factory=list)

    def __post_init__(self) -> None:
        for part in self.parts:
            for source, tensors in self._awaited(part).items():
                if source.device != part.position.device:
                    iterations = self.iterations_between(source, part.position)
                    self._add_ring(source, part.position, tensors, iterations + 2)
        if not self.schedule.one_at_a_time:
            return
        # A mini-batch starts when the one before it has left the pipeline.
        last = self.at_index(self.schedule.length - 1)
        for source, target in itertools.product(last, self.at_index(0)):
            if source.device != target.device:
                self._add_ring(source, target, [], 2, full=1)

    def _awaited(self, part: Part) -> dict[Position, list[Tensor]]:
        """Returns the tensors that a position receives; none from one that only precedes.

        Each position follows the one before it, with or without data: the gradient of a
        linear stage depends on no result of later stages, and would run before them.
        """
        before = self.at_index(part.position.index - 1)
        return {**{each: [] for each in before}, **part.incoming}

    def at_index(self, index: int) -> list[Position]:
        """Returns the positions of an index: several for concurrent stages."""
        return [each for each in self.schedule.positions if each.index == index]

    def _add_ring(
        self,
        source: Position,
        target: Position,
        tensors: list[Tensor],
        capacity: int,
        full: int = 0,
    ) -> None:
        number = len(self.rings)
        self.rings.append(Ring(number, source, target, tensors, capacity, full))

    def iterations_between(self, source: Position, target: Position) -> int:
        """Returns the iterations between a mini-batch's two positions."""
        return self.schedule.lag(target) - self.schedule.lag(source)

    def ipus(self) -> list[int]:
        """Returns the IPUs that have positions."""
        return sorted({part.position.device for part in self.parts})

    def parts_of(self, ipu: int) -> list[Part]:
        """Returns the positions of an IPU in the order of an iteration."""
        return sorted(
            (part for part in self.parts if part.position.device == ipu),
            key=lambda part: (
                self.schedule.phase(part.position),
                part.position.index,
                part.position.branch,
            ),
        )
