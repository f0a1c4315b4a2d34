"""Optimizers of Graphcore's `ipu.keras.optimizers` and of its addons.

    wrappers     IpuOptimizer, CrossReplicaOptimizer, MapGradientOptimizer, ...
    accumulating GradientAccumulationOptimizer in a loop
    with_extras  SGDIpuOptimizer, AdamIpuOptimizer
    lamb         LAMBIpuOptimizer

They are optimizers of the Keras in use (see layers/in_use.py), for `compile`, for
custom training loops and for pipelines. Uses layers, ipufeed.device and
ipufeed.parallel.
"""

from __future__ import annotations

import importlib
from typing import Any

_NAMES = {
    "AdamIpuOptimizer": "with_extras",
    "CrossReplicaOptimizer": "wrappers",
    "GradientAccumulationOptimizer": "wrappers",
    "IpuOptimizer": "wrappers",
    "LAMBIpuOptimizer": "lamb",
    "MapGradientOptimizer": "wrappers",
    "MapGradientOptimizerInvertedChaining": "wrappers",
    "SGDIpuOptimizer": "with_extras",
}
_REFUSED = {
    "ALSOptimizer": "keras.optimizers.LossScaleOptimizer",
    "ALSGradientAccumulationOptimizer": (
        "keras.optimizers.LossScaleOptimizer, and the model's "
        "`set_gradient_accumulation_options`"
    ),
}
__all__ = sorted(_NAMES)


def __getattr__(name: str) -> Any:
    if name in _REFUSED:
        raise AttributeError(
            f"`{name}` is not supported on a simulated IPU. Use {_REFUSED[name]}."
        )
    if name not in _NAMES:
        raise AttributeError(
            f"module 'ipufeed.keras.optimizers' has no attribute {name!r}"
        )
    module = importlib.import_module(f"ipufeed.keras.optimizers.{_NAMES[name]}")
    value = globals()[name] = getattr(module, name)
    return value


def __dir__() -> list[str]:
    return __all__
