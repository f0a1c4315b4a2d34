"""The enumerations of a configuration."""

from __future__ import annotations

from enum import Enum


class SelectionOrder(Enum):
    """The order in which a device's IPUs are assigned to shards and stages, on hardware.

    On a simulated IPU it is recorded, and moves none: all IPUs are equally near.

    `AUTO`: `SNAKE` for a pipeline with the default mapping, else `ZIGZAG`. `ZIGZAG`
    follows the numbers of the IPUs. `SNAKE` assigns neighbours to consecutive shards.
    `HOOF` ascends the even IPUs and descends the odd ones, so that the first shard and the
    last are neighbours.
    """

    AUTO = 0
    ZIGZAG = 1
    SNAKE = 2
    HOOF = 3


class DeviceConnectionType(Enum):
    """When the system attaches to the IPUs.

    `ALWAYS`: when it is configured. `ON_DEMAND`: when a program first runs.
    `PRE_COMPILE`: never; programs are compiled and saved, and return zeros. `NEVER`:
    never; programs are compiled, and running one is an error.
    """

    ALWAYS = 0
    ON_DEMAND = 1
    PRE_COMPILE = 2
    NEVER = 3


class ExecutionProfileType(Enum):
    """The detail of an execution's profile, in the older function style."""

    NO_PROFILE = 0
    DEVICE_PROFILE = 1
    IPU_PROFILE = 2
    TILE_PROFILE = 3


class SchedulingAlgorithm(Enum):
    """The compiler's scheduling algorithm. `CHOOSE_BEST` tries all of them."""

    CHOOSE_BEST = 0
    CLUSTERING = 1
    POST_ORDER = 2
    LOOK_AHEAD = 3
    SHORTEST_PATH = 4


class MergeRemoteBuffersBehaviour(Enum):
    """Whether remote buffers of the same shape are merged."""

    NO_MERGING = 0
    MERGE = 1
    IF_BENEFICIAL = 2


class StochasticRoundingBehaviour(Enum):
    """Which results are rounded stochastically.

    `OFF`: none. `ON`: all. `REPLICA_IDENTICAL_ONLY`: those that are identical on all
    replicas.
    """

    OFF = 0
    ON = 1
    REPLICA_IDENTICAL_ONLY = 2

    @classmethod
    def from_bool(cls, value: bool) -> StochasticRoundingBehaviour:
        """Returns `ON` or `OFF`, for older programs that set a bool."""
        return cls.ON if value else cls.OFF
