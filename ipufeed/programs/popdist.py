"""popdist: the number of processes and the index of this one.

Graphcore's launcher sets them in the environment; here they are those of TF_CONFIG, as for
`experimental.multi_replica_distribution`. Without it there is one process.

Source: Graphcore's module of this name.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from typing import Any

from ipufeed.checks import as_count, as_int, check_function
from ipufeed.device.system import system
from ipufeed.no_effect import no_effect, warn_once
from ipufeed.process_state import STATE

__all__ = [
    *("getDeviceId", "getInstanceIndex", "getNumInstances", "getNumIpusPerReplica"),
    *("getNumLocalReplicas", "getNumTotalReplicas", "getReplicaIndexOffset"),
    *("execute_on_instances", "init", "isPopdistEnvSet"),
]


def cluster() -> tuple[int, int]:
    """Returns the number of processes and this one's index; (1, 0) without TF_CONFIG.

    Without it, variables of Graphcore's launcher are named in a warning, once per process.

    Raises:
        ValueError: TF_CONFIG is not a JSON object of the form that TensorFlow describes.
    """
    text = _tf_config()
    if not text:
        return 1, 0
    try:
        described: Any = json.loads(text)
        workers, task = described["cluster"]["worker"], described["task"]
        index, kind = task["index"], task.get("type", "worker")
        index = int(index) if isinstance(index, str) else as_int("index", index)
        if kind != "worker":
            raise ValueError(f"its task is a {kind!r}: list each process as a `worker`")
        if not isinstance(workers, list) or not 0 <= index < len(workers):
            raise ValueError("its task is not one of its workers")
        if not all(isinstance(each, str) for each in workers):
            raise ValueError(f"its workers are not of the form 'host:port': {workers}")
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(
            "TF_CONFIG must be a JSON object with `cluster`, a dict with the list "
            "`worker`, and `task`, a dict with `index`, the number of this process in "
            f"the list: {type(error).__name__}: {error}."
        ) from error
    return len(workers), index


def _tf_config() -> str:
    """Returns TF_CONFIG; warns if there are only variables of Graphcore's launcher."""
    text = os.environ.get("TF_CONFIG", "")
    unread = sorted(name for name in os.environ if name.startswith("POPDIST_"))
    if unread and not text:
        warn_once(
            "POPDIST_",
            "%s of the environment is not read: processes find each other by TF_CONFIG "
            "here, which is not set, so each of these processes runs alone, as instance 0 "
            "of 1. Set TF_CONFIG for each: see docs/programs.md, Several processes.",
            ", ".join(f"`{name}`" for name in unread),
        )
    return text


def isPopdistEnvSet() -> bool:  # noqa: N802 - Graphcore's name
    """Returns whether TF_CONFIG is set."""
    return bool(_tf_config())


def getNumInstances() -> int:  # noqa: N802
    """Returns the number of processes; 1 without TF_CONFIG."""
    return cluster()[0]


def getInstanceIndex() -> int:  # noqa: N802
    """Returns the index of this process, from 0."""
    return cluster()[1]


def getNumLocalReplicas() -> int:  # noqa: N802
    """Returns a program's copies in this process: the first device's IPUs per replica."""
    ipus = system.require_usable(0).num_ipus
    return max(1, ipus // _ipus_per_replica)


def getNumTotalReplicas() -> int:  # noqa: N802
    """Returns a program's copies in all processes."""
    return getNumInstances() * getNumLocalReplicas()


def getReplicaIndexOffset() -> int:  # noqa: N802
    """Returns the index of this process's first copy among all."""
    return getInstanceIndex() * getNumLocalReplicas()


def getNumIpusPerReplica() -> int:  # noqa: N802
    """Returns the IPUs of each copy, as set by `popdist.tensorflow.set_ipu_config`."""
    return _ipus_per_replica


def getDeviceId(ipus_per_replica: int | None = None) -> int:  # noqa: N802
    """Returns the hardware ID of this process's first device.

    Args:
        ipus_per_replica: No effect, with a warning if it is not getNumIpusPerReplica():
            each process has its own IPUs, from 0.

    Raises:
        TypeError: `ipus_per_replica` is not an int.
        ValueError: It is less than 1.
    """
    if ipus_per_replica is not None:
        as_int("ipus_per_replica", ipus_per_replica, " or None")
        as_count("ipus_per_replica", ipus_per_replica)
    if ipus_per_replica not in (None, _ipus_per_replica):
        no_effect(
            "getDeviceId(ipus_per_replica=)", "each process has its own IPUs, from 0"
        )
    return system.require_usable(0).hardware_id or 0


def init() -> None:
    """Does nothing: processes connect when the system is configured."""


def execute_on_instances(
    instances: Iterable[int], function: Callable[..., Any], *args: Any, **kwargs: Any
) -> Any:
    """Calls a function in some of the processes.

    Args:
        instances: Their indices.
        function: The function.
        *args: Its arguments.
        **kwargs: Its arguments by name.

    Returns:
        What the function returns; None in the other processes.

    Raises:
        TypeError: An index is not an int, or `function` not a function.
        ValueError: There is not a process with such an index.
    """
    if isinstance(instances, (str, bytes)) or not isinstance(instances, Iterable):
        raise TypeError(
            "`instances` must be indices of processes, such as {0}, got "
            f"{type(instances).__name__} {instances!r}."
        )
    chosen = {as_int("instances", each) for each in instances}
    check_function("function", function)
    number, own = cluster()
    for each in sorted(chosen):
        if not 0 <= each < number:
            raise ValueError(
                f"`instances` must be from 0 to {number - 1}, as there are {number} "
                f"processes, got {each}."
            )
    return function(*args, **kwargs) if own in chosen else None


def __getattr__(name: str) -> Any:
    if name.startswith("__"):  # read by the import system
        raise AttributeError(name)
    hint = _INSTEAD.get(name, f"It has: {', '.join(sorted(__all__))}.")
    raise AttributeError(
        f"`popdist.{name}` does not exist for simulated IPUs. {hint}", name=name
    )


_INSTEAD = {
    "synchronize": "Processes wait for each other in "
    "`ipu.distributed.allreduce(0)`, and in each collective of a program.",
    "finalizeBackend": "Leave it out: connections end with the process.",
    "checkNumIpusPerReplica": "Compare with getNumIpusPerReplica().",
    "run": "Start each process with a TF_CONFIG of its own.",
}
_ipus_per_replica = 1


@STATE.part("popdist")
def _forget() -> None:
    set_ipus_per_replica(1)


def set_ipus_per_replica(number: int) -> None:
    """Sets the IPUs of each copy of a program, for popdist.tensorflow."""
    global _ipus_per_replica
    _ipus_per_replica = number
