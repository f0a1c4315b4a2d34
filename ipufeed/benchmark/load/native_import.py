"""Loads the native library as soon as a dataset file has imported TensorFlow.

    run_file --import torch--> torch, triton
             --import tensorflow--> TensorFlow --> libipufeed.so, before its first op

A file without TensorFlow runs before it is loaded: triton, torch's compiler, crashes the
process where TensorFlow came first (TensorFlow 2.21; `import tensorflow, triton`).
"""

from __future__ import annotations

import contextlib
import importlib.util
import sys
import threading
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from ipufeed import _quiet_import

TENSORFLOW = "tensorflow"


@contextlib.contextmanager
def loads_native() -> Iterator[None]:
    """Loads the native library when the block imports TensorFlow, or at its end.

    Raises:
        NativeLibraryError: It cannot be loaded.
    """
    if TENSORFLOW in sys.modules:
        load_native()
    finder = _Finder()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        with contextlib.suppress(ValueError):  # the block has put others in its place
            sys.meta_path.remove(finder)
    load_native()


def load_native() -> None:
    """Loads it, and TensorFlow if it is not there, without TensorFlow's messages."""
    with _quiet():
        if TENSORFLOW not in sys.modules:
            _import_triton()
        from ipufeed import _native

        _native.load()


class _Finder:
    """Gives TensorFlow a loader that goes on with the native library."""

    def __init__(self) -> None:
        self._searches = False

    def find_spec(
        self, name: str, path: object = None, target: object = None
    ) -> ModuleSpec | None:
        """Returns the other finders' spec of TensorFlow; None for other modules."""
        if name != TENSORFLOW or self._searches:
            return None
        self._searches = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self._searches = False
        if spec is None or spec.loader is None:
            return spec
        loader: Any = spec.loader
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            with _quiet():
                _import_triton()
                execute(module)
                from ipufeed import _native

                _native.load()

        loader.exec_module = exec_module
        return spec


def _import_triton() -> None:
    """Imports triton if the file has imported torch, which would do so later."""
    if "torch" in sys.modules:
        with contextlib.suppress(ImportError):
            importlib.import_module("triton")


def _quiet() -> contextlib.AbstractContextManager[None]:
    # What other threads of the file print must not be withheld.
    if threading.active_count() > 1:
        return contextlib.nullcontext()
    return _quiet_import.quiet_stderr("3")  # TensorFlow also logs missing GPUs later
