"""The options and the stages of a model's pipeline."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ipufeed.parallel.optimizers.arguments import (
    GradientAccumulationReductionMethod,
)
from ipufeed.tf_types import FuncGraph, Tensor

NEEDS_COUNT = (
    "The model which you are attempting to train is pipelined, however "
    "`gradient_accumulation_steps_per_replica` has not been set through "
    "`set_pipelining_options()`. You need to set this value as pipelined models will "
    "perform gradient accumulation when training."
)


@dataclass
class PipelineState:
    """The options and the stages of a model's pipeline.

    Attributes:
        accumulation: Mini-batches of a weight update, None if it was not set.
        reduction: How their gradients are reduced to one.
        device_mapping: The IPU of each stage.
        accumulate_outfeed: Whether results are summed before they are enqueued.
        options: Other arguments of pipelining_ops.pipeline.
        given: The assignment that the program has set.
        saved: The stages of all layer calls of a file, in their order.
        is_reset: Whether the program has reset the stages.
        graph: The model's layer calls, with stages if it is pipelined.
        stages: Their number.
    """

    accumulation: int | None = None
    reduction: GradientAccumulationReductionMethod = (
        GradientAccumulationReductionMethod.SUM
    )
    device_mapping: list[int] | None = None
    accumulate_outfeed: bool = False
    options: dict[str, Any] = field(default_factory=dict)
    given: list[Tensor] | None = None
    saved: list[int | None] | None = None
    is_reset: bool = False
    graph: FuncGraph = None
    stages: int = 0

    @property
    def is_on(self) -> bool:
        """Whether the model is known to be pipelined."""
        return self.stages > 0

    def mini_batches(self, mode: str, execution: int) -> int:
        """Returns those of one pipeline: of a weight update, else of an execution.

        Raises:
            ValueError: The mini-batches of an update are not set.
        """
        count = self.accumulation if mode == "fit" else execution
        if count is None:
            raise ValueError(NEEDS_COUNT)
        return count

    def shards(self, stages: int | None = None) -> int:
        """Returns the IPUs of one replica: a power of two.

        Args:
            stages: The stages of the pipeline, if it is not known yet.
        """
        stages = stages or self.stages
        if not stages:
            return 1
        used = max(self.device_mapping or range(stages)) + 1
        return 1 << (used - 1).bit_length()
