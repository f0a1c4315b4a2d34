"""Model of an IPU for estimates, made of public figures.

It estimates the cycles of work that is spread evenly over all tiles, with all data in
place and no waits between tiles: a lower bound, which real programs on real IPUs do not
reach. It serves to compare programs and to find the dominant steps.

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
    """One IPU. All results are estimates.

    Attributes:
        tiles: Number of tiles (processors).
        clock_hz: Cycles per second.
        tile_bytes: Memory of a tile.
        matrix_flops: Flops of products and convolutions per cycle and tile, by dtype;
            other dtypes count as float32.
        vector_flops: Flops of element-wise work and reductions, likewise: two lanes of
            float32, four of float16.
        transcendental_cycles: Cycles of a tile for one exp, log, sqrt or the like.
        exchange_bytes: Bytes that a tile receives from others per cycle.
        host_bytes_per_s: Bandwidth of the link to the host.
        sync_cycles: Cycles of each step (an instruction that is not fused away) in which
            the tiles synchronise.
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
        """Memory of all tiles."""
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
        """Estimates the cycles of one step, whose parts run one after another."""
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
