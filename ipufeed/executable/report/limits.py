"""Whether a program would fit the memory of the IPUs that it is compiled for.

    peak, with or without code  >  IPUs x tiles x memory of a tile  -->  warning or error

The memory is the program's own, as XLA has placed it on this host; an IPU would also need
some for exchange.

Source: sizes of tiles are those of Graphcore's hardware overview.
"""

from __future__ import annotations

from dataclasses import dataclass

from ipufeed.device.log import LOGGER
from ipufeed.device.system import system
from ipufeed.executable.hlo.compiled_code import CompiledCode
from ipufeed.executable.program.engine_options import fails_out_of_memory
from ipufeed.executable.program.events import Lowered
from ipufeed.executable.report import memory
from ipufeed.executable.report.ipu_model import IpuModel

TILE_BYTES = {"ipu1": 256 * 1024, "ipu2": 624 * 1024, "ipu21": 624 * 1024}


@dataclass(frozen=True)
class Limits:
    """What there is for one copy of a program.

    Attributes:
        model: One IPU of its device.
        ipus: That a copy is spread over.
        counts_code: Whether code counts: not on the IPU Model without
            `ipu_model.compile_ipu_code`.
        is_model: Whether it is the IPU Model's.
        fails: Whether a program that does not fit is an error.
    """

    model: IpuModel
    ipus: int
    counts_code: bool
    is_model: bool
    fails: bool

    @property
    def bytes(self) -> int:
        """Of all tiles of these IPUs."""
        return self.ipus * self.model.memory_bytes


def limits_of(lowered: Lowered) -> Limits:
    """What there is for a program that is to be compiled.

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
    """Compares a compiled program with its limits; on hardware only where it may fail.

    Raises:
        tf.errors.ResourceExhaustedError: It does not fit, and `debug.allowOutOfMemory` of
            the engine's options is false. Where it is not set that is a warning.
    """
    if not executable or not (limits.is_model or limits.fails):
        return
    found = memory.memory_of(CompiledCode.parse(executable), (), frozenset())
    code = found.by_purpose["code"] if limits.counts_code else 0
    needed = found.peak_bytes + code
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
