"""Graphcore's classes of an IPUStrategy's models, for `isinstance`, and of their stages.

    isinstance(model, ipufeed.keras.extensions.SequentialExtension)

No model derives from them: `isinstance` checks whether a model was made in the scope of an
IPUStrategy with enable_keras_extensions=True, and its kind.
"""

from __future__ import annotations

from ipufeed.device.program.strategy import IPUStrategyV1
from ipufeed.keras.pipeline.assignment import (
    FunctionalLayerPipelineStageAssignment,
    FunctionalNestedModelPipelineStageAssignment,
    ModelLayerPipelineStageAssignment,
    NestedModelPipelineStageAssignment,
    SequentialLayerPipelineStageAssignment,
    SequentialNestedModelPipelineStageAssignment,
)
from ipufeed.keras.state import strategy_of

__all__ = [
    "FunctionalExtension",
    "FunctionalLayerPipelineStageAssignment",
    "FunctionalNestedModelPipelineStageAssignment",
    "ModelExtension",
    "ModelLayerPipelineStageAssignment",
    "NestedModelPipelineStageAssignment",
    "SequentialExtension",
    "SequentialLayerPipelineStageAssignment",
    "SequentialNestedModelPipelineStageAssignment",
]


class _ChecksKind(type):
    """Implements `isinstance` by the names of the model's Keras classes."""

    kinds: tuple[str, ...]
    others: tuple[str, ...]

    def __instancecheck__(cls, instance: object) -> bool:
        strategy = strategy_of(instance) if hasattr(instance, "__dict__") else None
        if not isinstance(strategy, IPUStrategyV1):
            return False
        names = {each.__name__ for each in type(instance).__mro__}
        return (
            strategy._enable_keras_extensions
            and names.issuperset(cls.kinds)
            and not names.intersection(cls.others)
        )


class FunctionalExtension(metaclass=_ChecksKind):
    """A functional model of an IPUStrategy."""

    kinds, others = ("Functional",), ("Sequential",)


class SequentialExtension(metaclass=_ChecksKind):
    """A Sequential of an IPUStrategy."""

    kinds, others = ("Sequential",), ()


class ModelExtension(metaclass=_ChecksKind):
    """A model of an IPUStrategy that is a subclass of keras.Model."""

    kinds, others = ("Model",), ("Functional", "Sequential")
