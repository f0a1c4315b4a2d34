"""Benchmarks tf.data pipelines, feeds accelerators, and simulates one.

    tf.data.Dataset --> feeder --> ring --> consumer --> statistics
                        thread     bounded, lock-free    rates, latencies, shares

`ipufeed.benchmark.measure(dataset)` and `python -m ipufeed.benchmark dataset.py` say how
fast a pipeline is; `ipufeed.dataset_benchmark.dataset_benchmark` gives the classic JSON.

Import it before TensorFlow runs its first op: TensorFlow lists its devices once.
"""

from __future__ import annotations

import sys


def _runs_own_command() -> bool:
    """Whether this is `python -m ipufeed.something`, about to be run.

    While Python looks for the module, it sets sys.argv[0] to "-m"; which module it looks
    for is in sys.orig_argv.
    """
    if sys.argv[:1] != ["-m"]:
        return False
    options = " ".join(sys.orig_argv[1:])
    return "-m ipufeed." in options or "-mipufeed." in options


_OWN_COMMAND = _runs_own_command()
if _OWN_COMMAND and not __file__.startswith(sys.path[0] + "/"):
    # `python -m` puts the working directory first. A numpy.py that happens to lie there
    # must not become part of a measurement.
    del sys.path[0]

import importlib  # noqa: E402
from typing import Any  # noqa: E402

from ipufeed._version import __version__  # noqa: E402

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


# Our own commands load the library themselves, after they have read their options.
if not _OWN_COMMAND:
    from ipufeed import _native

    _native.load()
