"""Compiled programs: the cache, causes of recompilation, reports and traces.

    program -> key -> in memory? -> on disk? -> compile -> <key>.poplar_exec
                                                  |
                              stats() explain() no_recompile() reports

Order of the packages: hlo, program, store, then explanation, tracing and report, then
compile, then commands (`python -m ipufeed.executable`, the same for files). Uses
ipufeed.device and ipufeed.queues.
"""

from __future__ import annotations

import importlib
from typing import Any

_NAMES = {
    "ExecutableStats": "store.counters",
    "explain": "explanation.explain",
    "no_recompile": "compile.no_recompile",
    "reset_stats": "store.counters",
    "stats": "store.counters",
    "trace": "tracing.recorder",
}
__all__ = sorted(_NAMES)


def __getattr__(name: str) -> Any:
    if name not in _NAMES:
        raise AttributeError(f"module 'ipufeed.executable' has no attribute {name!r}")
    module = importlib.import_module(f"ipufeed.executable.{_NAMES[name]}")
    value = globals()[name] = getattr(module, name)
    return value


def __dir__() -> list[str]:
    return __all__
