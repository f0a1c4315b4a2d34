"""The enumerations that a configuration is made of."""

from __future__ import annotations

from enum import Enum


class SelectionOrder(Enum):
    """The order in which the IPUs of a device are given to shards and stages.

    `AUTO` chooses: `SNAKE` for a pipeline with the default mapping, else `ZIGZAG`.
    `ZIGZAG` follows the numbers of the IPUs. `SNAKE` makes neighbours of consecutive
    shards. `HOOF` goes up the even IPUs and down the odd ones, so that the first shard
    and the last are neighbours.
    """

    AUTO = 0
    ZIGZAG = 1
    SNAKE = 2
    HOOF = 3


class DeviceConnectionType(Enum):
    """When the system attaches to the IPUs.

    `ALWAYS`: when it is configured. `ON_DEMAND`: when a program first runs.
    `PRE_COMPILE`: never; programs are compiled and saved, and give zeros. `NEVER`:
    never; programs are compiled, and running one is an error.
    """

    ALWAYS = 0
    ON_DEMAND = 1
    PRE_COMPILE = 2
    NEVER = 3


class ExecutionProfileType(Enum):
    """How finely an execution is profiled, in the older function style."""

    NO_PROFILE = 0
    DEVICE_PROFILE = 1
    IPU_PROFILE = 2
    TILE_PROFILE = 3


class SchedulingAlgorithm(Enum):
    """How the compiler orders instructions. `CHOOSE_BEST` tries them all."""

    CHOOSE_BEST = 0
    CLUSTERING = 1
    POST_ORDER = 2
    LOOK_AHEAD = 3
    SHORTEST_PATH = 4


class MergeRemoteBuffersBehaviour(Enum):
    """Whether remote buffers of one shape become one: never, always, or if it pays."""

    NO_MERGING = 0
    MERGE = 1
    IF_BENEFICIAL = 2


class StochasticRoundingBehaviour(Enum):
    """Where results are rounded stochastically.

    `OFF`: nowhere. `ON`: everywhere. `REPLICA_IDENTICAL_ONLY`: where every replica
    computes the same.
    """

    OFF = 0
    ON = 1
    REPLICA_IDENTICAL_ONLY = 2

    @classmethod
    def from_bool(cls, value: bool) -> StochasticRoundingBehaviour:
        """`ON` or `OFF`, for programs of the time when it was a bool."""
        return cls.ON if value else cls.OFF
