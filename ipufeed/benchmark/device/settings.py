"""What a simulated device is asked to do with the elements it gets."""

from __future__ import annotations

from dataclasses import dataclass

from ipufeed.benchmark.result.settings import SettingError
from ipufeed.checks import as_int, as_number, is_within

SHORTEST_STEP_S, LONGEST_STEP_S = 1e-6, 3600.0
MOST_RESULT_BYTES = 1 << 30
# What the times of a step take of its result: int32 [8].
TIMES_BYTES = 32


@dataclass(frozen=True, kw_only=True)
class DeviceSettings:
    """A device that takes its time for each element, and gives a result for it.

    Args:
        step_seconds: How long a step takes, 1e-6 to 3600. Default: that of `preset`, and
            without one as long as it takes to hand an element over.
        preset: The name of one of PRESETS instead.
        knee: Afterwards, sweep the step time across the pipeline's period.
        result_bytes: Bytes of the result that each step gives, 32 to 2^30. Default: 32,
            which hold its times.
        read_seconds: How long the host takes for each result, up to 3600. Default: no
            time.

    Raises:
        TypeError: A value is not a number, or `knee` no bool.
        ValueError: A value is out of range, or there is no such preset.
    """

    step_seconds: float | None = None
    preset: str | None = None
    knee: bool = False
    result_bytes: int | None = None
    read_seconds: float | None = None

    def __post_init__(self) -> None:
        if self.preset is not None:
            if self.preset not in PRESETS:
                raise ValueError(
                    f"`preset` must be one of {', '.join(PRESETS)}, got {self.preset!r}."
                )
            if self.step_seconds is not None:
                raise ValueError(
                    "`preset` excludes `step_seconds`: it says how long a step takes."
                )
            object.__setattr__(self, "step_seconds", PRESETS[self.preset].seconds)
        check_seconds("step_seconds", self.step_seconds)
        check_seconds("read_seconds", self.read_seconds)
        if not isinstance(self.knee, bool):
            raise TypeError(
                f"`knee` must be a bool, got {type(self.knee).__name__} {self.knee!r}."
            )
        if self.result_bytes is not None:
            count = as_int("result_bytes", self.result_bytes)
            if not TIMES_BYTES <= count <= MOST_RESULT_BYTES:
                raise SettingError(
                    f"{{}} must be in [{TIMES_BYTES}, {MOST_RESULT_BYTES}], got {count}.",
                    "result_bytes",
                )
            object.__setattr__(self, "result_bytes", count)

    @property
    def known_preset(self) -> Preset | None:
        """The preset, with all that is known of it."""
        return None if self.preset is None else PRESETS[self.preset]

    @property
    def step_ns(self) -> int:
        """Nanoseconds of a step; 0: as long as it takes to hand an element over."""
        return 0 if self.step_seconds is None else round(self.step_seconds * 1e9)


def check_seconds(name: str, value: object) -> None:
    """Refuses a value that is not a usable time."""
    if value is None:
        return
    amount = as_number(name, value)
    if not is_within(amount, SHORTEST_STEP_S, LONGEST_STEP_S):
        raise SettingError(
            f"{{}} must be in [{SHORTEST_STEP_S:g}, {LONGEST_STEP_S:g}] seconds, got "
            f"{amount}.",
            name,
        )


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


# Step times of known training jobs: what an accelerator takes to compute on one batch.
# Source: MLPerf Storage, whose benchmarks simulate accelerators by sleeping as long as
# these take (the `computation_time` of its workloads), and whose bar is the utilisation
# that a storage system must reach.
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
