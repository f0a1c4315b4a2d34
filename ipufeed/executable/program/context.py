"""What a program is compiled for, as far as it changes the result.

target       tiles, IPUs
config       the options, but those that only report, connect or select
flags        of TF_POPLAR_FLAGS
environment  variables whose raw text counts
host         TensorFlow, this library, the CPU: the simulated IPU's code is the CPU's
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import platform
import shlex
from pathlib import Path
from typing import Any

from ipufeed import _native
from ipufeed.device.config.enums import DeviceConnectionType
from ipufeed.device.flags import environment, flags
from ipufeed.device.system import system

# Options that change nothing in a compiled program; a category stands for all in it.
NOT_IN_KEY = (
    "auto_select_ipus",
    "select_ipus",
    "selection_order",
    "serialization_output_folder",
)
CONNECTION = "device_connection"
# What the simulated hardware is. What is compiled for the same without being attached to
# it is the same program. Remote buffers are not among it: a program that uses them moves
# tensors, and is another one by that.
HARDWARE = {"version": "ipu2"}
# Options of the engine that only report.
REPORTING = ("autoReport.", "debug.")


def surroundings_of(ordinal: int) -> dict[str, Any]:
    """The surroundings of a program on an IPU, ready for JSON; not to be changed.

    Raises:
        DeviceOrdinalError: the IPU has not been configured.
    """
    device = system.require_usable(ordinal)
    return {
        "target": {
            "num_ipus": device.num_ipus,
            "tiles_per_ipu": device.tiles_per_ipu,
            "num_io_tiles": device.num_io_tiles,
            "order": device.order.name,
        },
        "config": config_in_key(system.generation()),
        "flags": flags.get_flags().in_program_hash(),
        "environment": variables(),
        "host": host(),
    }


# A configuration has a few hundred values; a generation has one configuration.
@functools.lru_cache(maxsize=4)
def config_in_key(generation: int) -> dict[str, Any]:
    """The options that make another program, by category."""
    del generation
    # As JSON has them: what cannot be written there is refused.
    values: dict[str, Any] = json.loads(json.dumps(system.configured().by_category()))
    for name in NOT_IN_KEY:
        values.pop(name, None)
    connection = values.pop(CONNECTION)
    attaches = system.connection_type() in (
        DeviceConnectionType.ALWAYS,
        DeviceConnectionType.ON_DEMAND,
    )
    values[CONNECTION] = {
        name: hardware if attaches else connection[name]
        for name, hardware in HARDWARE.items()
    }
    engine = values.get("compilation_poplar_options", {})
    values["compilation_poplar_options"] = {
        name: value for name, value in engine.items() if not name.startswith(REPORTING)
    }
    return values


def variables() -> dict[str, str]:
    """The variables of the environment whose raw text counts."""
    return environment.variables_in_program_hash() | {"XLA_FLAGS": xla_flags()}


def xla_flags() -> str:
    """XLA_FLAGS without what only dumps; XLA reads it once, when the process starts."""
    try:
        words = shlex.split(os.environ.get("XLA_FLAGS", ""))
    except ValueError:
        return os.environ["XLA_FLAGS"]
    kept = (word for word in words if not word.lstrip("-").startswith("xla_dump"))
    return " ".join(sorted(kept))


@functools.cache
def host() -> dict[str, Any]:
    """Versions, and the CPU that the code is for."""
    import tensorflow as tf

    info = _native.build_info(_native.find_library())
    return {
        "tensorflow": tf.version.VERSION,
        "tensorflow_git": tf.version.GIT_VERSION,
        "ipufeed": info["sources"][:16],
        "cpu": cpu(),
        # XLA cuts loops into as many parts.
        "cpus": len(os.sched_getaffinity(0)),
    }


def cpu() -> str:
    """The CPU's name and a hash of what it can do."""
    name, can = platform.machine(), ""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return name
    for line in text.splitlines():
        field, _, value = line.partition(":")
        if field.strip() == "model name":
            name = value.strip()
        elif field.strip() in ("flags", "Features"):
            can = " ".join(sorted(value.split()))
            break
    return f"{name} ({hashlib.blake2b(can.encode(), digest_size=4).hexdigest()})"
