"""Step times of known training jobs: what an accelerator takes to compute on one batch.

Source: MLPerf Storage, whose benchmarks stand in for accelerators by sleeping as long as
these take (the `computation_time` of its workloads), and whose bar is the utilisation that
a storage system must keep up.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Preset:
    """A model on an accelerator.

    Attributes:
        name: How it is asked for: model-accelerator.
        title: The model's name for people.
        batch: Samples in one step.
        sample_bytes: Bytes of one sample, as stored.
        seconds: One step on the accelerator.
        bar: The utilisation that MLPerf Storage asks for.
    """

    name: str
    title: str
    batch: int
    sample_bytes: int
    seconds: float
    bar: float


PRESETS = {
    preset.name: preset
    for preset in (
        Preset("unet3d-a100", "U-Net3D", 7, 146_600_000, 0.636, 0.9),
        Preset("unet3d-h100", "U-Net3D", 7, 146_600_000, 0.323, 0.9),
        Preset("resnet50-a100", "ResNet-50", 400, 114_660, 0.435, 0.9),
        Preset("resnet50-h100", "ResNet-50", 400, 114_660, 0.224, 0.9),
        Preset("cosmoflow-a100", "CosmoFlow", 1, 2_830_000, 0.00551, 0.7),
        Preset("cosmoflow-h100", "CosmoFlow", 1, 2_830_000, 0.00350, 0.7),
    )
}
