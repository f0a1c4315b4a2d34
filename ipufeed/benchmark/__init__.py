"""Measures tf.data pipelines and other loaders, and reports what the numbers leave out.

    measure(dataset)               the pipeline as training iterates it -> Result
    with_stages(result, dataset)   the same with what holds the pipeline back
    Result.to_json()               the JSON that `python -m ipufeed.benchmark` prints
    compare(base, new)             better, worse or cannot tell -> Comparison

    cli                        argv, options, exit codes; load: the dataset's file
    advice                     what to change        stages: where the time goes
    device, cold, scaleout     other ways to run a dataset
    measuring                  the native op, the steady state, warnings -> Result
    comparing                  two results           graph: reads and edits its graph
    loaders                    other frameworks' loaders: kinds, elements, the Python loop
    result, report, process    Settings and Result, their views, child processes

Uses every package below it. The names below are loaded at their first use: the command
reads its options, and answers `--help`, without TensorFlow.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ipufeed.benchmark import dataset_benchmark
    from ipufeed.benchmark.advice.with_stages import with_stages
    from ipufeed.benchmark.comparing.compare import Comparison, compare
    from ipufeed.benchmark.measuring.measure import measure
    from ipufeed.benchmark.result.result import Result
    from ipufeed.benchmark.result.settings import Settings

__all__ = [
    "Comparison",
    "Result",
    "Settings",
    "compare",
    "dataset_benchmark",
    "measure",
    "with_stages",
]

# No module may have the name of a function here: importing it would hide the function.
_HOMES = {
    "Comparison": "comparing.compare",
    "Result": "result.result",
    "Settings": "result.settings",
    "compare": "comparing.compare",
    "measure": "measuring.measure",
    "with_stages": "advice.with_stages",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        module = importlib.import_module(f"ipufeed.benchmark.{_HOMES[name]}")
        return getattr(module, name)
    if name == "dataset_benchmark":
        return importlib.import_module("ipufeed.benchmark.dataset_benchmark")
    raise AttributeError(f"module 'ipufeed.benchmark' has no attribute {name!r}")
