"""The simulated IPU: its configuration, its state, and how programs are run on it.

    config   IPUConfig, create_ipu_config --> system   configure_ipu_system, virtual
    flags    TF_POPLAR_FLAGS -------------/            devices, attach, seeds
    program  scopes, strategy: the device of a program; loops, compiler: one program of
             a Python function; step: a step of known length
    random   seeds and random ops
    queue_hooks  the device's functions that the queues call; log: the device's logger

Importing this package imports none of its modules, and not TensorFlow. Uses
ipufeed.queues.
"""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    if name in ("step", "to_times"):
        from ipufeed.device.program import steps

        return getattr(steps, name)
    if name == "read_clock":
        from ipufeed.device.program.clock import read_clock

        return read_clock
    if name == "set_executor":
        from ipufeed.device.program.executor import set_executor

        return set_executor
    raise AttributeError(f"module 'ipufeed.device' has no attribute {name!r}")
