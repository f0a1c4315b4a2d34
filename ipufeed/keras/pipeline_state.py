"""What a model knows of its pipeline."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ipufeed.parallel.optimizers.reduction_method import (
    GradientAccumulationReductionMethod,
)

NEEDS_COUNT = (
    "The model which you are attempting to train is pipelined, however "
    "`gradient_accumulation_steps_per_replica` has not been set through "
    "`set_pipelining_options()`. You need to set this value as pipelined models will "
    "perform gradient accumulation when training."
)


@dataclass
class PipelineState:
    """What a model knows of its pipeline.

    Attributes:
        accumulation: Mini-batches of a weight update, None if it was not set.
        reduction: How their gradients become one.
        device_mapping: The IPU of each stage.
        accumulate_outfeed: Whether results are summed before they are enqueued.
        options: Other arguments of pipelining_ops.pipeline.
        given: The assignment that was set.
        saved: The stages of all layer calls that a file had, in their order.
        graph: The model, taken apart; its calls have stages if it is pipelined.
        checked: Whether `graph` has been looked for.
    """

    accumulation: int | None = None
    reduction: GradientAccumulationReductionMethod = (
        GradientAccumulationReductionMethod.SUM
    )
    device_mapping: list[int] | None = None
    accumulate_outfeed: bool = False
    options: dict[str, Any] = field(default_factory=dict)
    given: Any = None
    saved: list[int | None] | None = None
    is_reset: bool = False
    graph: Any = None
    stages: int = 0

    @property
    def is_on(self) -> bool:
        """Whether the model is pipelined, as far as it is known."""
        return self.stages > 0

    def shards(self) -> int:
        """The IPUs of one copy of the program: a power of two."""
        if not self.is_on:
            return 1
        used = max(self.device_mapping or range(self.stages)) + 1
        return 1 << (used - 1).bit_length()
