"""The schedules of a pipeline: when each stage processes which mini-batch.

A pipeline has S positions: its F forward stages, and in training as many backward stages,
F-1 ... 0. Position k of mini-batch i is in time step start(i) + k. L mini-batches start in
each block of S steps, at the block's offsets; the schedules differ in L:

    Grouped      L = S   one starts in each step, and a device may have several positions
                         in one step: all of its forward and backward stages
    Interleaved  L = the number of rotations of the list of devices such that no device
                 has two positions in a step: F
    Sequential   L = 1   one after the other

    Grouped, two stages, training:            Interleaved, the same:

    step  0  1  2  3  4  5                    step  0  1  2  3  4  5
    F0    0  1  2  3                          IPU 0 F0 -  F0 B0 -  B0
    F1       0  1  2  3                       IPU 1 -  F1 B1 F1 B1 -
    B1          0  1  2  3
    B0             0  1  2  3

The schedule does not change results. It changes the time of an execution and the memory:
a forward stage's activations are kept until its backward stage.

This module uses plain Python only, no tensors.

Source: the schedules of Graphcore's TensorFlow, and their technical note on model
parallelism.
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass
from functools import cached_property


class PipelineSchedule(enum.IntEnum):
    """The order in which the stages of a pipeline run.

    Grouped: all forward stages together, all backward stages together. The default.
    Interleaved: forward and backward alternate, so that fewer activations are kept.
    Sequential: one stage after the other, as a sharded model.
    """

    Grouped = 0
    Interleaved = 1
    Sequential = 2

    # Of an IntEnum Python 3.11 gives the number, and programs split this at the dot.
    __str__ = enum.Enum.__str__


@dataclass(frozen=True)
class Position:
    """A stage in one direction, on one IPU.

    Attributes:
        index: k, its number in the list above; concurrent stages have the same.
        stage: The forward stage's number.
        branch: Its number among concurrent stages.
        device: Its IPU.
        backward: Whether it is the backward stage.
    """

    index: int
    stage: int
    branch: int
    device: int
    backward: bool = False

    @property
    def label(self) -> str:
        """A short name: "F0", or "B1.1" for the second of concurrent stages."""
        branch = f".{self.branch}" if self.branch else ""
        return f"{'B' if self.backward else 'F'}{self.stage}{branch}"


@dataclass(frozen=True)
class Schedule:
    """The schedule of one pipeline.

    Attributes:
        kind: Its kind.
        devices: The IPUs of each forward stage: several for concurrent stages.
        training: Whether there are backward stages.
    """

    kind: PipelineSchedule
    devices: tuple[tuple[int, ...], ...]
    training: bool

    @property
    def forward_stages(self) -> int:
        """F, the number of forward stages."""
        return len(self.devices)

    @property
    def length(self) -> int:
        """S, the number of positions, and of steps of a block."""
        return self.forward_stages * (2 if self.training else 1)

    @cached_property
    def positions(self) -> tuple[Position, ...]:
        """All positions, by index."""
        found = [
            Position(stage, stage, branch, device)
            for stage, devices in enumerate(self.devices)
            for branch, device in enumerate(devices)
        ]
        if self.training:
            found += [
                Position(self.length - 1 - stage, stage, branch, device, True)
                for stage in reversed(range(self.forward_stages))
                for branch, device in enumerate(self.devices[stage])
            ]
        return tuple(found)

    @cached_property
    def offsets(self) -> tuple[int, ...]:
        """The L steps of a block in which mini-batches start."""
        if self.kind is PipelineSchedule.Sequential:
            return (0,)
        if self.kind is PipelineSchedule.Grouped:
            return tuple(range(self.length))
        used = list(self.devices)
        if self.training:
            used += reversed(self.devices)
        return rotations(used)

    @property
    def overlap(self) -> int:
        """L, the mini-batches that start in a block."""
        return len(self.offsets)

    @cached_property
    def stride(self) -> int:
        """The steps from the start of a mini-batch to that of the next.

        If they are not constant, which few device mappings cause, mini-batches do not
        overlap.
        """
        stride = self.length // self.overlap
        even = tuple(range(0, stride * self.overlap, stride))
        return stride if even == self.offsets else self.length

    @property
    def one_at_a_time(self) -> bool:
        """Whether a mini-batch starts when the one before it has left."""
        return self.stride == self.length

    def start(self, mini_batch: int) -> int:
        """Returns the step in which a mini-batch enters the pipeline."""
        return mini_batch * self.stride

    def steps(self, count: int) -> list[list[tuple[Position, int]]]:
        """Returns the positions of each step, with their mini-batches.

        Args:
            count: Mini-batches.
        """
        table: list[list[tuple[Position, int]]] = [
            [] for _ in range(self.start(count - 1) + self.length)
        ]
        for mini_batch in range(count):
            for position in self.positions:
                step = self.start(mini_batch) + position.index
                table[step].append((position, mini_batch))
        for row in table:
            row.sort(key=lambda each: (each[0].index, each[0].branch))
        return table

    def lag(self, position: Position) -> int:
        """Returns how many mini-batches a position lags behind the one that starts."""
        return position.index // self.stride

    def phase(self, position: Position) -> int:
        """Returns the step of a position between two starts of mini-batches."""
        return position.index % self.stride

    def ideal_utilisation(self, count: int) -> dict[int, float]:
        """Returns the fraction of an execution in which each IPU is at best busy.

        It assumes that all stages take the same time and everything else takes none, so
        that an IPU waits only for its inputs. With F stages on as many IPUs it is
        N / (N + F - 1) for Grouped and Interleaved (which in inference, where S = F, is
        N / (N + S - 1)), and 1 / F for Sequential.

        Args:
            count: N, the mini-batches.
        """
        free: dict[int, int] = {}
        busy: dict[int, int] = {}
        # The latest end of the branches, by index and mini-batch.
        ends: dict[tuple[int, int], int] = {}
        for step in self.steps(count):
            for position, mini_batch in step:
                device, index = position.device, position.index
                before = ends.get((index - 1, mini_batch), 0)
                if index == 0 and self.one_at_a_time and mini_batch > 0:
                    before = ends[self.length - 1, mini_batch - 1]
                end = max(before, free.get(device, 0)) + 1
                free[device] = end
                busy[device] = busy.get(device, 0) + 1
                ends[index, mini_batch] = max(end, ends.get((index, mini_batch), 0))
        return {device: busy[device] / max(free.values()) for device in sorted(busy)}

    def text(self, count: int | None) -> str:
        """Describes the schedule in a line, for a trace; `read` parses it.

        Args:
            count: Mini-batches; None, written as N, if a tensor has the number.
        """
        devices = ["+".join(map(str, each)) for each in self.devices]
        return (
            f"{self.kind.name} {'training' if self.training else 'inference'}, "
            f"{UNKNOWN if count is None else count} mini-batches, "
            f"stages on IPUs {' '.join(devices)}"
        )


# Stands for a number of mini-batches that is known only at run time.
UNKNOWN = "N"
TEXT = re.compile(
    r"(\w+) (training|inference), (\d+) mini-batches, stages on IPUs ([\d+ ]+)"
)


def read(text: str) -> tuple[Schedule, int] | None:
    """Parses `Schedule.text`; returns the schedule and the mini-batches, or None."""
    found = TEXT.fullmatch(text)
    if found is None:
        return None
    devices = tuple(
        tuple(int(device) for device in stage.split("+")) for stage in found[4].split()
    )
    kind = PipelineSchedule[found[1]]
    return Schedule(kind, devices, found[2] == "training"), int(found[3])


def rotations(devices: list[tuple[int, ...]]) -> tuple[int, ...]:
    """Returns offsets by which a list of devices can be rotated without conflicts.

    Args:
        devices: The devices of each position.

    Returns:
        The offsets, the first of which is 0; no two of them use a device in one step.
    """
    length = len(devices)

    def conflict(one: int, other: int) -> bool:
        return any(
            set(devices[(step - one) % length]) & set(devices[(step - other) % length])
            for step in range(length)
        )

    found: list[int] = [0]
    for offset in range(1, length):
        if not any(conflict(offset, other) for other in found):
            found.append(offset)
    return tuple(found)


NAMES_OF_THE_COUNT = (
    "This number might be called `gradient_accumulation_count`, "
    "`gradient_accumulation_steps_per_replica` or `steps_per_execution` depending on the "
    "API used."
)


def possible_counts(schedule: Schedule, io_tiles: bool = False) -> tuple[int, int]:
    """Returns the divisor of the possible numbers of mini-batches, and the least one.

    Args:
        schedule: The schedule.
        io_tiles: Whether some tiles are reserved for data transfer: transfers then have
            their own steps in a grouped schedule, and the count need not be a multiple.
            Default: False.
    """
    if io_tiles and schedule.kind is PipelineSchedule.Grouped:
        return 1, schedule.overlap + 2
    return schedule.overlap, schedule.overlap


def refusal(schedule: Schedule, count: int, io_tiles: bool = False) -> str:
    """Returns why `count` mini-batches cannot be scheduled; "" if they can.

    Args:
        schedule: The schedule.
        count: Mini-batches of one execution.
        io_tiles: See `possible_counts`. Default: False.
    """
    multiple, least = possible_counts(schedule, io_tiles)
    if count < least:
        rule = f"at least {least}"
    elif count % multiple:
        rule = f"a multiple of {multiple}"
    else:
        return ""
    return (
        f"The number of iterations of the pipeline must be {rule}, but it is {count}. "
        f"{NAMES_OF_THE_COUNT}"
    )
