"""Benchmarks tf.data pipelines, feeds accelerators, and simulates one.

    tf.data.Dataset --> feeder --> ring --> consumer --> statistics
                        thread     bounded, lock-free    rates, latencies, shares

`ipufeed.benchmark.measure(dataset)` and `python -m ipufeed.benchmark dataset.py` say how
fast a pipeline is; `ipufeed.dataset_benchmark.dataset_benchmark` gives the classic JSON.

Import it before TensorFlow runs its first op: TensorFlow lists its devices once.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

from ipufeed._version import __version__

__all__ = ["__version__", "benchmark", "dataset_benchmark", "errors"]

# Loaded at their first use: benchmark for the sake of commands that need no TensorFlow
# (`--help`), and so that nothing but a benchmark pays for it.
_LAZY = {
    "benchmark": "ipufeed.benchmark",
    "dataset_benchmark": "ipufeed.benchmark.dataset_benchmark",
    "errors": "ipufeed.errors",
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        module = importlib.import_module(_LAZY[name])
        globals()[name] = module
        return module
    raise AttributeError(f"module 'ipufeed' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)


# While `python -m` looks for a module inside this package, Python sets sys.argv[0] to
# "-m". Our own commands load the library themselves, after they have read their options.
if sys.argv[:1] != ["-m"]:
    from ipufeed import _native

    _native.load()
