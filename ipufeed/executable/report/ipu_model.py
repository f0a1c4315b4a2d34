"""The IPU that estimates are made with: public figures, in one place.

It estimates how many cycles work takes if every tile had its part of it, so that nothing is
in the wrong place and no tile waits for another: a lower bound, which a real program on a
real IPU does not reach. It is for comparing programs, and for seeing what dominates one.

    compute   flops / (tiles x flops per cycle and tile)
    exchange  bytes that move between tiles / (tiles x bytes per cycle and tile)
    host      bytes of feeds / bytes per cycle of the link

Source: Graphcore, "Mk2 IPU" (IPU-M2000 product brief; "IPU Hardware Overview" of the
Programmer's Guide): 1472 tiles, 624 KiB each, 1.33 GHz; 62.5 Tflop/s in float32 and 250 in
float16 with float32 accumulation are 32 and 128 flops in each cycle of each tile; each
tile receives 4 bytes in a cycle; PCIe Gen4 x16 to the host.
"""

from __future__ import annotations

from dataclasses import dataclass, field


def _flops() -> dict[str, float]:
    return {"f32": 32.0, "f16": 128.0, "bf16": 128.0}


@dataclass(frozen=True, kw_only=True)
class IpuModel:
    """One IPU. All that is computed with it is an estimate.

    Attributes:
        tiles: Processors.
        clock_hz: Cycles in a second.
        tile_bytes: Memory of a tile.
        matrix_flops: Of products and convolutions in a cycle of a tile, by dtype; what
            is not named counts as float32.
        vector_flops: Of element-wise work and reductions, likewise: two float32 lanes,
            four float16.
        transcendental_cycles: Cycles of a tile for one exp, log, sqrt or the like.
        exchange_bytes: That a tile receives from others in a cycle.
        host_bytes_per_s: Of the link to the host.
        sync_cycles: Of each step (one instruction that is not fused away): all tiles
            wait for each other before and after.
    """

    tiles: int = 1472
    clock_hz: float = 1.33e9
    tile_bytes: int = 624 * 1024
    matrix_flops: dict[str, float] = field(default_factory=_flops)
    vector_flops: dict[str, float] = field(
        default_factory=lambda: {"f32": 2.0, "f16": 4.0, "bf16": 4.0}
    )
    transcendental_cycles: float = 6.0
    exchange_bytes: float = 4.0
    host_bytes_per_s: float = 32e9
    sync_cycles: float = 150.0

    @property
    def memory_bytes(self) -> int:
        """Of all tiles."""
        return self.tiles * self.tile_bytes

    def cycles(
        self,
        *,
        dtype: str,
        matrix_flops: float = 0.0,
        vector_flops: float = 0.0,
        transcendentals: float = 0.0,
        moved_bytes: float = 0.0,
        host_bytes: float = 0.0,
    ) -> float:
        """Estimated cycles of one step: its parts follow each other on an IPU."""
        matrix = self.matrix_flops.get(dtype, self.matrix_flops["f32"])
        vector = self.vector_flops.get(dtype, self.vector_flops["f32"])
        tile = (
            matrix_flops / matrix
            + vector_flops / vector
            + transcendentals * self.transcendental_cycles
            + moved_bytes / self.exchange_bytes
        )
        host = host_bytes / self.host_bytes_per_s * self.clock_hz
        total = tile / self.tiles + host
        return total + self.sync_cycles if total else 0.0
