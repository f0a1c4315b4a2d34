"""The original's classes of what a model of an IPUStrategy is, for `isinstance`.

    isinstance(model, ipufeed.keras.extensions.SequentialExtension)

No model derives from them: they ask what was made in the scope of an IPUStrategy with
enable_keras_extensions=True, and of which kind it is.
"""

from __future__ import annotations

from typing import Any

from ipufeed.device.program.strategy import IPUStrategyV1
from ipufeed.keras.state import strategy_of


class _Asks(type):
    """Answers `isinstance` by the kind of model, which is the name of its Keras's class."""

    kinds: tuple[str, ...]
    others: tuple[str, ...]

    def __instancecheck__(cls, instance: Any) -> bool:
        strategy = strategy_of(instance) if hasattr(instance, "__dict__") else None
        if not isinstance(strategy, IPUStrategyV1):
            return False
        names = {each.__name__ for each in type(instance).__mro__}
        return (
            strategy._enable_keras_extensions
            and names.issuperset(cls.kinds)
            and not names.intersection(cls.others)
        )


class FunctionalExtension(metaclass=_Asks):
    """A functional model of an IPUStrategy."""

    kinds, others = ("Functional",), ("Sequential",)


class SequentialExtension(metaclass=_Asks):
    """A Sequential of an IPUStrategy."""

    kinds, others = ("Sequential",), ()


class ModelExtension(metaclass=_Asks):
    """A model of an IPUStrategy that is a subclass of keras.Model."""

    kinds, others = ("Model",), ("Functional", "Sequential")
