"""PipelineStage: the stage of the layers, and of the calls, that are made in its scope."""

from __future__ import annotations

import contextvars
from typing import Any

from ipufeed.device.program.strategy import current_strategy
from ipufeed.tf_patches.changes import replace

# Attributes of layers and of nodes, which Keras does not track.
_STAGE = "_ipufeed_stage"
_current: contextvars.ContextVar[int | None] = contextvars.ContextVar(
    "ipufeed_keras_stage", default=None
)
_entered = 0  # number of entered scopes in this process


class PipelineStage:
    """Assigns the layers that are made, or called, in its scope to a stage.

        with strategy.scope():
            with PipelineStage(0):
                x = keras.layers.Dense(8)(inputs)
            with PipelineStage(1):
                outputs = keras.layers.Dense(4)(x)

    The stage of a call takes precedence over that of its layer.

    Args:
        stage: The stage, from 0.

    Raises:
        ValueError: It is not an int of at least 0.

    Source: Graphcore's class of this name.
    """

    def __init__(self, stage: int) -> None:
        if isinstance(stage, bool) or not isinstance(stage, int) or stage < 0:
            raise ValueError(f"{stage} is not a valid pipeline stage.")
        self._stage = stage
        self._token: contextvars.Token[int | None] | None = None

    def __enter__(self) -> PipelineStage:
        global _entered
        if current_strategy() is None:
            raise RuntimeError(
                "PipelineStage may only be used from within an IPUStrategy context."
            )
        if _current.get() is not None:
            raise RuntimeError("Pipeline stages must not be nested.")
        self._token = _current.set(self._stage)
        _entered += 1
        return self

    def __exit__(self, *error: object) -> None:
        if self._token is not None:
            _current.reset(self._token)
        self._token = None


def times_entered() -> int:
    """Returns the number of scopes entered in this process."""
    return _entered


def stage_of(operation: object) -> int | None:
    """Returns the stage that a layer or a node was made in, or None."""
    stage: int | None = getattr(operation, _STAGE, None)
    return stage


def note(kind: type) -> None:
    """Makes each new object of a Keras class record the stage that it is made in.

    It patches `__new__`: Keras inspects the `__init__` of layers.
    """
    make: Any = kind.__new__

    def new(cls: type, *arguments: object, **keywords: object) -> object:
        made = (
            make(cls) if make is object.__new__ else make(cls, *arguments, **keywords)
        )
        stage = _current.get()
        if stage is not None:
            made.__dict__[_STAGE] = stage
        return made

    replace(kind, "__new__", new)
