"""Benchmarks tf.data pipelines, feeds accelerators, and simulates one.

    tf.data.Dataset --> feeder --> ring --> consumer --> statistics
                        thread     bounded, lock-free    rates, latencies, shares

`ipufeed.benchmark.measure(dataset)` and `python -m ipufeed.benchmark dataset.py` measure
a pipeline's speed; `ipufeed.dataset_benchmark.dataset_benchmark` gives Graphcore's JSON.

Import it before TensorFlow runs its first op: TensorFlow lists its devices once.

Each layer imports only what stands below it (CONTRIBUTING.md has a line for each folder):

    __main__, run, compat                        what people type, and Graphcore's names
    benchmark   keras   programs   applications  what they use it for
    ops   parallel
    executable                                   compiled programs: cache, reports, traces
    device                                       the simulated IPU
    queues   sources                             its feeds; datasets from files
    _native and other files                      ground: errors, checks, process state
    render   tf_patches                          text; what is changed in TensorFlow

`connect` joins the layers when the package is imported.
"""

from __future__ import annotations

import sys


def _runs_own_command() -> bool:
    """Whether Python is about to run `python -m ipufeed.something`.

    While Python looks for the module, sys.argv[0] is "-m"; its name is in sys.orig_argv.
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

from ipufeed import graphcore_names  # noqa: E402
from ipufeed._version import __version__  # noqa: E402

# Loaded at first use: commands such as `--help` need no TensorFlow, and a module that is
# not used costs nothing.
_MODULES = {
    "benchmark": "ipufeed.benchmark",
    "compat": "ipufeed.compat",
    "dataset_benchmark": "ipufeed.benchmark.dataset_benchmark",
    "device": "ipufeed.device",
    "errors": "ipufeed.errors",
    "executable": "ipufeed.executable",
    "keras": "ipufeed.keras",
    "parallel": "ipufeed.parallel",
    "queues": "ipufeed.queues",
    "sources": "ipufeed.sources",
}
# Graphcore's modules and names: a program for IPUs only changes to `import ipufeed as ipu`.
_ALIASES = sorted(
    {m for m in graphcore_names.MODULES if "." not in m} - _MODULES.keys()
)
_NAMES = sorted(graphcore_names.TOP)

__all__ = ["__version__", "no_recompile", *_MODULES, *_ALIASES, *_NAMES]


def __getattr__(name: str) -> Any:
    value: Any
    if name == "no_recompile":
        value = importlib.import_module("ipufeed.executable").no_recompile
    elif name in _MODULES:
        value = importlib.import_module(_MODULES[name])
    elif name in _ALIASES or name in _NAMES:
        compat = importlib.import_module("ipufeed.compat")
        is_module = name in _ALIASES
        value = compat.submodule(name) if is_module else compat.top_level(name)
    else:
        raise AttributeError(f"module 'ipufeed' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)


# Makes `import ipufeed.loops` work; loads nothing that the alias modules refer to.
for _name in _ALIASES:
    importlib.import_module("ipufeed.compat").submodule(_name)

# ipufeed's own commands load the library themselves, after they have read their options.
if not _OWN_COMMAND:
    from ipufeed import _native

    _native.load()
    importlib.import_module("ipufeed.connect").connect()
