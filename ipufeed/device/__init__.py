"""The simulated IPU: what it is told, what it then is, and how programs are run on it.

    IPUConfig, create_ipu_config --> configure_ipu_system --> virtual devices
    TF_POPLAR_FLAGS              --> flags                    attach, seeds
    scopes, strategy             --> where a program is built
    loops, compiler              --> one program of a Python function
    step                         --> in a loop: a device that computes elsewhere

Importing this package imports nothing, TensorFlow least of all.
"""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    if name == "step":
        from ipufeed.device.program.steps import step

        return step
    raise AttributeError(f"module 'ipufeed.device' has no attribute {name!r}")
