"""Measures tf.data pipelines, and says what the numbers leave out.

    measure(dataset)   the pipeline as training iterates it -> Result
    Result.to_json()   the JSON that `python -m ipufeed.benchmark` prints

    arguments --> script --> measure --> steady, calibration --> result --> summary
    the command   the file   natively    what counts             JSON       for people

The names below are loaded at their first use: the command reads its options, and answers
`--help`, without TensorFlow.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ipufeed.benchmark.dataset_benchmark import (
        dataset_benchmark,
        infeed_benchmark,
        partial_epochs,
    )
    from ipufeed.benchmark.measure import measure
    from ipufeed.benchmark.result import Result
    from ipufeed.benchmark.settings import Settings

__all__ = [
    "Result",
    "Settings",
    "dataset_benchmark",
    "infeed_benchmark",
    "measure",
    "partial_epochs",
]

_HOMES = {
    "Result": "result",
    "Settings": "settings",
    "dataset_benchmark": "dataset_benchmark",
    "infeed_benchmark": "dataset_benchmark",
    "measure": "measure",
    "partial_epochs": "dataset_benchmark",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        module = importlib.import_module(f"ipufeed.benchmark.{_HOMES[name]}")
        return getattr(module, name)
    raise AttributeError(f"module 'ipufeed.benchmark' has no attribute {name!r}")
