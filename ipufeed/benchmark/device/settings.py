"""The settings of a simulated device: step time, results, and presets of both."""

from __future__ import annotations

from dataclasses import dataclass

from ipufeed.benchmark.result.settings import SettingError
from ipufeed.checks import as_int, as_number, is_within

SHORTEST_STEP_S, LONGEST_STEP_S = 1e-6, 3600.0
MOST_RESULT_BYTES = 1 << 30
# The bytes of a step's times in its result: int32 [8].
TIMES_BYTES = 32


@dataclass(frozen=True, kw_only=True)
class DeviceSettings:
    """A device with a step for each element, and a result of each step.

    Args:
        step_seconds: The length of a step, 1e-6 to 3600. Default: that of `preset`, and
            without one a step only dequeues.
        preset: The name of one of PRESETS instead.
        knee: Whether to sweep the step time around the pipeline's period afterwards.
        result_bytes: The size of each step's result, 32 to 2^30. Default: 32, for its
            times.
        read_seconds: The host's time for each result, up to 3600. Default: 0.

    Raises:
        TypeError: A value is not a number, or `knee` not a bool.
        ValueError: A value is out of range, or the preset is not defined.
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
                    "`preset` excludes `step_seconds`: it sets the length of a step."
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
        """The preset, or None."""
        return None if self.preset is None else PRESETS[self.preset]

    @property
    def step_ns(self) -> int:
        """Nanoseconds of a step; 0: it only dequeues."""
        return 0 if self.step_seconds is None else round(self.step_seconds * 1e9)


def check_seconds(name: str, value: object) -> None:
    """Raises an error for a value that is neither None nor a time in range."""
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
        name: The value of --preset: model-accelerator.
        title: The model's name in texts.
        batch: The samples of one step.
        seconds: The length of one step on the accelerator.
        bar: The utilisation that MLPerf Storage requires.
    """

    name: str
    title: str
    batch: int
    seconds: float
    bar: float


# Step times of known training jobs: an accelerator's computation time of one batch.
# Source: MLPerf Storage, whose benchmarks simulate accelerators by sleeping for this time
# (the `computation_time` of its workloads), and whose bar is the utilisation that a storage
# system must reach.
PRESETS = {
    preset.name: preset
    for preset in (
        Preset("unet3d-a100", "U-Net3D", 7, 0.636, 0.9),
        Preset("unet3d-h100", "U-Net3D", 7, 0.323, 0.9),
        Preset("resnet50-a100", "ResNet-50", 400, 0.435, 0.9),
        Preset("resnet50-h100", "ResNet-50", 400, 0.224, 0.9),
        Preset("cosmoflow-a100", "CosmoFlow", 1, 0.00551, 0.7),
        Preset("cosmoflow-h100", "CosmoFlow", 1, 0.00350, 0.7),
    )
}
