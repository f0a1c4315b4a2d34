"""The state of an IPUStrategy's model in addition to Keras's: options, programs."""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from ipufeed.device.program.strategy import IPUStrategyV1
from ipufeed.device.system.system import require_usable
from ipufeed.keras.changes.functions import StepFunction
from ipufeed.keras.kit import Kit
from ipufeed.keras.pipeline_state import PipelineState
from ipufeed.keras.replica_metrics import ReplicatedMetricReductionMethod
from ipufeed.parallel.optimizers.arguments import (
    AccumulatorDType,
    GradientAccumulationReductionMethod,
)
from ipufeed.tf_types import KerasModel

_KEY = "_ipufeed"


@dataclass
class ModelState:
    """The options of one model, and its compiled programs.

    Attributes:
        kit: The kit of the model's Keras.
        strategy: The IPUStrategy that it was made in.
        accumulation: Mini-batches for one weight update, None if it was not set.
        reduction: How their gradients are reduced to one.
        accumulation_dtype: The dtype of the sums: a dtype, a function of a weight, or None
            for that of each weight.
        asynchronous: Whether batch callbacks are called while the program runs.
        metric_reduction: How the metrics of replicas are reduced to one value.
        infeed: Arguments of each IPUInfeedQueue.
        outfeed: Arguments of each IPUOutfeedQueue.
        pipeline: The options and stages of its pipeline.
        programs: The built programs, by mode.
        functions: Keras's functions that they belong to, by mode.
        validation: The Feed of validation data of the running fit.
        feed: The Feed of the running fit.
        ran_s: Run time of the current epoch's programs, in seconds.
        running: Held by the running call.
    """

    kit: Kit
    strategy: IPUStrategyV1
    accumulation: int | None = None
    reduction: GradientAccumulationReductionMethod = (
        GradientAccumulationReductionMethod.SUM
    )
    accumulation_dtype: AccumulatorDType = None
    asynchronous: bool = False
    metric_reduction: ReplicatedMetricReductionMethod = (
        ReplicatedMetricReductionMethod.NONE
    )
    infeed: dict[str, Any] = field(default_factory=dict)
    outfeed: dict[str, Any] = field(default_factory=dict)
    pipeline: PipelineState = field(default_factory=PipelineState)
    programs: dict[str, Any] = field(default_factory=dict)
    functions: dict[str, StepFunction] = field(default_factory=dict)
    # Feed imports this module.
    validation: Any = None
    feed: Any = None
    ran_s: float = 0.0
    running: AbstractContextManager[object] = field(default_factory=threading.RLock)

    def forget_programs(self) -> None:
        """Makes the next call build its program and outfeed again."""
        self.programs = {}

    def forget_program(self, mode: str) -> None:
        """Forgets the programs of a mode: of a pipeline one for each size."""
        self.programs = {
            key: each
            for key, each in self.programs.items()
            if key.partition(" ")[0] != mode
        }

    def updates_from(self) -> int | None:
        """Returns the mini-batches of a weight update, None if not set."""
        pipelined = self.pipeline.is_on
        return self.pipeline.accumulation if pipelined else self.accumulation

    def replicas(self, stages: int | None = None) -> int:
        """Returns the number of replicas on the device.

        Args:
            stages: The stages of the pipeline, if that is not known yet.

        Raises:
            ValueError: The IPUs of a pipeline do not divide those of the device.
        """
        ipus = require_usable(self.strategy.device_ordinal).num_ipus
        shards = self.pipeline.shards(stages)
        if ipus % shards:
            raise ValueError(
                f"Current device has {ipus} IPUs attached, however the current model "
                f"requires a multiple of {shards} IPUs."
            )
        return ipus // shards


def strategy_of(model: KerasModel) -> Any:
    """Returns the tf.distribute strategy in whose scope a model was made, or None."""
    own = model.__dict__
    # Keras 3's name, then that of tf_keras.
    return own.get("_distribute_strategy", own.get("_distribution_strategy"))


def existing_state(model: KerasModel) -> ModelState | None:
    """Returns a model's state if it has one already."""
    state: ModelState | None = model.__dict__.get(_KEY)
    return state


def state_of(model: KerasModel, kit: Kit) -> ModelState | None:
    """Returns a model's state; None unless it was made in the scope of an IPUStrategy."""
    strategy = strategy_of(model)
    if not isinstance(strategy, IPUStrategyV1) or not strategy._enable_keras_extensions:
        return None
    # Keras's __setattr__ tracks values, and refuses new state of a built model.
    state = existing_state(model)
    if state is None:
        state = model.__dict__[_KEY] = ModelState(kit, strategy)
    return state
