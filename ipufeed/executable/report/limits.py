"""Compares a program's memory with that of the IPUs that it is compiled for.

    peak, with or without code  >  IPUs x tiles x memory of a tile  -->  warning or error

The program's memory is the one that XLA assigned on this host; a real IPU also needs
memory for exchange.

Source: the memory of a tile is from Graphcore's hardware overview.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ipufeed.device.log import LOGGER
from ipufeed.device.system import system
from ipufeed.executable.program.engine_options import fails_out_of_memory
from ipufeed.executable.program.events import Lowered
from ipufeed.executable.report.ipu_model import IpuModel

if TYPE_CHECKING:
    from ipufeed.executable.report.memory import Memory

TILE_BYTES = {"ipu1": 256 * 1024, "ipu2": 624 * 1024, "ipu21": 624 * 1024}


@dataclass(frozen=True)
class Limits:
    """The memory available to one replica of a program.

    Attributes:
        model: One IPU of the device.
        ipus: Number of IPUs of the replica.
        counts_code: Whether code counts: not on the IPU Model without
            `ipu_model.compile_ipu_code`.
        is_model: Whether the device is the IPU Model.
        fails: Whether a program that does not fit is an error.
    """

    model: IpuModel
    ipus: int
    counts_code: bool
    is_model: bool
    fails: bool

    @property
    def bytes(self) -> int:
        """Memory of all tiles of these IPUs."""
        return self.ipus * self.model.memory_bytes

    def needed(self, found: Memory) -> int:
        """Returns the bytes that a program needs of it: its peak, and code that counts."""
        code = found.by_purpose["code"] if self.counts_code else 0
        return found.peak_bytes + code


def limits_of(lowered: Lowered) -> Limits:
    """Returns the limits of a program to compile.

    Raises:
        tf.errors.InternalError: An option of the engine is invalid.
    """
    device = system.require_usable(lowered.ordinal)
    config = system.configured()
    is_model = system.uses_ipu_model()
    version = config.ipu_model.version if is_model else config.device_connection.version
    return Limits(
        model=IpuModel(
            tiles=device.tiles_per_ipu,
            tile_bytes=TILE_BYTES.get(version, TILE_BYTES["ipu2"]),
        ),
        ipus=max(1, lowered.shards),
        counts_code=config.ipu_model.compile_ipu_code if is_model else True,
        is_model=is_model,
        fails=fails_out_of_memory(),
    )


def check(limits: Limits, name: str, executable: bytes) -> None:
    """Checks a compiled program; without the IPU Model only if `limits.fails`.

    Raises:
        tf.errors.ResourceExhaustedError: The program does not fit, and the engine option
            `debug.allowOutOfMemory` is false. Without the option this is a warning.
    """
    if not executable or not (limits.is_model or limits.fails):
        return
    # Here, since most programs are not checked: see write.py.
    from ipufeed.executable.hlo.compiled_code import CompiledCode
    from ipufeed.executable.report import memory

    found = memory.memory_of(CompiledCode.parse(executable), (), frozenset())
    code = found.by_purpose["code"] if limits.counts_code else 0
    needed = limits.needed(found)
    if needed <= limits.bytes:
        return
    text = (
        f"{name} needs {needed} bytes of memory, {code} of them for code, and "
        f"{limits.ipus} IPU{'s' * (limits.ipus > 1)} of {limits.model.tiles} tiles with "
        f"{limits.model.tile_bytes} bytes each have {limits.bytes}."
    )
    if not limits.fails:
        LOGGER.warning("Out of memory: %s On such IPUs it would not run.", text)
        return
    from tensorflow.python.framework import errors

    raise errors.ResourceExhaustedError(
        None,
        None,
        f"Out of memory: {text} Use a smaller batch or more IPUs, or set the engine option "
        "debug.allowOutOfMemory to true.",
    )
