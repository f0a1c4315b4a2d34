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

# Loaded at their first use: for the sake of commands that need no TensorFlow (`--help`),
# and so that a module that is not used costs nothing.
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
# Names of Graphcore's, so that `import ipufeed as ipu` is all that a program must change:
# modules, and what their package has itself. graphcore_names.py has the place of each.
_ALIASES = (
    "all_to_all_op",
    "application_compile_op",
    "config",
    "control_flow_ops",
    "cross_replica_ops",
    "cross_replica_optimizer",
    "custom_ops",
    "data",
    "dataset_extractor",
    "distributed",
    "eager",
    "embedded_runtime",
    "embedding_ops",
    "functional_ops",
    "grad_util_ops",
    "gradient_accumulation",
    "gradient_accumulation_optimizer",
    "horovod",
    "image_ops",
    "internal_ops",
    "ipu_compiler",
    "ipu_estimator",
    "ipu_infeed_queue",
    "ipu_multi_worker_strategy",
    "ipu_outfeed_queue",
    "ipu_pipeline_estimator",
    "ipu_run_config",
    "ipu_session_run_hooks",
    "ipu_strategy",
    "keras_extensions",
    "loops",
    "map_gradient_optimizer",
    "math_ops",
    "nn_ops",
    "normalization_ops",
    "ops",
    "optimizers",
    "pipelining_ops",
    "rand_ops",
    "reduce_scatter_op",
    "replication_ops",
    "scopes",
    "serving",
    "sharded_optimizer",
    "sharding",
    "slicing_ops",
    "statistics_ops",
    "utils",
    "vertex_edsl",
    "within_replica_ops",
)
_NAMES = (
    "IPUConfig",
    "IPUInfeedQueue",
    "IPUOutfeedMode",
    "IPUOutfeedQueue",
    "IPUStrategy",
    "configure_ipu_system",
    "outlined_function",
    "reset_ipu_configuration",
)

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


# So that `import ipufeed.loops` works, too. Nothing of them is loaded by that.
for _name in _ALIASES:
    importlib.import_module("ipufeed.compat").submodule(_name)

# Our own commands load the library themselves, after they have read their options.
if not _OWN_COMMAND:
    from ipufeed import _native

    _native.load()
    importlib.import_module("ipufeed.connect").connect()
