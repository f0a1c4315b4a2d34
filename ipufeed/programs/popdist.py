"""popdist: which of several processes this is, as programs ask when they begin.

Graphcore's launcher says it in the environment; here TF_CONFIG does, as for
`experimental.multi_replica_distribution`. Alone a program is one process of one.

Source: Graphcore's module of this name.
"""

from __future__ import annotations

import json
import os
from typing import Any

from ipufeed.device.system import system


def _cluster() -> tuple[int, int]:
    """Number of processes, and this one's, of TF_CONFIG; (1, 0) without it.

    Raises:
        ValueError: TF_CONFIG is not a JSON object of the form that TensorFlow describes.
    """
    text = os.environ.get("TF_CONFIG", "")
    if not text:
        return 1, 0
    try:
        described: Any = json.loads(text)
        workers = described["cluster"]["worker"]
        index = described["task"]["index"]
        if not isinstance(workers, list) or not 0 <= int(index) < len(workers):
            raise ValueError("its task is not one of its workers")
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(
            "TF_CONFIG must be a JSON object with `cluster`, a dict with the list "
            "`worker`, and `task`, a dict with `index`, the number of this process in "
            f"the list: {type(error).__name__}: {error}."
        ) from error
    return len(workers), int(index)


def isPopdistEnvSet() -> bool:  # noqa: N802 - Graphcore's name
    """Whether this is one of several processes: TF_CONFIG is set."""
    return bool(os.environ.get("TF_CONFIG"))


def getNumInstances() -> int:  # noqa: N802
    """How many processes there are; 1 without TF_CONFIG."""
    return _cluster()[0]


def getInstanceIndex() -> int:  # noqa: N802
    """The number of this process, from 0."""
    return _cluster()[1]


def getNumLocalReplicas() -> int:  # noqa: N802
    """Copies of a program in this process: IPUs of the first device, per replica."""
    ipus = system.require_usable(0).num_ipus
    return max(1, ipus // _ipus_per_replica)


def getNumTotalReplicas() -> int:  # noqa: N802
    """Copies of a program in all processes."""
    return getNumInstances() * getNumLocalReplicas()


def getReplicaIndexOffset() -> int:  # noqa: N802
    """The number of this process's first copy among all."""
    return getInstanceIndex() * getNumLocalReplicas()


def getNumIpusPerReplica() -> int:  # noqa: N802
    """IPUs of each copy, as given to `popdist.tensorflow.set_ipu_config`; else 1."""
    return _ipus_per_replica


def getDeviceId(ipus_per_replica: int | None = None) -> int:  # noqa: N802
    """The hardware ID that this process would attach to: its devices are its own.

    Args:
        ipus_per_replica: No effect: each process has IPUs of its own, from 0.
    """
    del ipus_per_replica
    return system.require_usable(0).hardware_id or 0


def init() -> None:
    """Does nothing: processes meet when they are configured."""


_ipus_per_replica = 1


def set_ipus_per_replica(number: int) -> None:
    """For popdist.tensorflow: how many IPUs each copy of a program has."""
    global _ipus_per_replica
    _ipus_per_replica = number


def cluster() -> tuple[int, int]:
    """Number of processes, and this one's."""
    return _cluster()
