"""Measures tf.data pipelines and loaders of other frameworks.

    measure(dataset)               iterates the pipeline as training does -> Result
    with_stages(result, dataset)   adds the stages' times and advice to the result
    Result.to_json()               the JSON that `python -m ipufeed.benchmark` prints
    compare(base, new)             better, worse or cannot tell -> Comparison

    cli                        argv, options, exit codes
    load                       the dataset's file, or the built-in dataset
    loaders                    other frameworks' loaders: kinds, elements, the Python loop
    measuring                  the native op, the steady state, warnings -> Result
    device, cold, scaleout     other ways to run a dataset
    stages, advice             where the time goes, what to change
    graph                      reads and edits a dataset's graph
    comparing                  compares two results
    result, report             Settings and Result; their views
    process                    streams, signals, child processes
    plugin, selftest           the fixture of pytest; checks on sources of known rate

Uses ipufeed.device, ipufeed.executable, ipufeed.queues and ipufeed.sources. The names
below are loaded at first use: the command parses its options, and prints `--help`,
without TensorFlow.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

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


def __getattr__(name: str) -> object:
    if name in _HOMES:
        module = importlib.import_module(f"ipufeed.benchmark.{_HOMES[name]}")
        found: object = getattr(module, name)
        return found
    if name == "dataset_benchmark":
        return importlib.import_module("ipufeed.benchmark.dataset_benchmark")
    raise AttributeError(f"module 'ipufeed.benchmark' has no attribute {name!r}")
