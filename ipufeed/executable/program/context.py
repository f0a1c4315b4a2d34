"""The compile context: everything besides the HLO that changes a compiled program.

target       tiles, IPUs
config       options, except those that only report, connect or select
flags        TF_POPLAR_FLAGS
environment  variables that are hashed as text
host         TensorFlow, this library, the CPU: a simulated IPU runs the CPU's code
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import platform
from pathlib import Path

from ipufeed import _native
from ipufeed.device.config.enums import DeviceConnectionType
from ipufeed.device.flags import environment, flags
from ipufeed.device.system import system
from ipufeed.executable.program.file_format import JsonObject

# Options and categories of options that do not change a compiled program.
NOT_IN_KEY = (
    "auto_select_ipus",
    "select_ipus",
    "selection_order",
    "serialization_output_folder",
)
CONNECTION = "device_connection"
# The simulated hardware: a program compiled for the same version without being attached
# is the same program. Remote buffers are not included: a program that uses them moves
# tensors, which its HLO shows.
HARDWARE = {"version": "ipu2"}
# Prefixes of engine options that only report.
REPORTING = ("autoReport.", "debug.")


def compile_context(ordinal: int) -> JsonObject:
    """Returns the compile context of an IPU, ready for JSON. Callers must not change it.

    Raises:
        DeviceOrdinalError: The IPU is not configured.
    """
    device = system.require_usable(ordinal)
    return {
        "target": {
            "num_ipus": device.num_ipus,
            "tiles_per_ipu": device.tiles_per_ipu,
            "num_io_tiles": device.num_io_tiles,
            "order": device.order.name,
        },
        "config": _config_in_key(system.generation()),
        "flags": flags.get_flags().in_program_hash(),
        "environment": _variables(),
        "host": host(),
    }


# A configuration has a few hundred values; a generation has one configuration.
@functools.lru_cache(maxsize=4)
def _config_in_key(generation: int) -> JsonObject:
    """Returns the options that change a program, by category."""
    del generation
    # Through JSON, which raises for values that it cannot represent.
    values: JsonObject = json.loads(json.dumps(system.configured().by_category()))
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


def _variables() -> dict[str, str]:
    """Returns the environment variables that are hashed as text."""
    return environment.variables_in_program_hash() | {"XLA_FLAGS": _xla_flags()}


def _xla_flags() -> str:
    """Returns XLA_FLAGS without dump options. XLA reads it once per process."""
    try:
        words = environment.xla_flags()
    except ValueError:
        return os.environ["XLA_FLAGS"]
    kept = (word for word in words if not word.lstrip("-").startswith("xla_dump"))
    return " ".join(sorted(kept))


@functools.cache
def host() -> JsonObject:
    """Returns the versions and the CPU that the code is compiled for."""
    import tensorflow as tf

    info = _native.build_info(_native.find_library())
    return {
        "tensorflow": tf.version.VERSION,
        "tensorflow_git": tf.version.GIT_VERSION,
        "ipufeed": info["sources"][:16],
        "cpu": cpu(),
        # XLA splits loops into this number of parts.
        "cpus": len(os.sched_getaffinity(0)),
    }


def cpu() -> str:
    """Returns the CPU's name with a hash of its features."""
    fields = cpu_fields()
    name = fields.get("model name", platform.machine())
    if not fields:
        return name
    features = fields.get("flags") or fields.get("Features", "")
    text = " ".join(sorted(features.split()))
    return f"{name} ({hashlib.blake2b(text.encode(), digest_size=4).hexdigest()})"


def cpu_fields() -> dict[str, str]:
    """Returns the fields of the first CPU in /proc/cpuinfo; {} if it cannot be read."""
    try:
        first = Path("/proc/cpuinfo").read_text().partition("\n\n")[0]
    except OSError:
        return {}
    pairs = (line.partition(":") for line in first.splitlines())
    return {name.strip(): value.strip() for name, _, value in pairs}
