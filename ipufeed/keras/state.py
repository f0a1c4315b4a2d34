"""What a model of an IPUStrategy has in addition to what Keras keeps: options, programs."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any

from ipufeed.device.program.strategy import IPUStrategyV1
from ipufeed.device.system.system import require_usable
from ipufeed.keras.metric_reduction import ReplicatedMetricReductionMethod
from ipufeed.keras.pipeline_state import PipelineState
from ipufeed.parallel.optimizers.reduction_method import (
    GradientAccumulationReductionMethod,
)

_KEY = "_ipufeed"


@dataclass
class ModelState:
    """The options of one model, and what was compiled for it.

    Attributes:
        kit: What knows the model's Keras.
        strategy: The IPUStrategy that it was made in.
        accumulation: Mini-batches for one weight update, None if it was not set.
        reduction: How the gradients of these become one.
        accumulation_dtype: What their sums are kept in: a dtype, a function of a weight,
            or None for each weight's own.
        asynchronous: Whether callbacks of batches fire while the program runs.
        metric_reduction: How the metrics of replicas become one value.
        infeed: Arguments of each IPUInfeedQueue.
        outfeed: Arguments of each IPUOutfeedQueue.
        pipeline: Of its stages.
        programs: By "fit", "evaluate" and "predict", what has been built.
        validation: The validation data of the fit that runs, as a Feed.
        feed: The data of the fit that runs, as a Feed.
        ran_s: Seconds in which programs of its current epoch have run.
        running: Held by the call that runs.
    """

    kit: Any
    strategy: IPUStrategyV1
    accumulation: int | None = None
    reduction: GradientAccumulationReductionMethod = (
        GradientAccumulationReductionMethod.SUM
    )
    accumulation_dtype: Any = None
    asynchronous: bool = False
    metric_reduction: ReplicatedMetricReductionMethod = (
        ReplicatedMetricReductionMethod.NONE
    )
    infeed: dict[str, Any] = field(default_factory=dict)
    outfeed: dict[str, Any] = field(default_factory=dict)
    pipeline: PipelineState = field(default_factory=PipelineState)
    programs: dict[str, Any] = field(default_factory=dict)
    validation: Any = None
    feed: Any = None
    ran_s: float = 0.0
    running: Any = field(default_factory=threading.RLock)

    def forget_programs(self) -> None:
        """Lets the next call build its program and outfeed: something has changed."""
        self.programs = {}

    def updates_from(self) -> int | None:
        """Mini-batches of a weight update, None if it was not set."""
        pipelined = self.pipeline.is_on
        return self.pipeline.accumulation if pipelined else self.accumulation

    def replicas(self) -> int:
        """Copies of the program that the device runs.

        Raises:
            ValueError: The IPUs of a pipeline do not divide those of the device.
        """
        ipus = require_usable(self.strategy.device_ordinal).num_ipus
        shards = self.pipeline.shards()
        if ipus % shards:
            raise ValueError(
                f"Current device has {ipus} IPUs attached, however the current model "
                f"requires a multiple of {shards} IPUs."
            )
        return ipus // shards


def strategy_of(model: Any) -> Any:
    """The tf.distribute strategy that a model was made in, or None."""
    own = model.__dict__
    # Keras 3's name, then that of tf_keras.
    return own.get("_distribute_strategy", own.get("_distribution_strategy"))


def existing_state(model: Any) -> ModelState | None:
    """The state that a model was given before; None if it has none."""
    state: ModelState | None = model.__dict__.get(_KEY)
    return state


def has_state(model: Any) -> bool:
    """Whether `state_of` has given the model a state."""
    return _KEY in model.__dict__


def state_of(model: Any, kit: Any) -> ModelState | None:
    """The state of a model; None unless it was made in the scope of an IPUStrategy."""
    strategy = strategy_of(model)
    if not isinstance(strategy, IPUStrategyV1) or not strategy._enable_keras_extensions:
        return None
    # Keras's __setattr__ tracks what it is given, and refuses new state of a built model.
    state = model.__dict__.get(_KEY)
    if state is None:
        state = model.__dict__[_KEY] = ModelState(kit, strategy)
    return state  # type: ignore[no-any-return]
