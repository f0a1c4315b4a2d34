"""Loads the native library as soon as a dataset file has imported TensorFlow.

    run_file --import torch--> torch, triton
             --import tensorflow--> TensorFlow --> libipufeed.so, before its first op

A file without TensorFlow runs before it is loaded: triton, torch's compiler, crashes the
process where TensorFlow came first (TensorFlow 2.21; `import tensorflow, triton`). So
triton is imported before TensorFlow if the file has imported torch, or has a function that
imports a module of another package, which may be one that imports torch.
"""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import sys
import threading
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

from ipufeed import _quiet_import

TENSORFLOW = "tensorflow"
# Packages that do not import torch.
WITHOUT_TORCH = {TENSORFLOW, "ipufeed", "numpy", *sys.stdlib_module_names}


@contextlib.contextmanager
def loads_native(file: Path) -> Iterator[None]:
    """Loads the native library when the block imports TensorFlow, or at its end.

    Args:
        file: The file that the block runs.

    Raises:
        NativeLibraryError: It cannot be loaded.
    """
    if TENSORFLOW in sys.modules:
        load_native()
    imports_later = _imports_later(file)
    finder = _Finder(imports_later)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        with contextlib.suppress(ValueError):  # the block has put others in its place
            sys.meta_path.remove(finder)
    load_native(imports_later)


def load_native(imports_later: bool = False) -> None:
    """Loads it, and TensorFlow if it is not there, without TensorFlow's messages.

    Args:
        imports_later: Whether what comes later may import torch.
    """
    with _quiet():
        from ipufeed import _native

        if TENSORFLOW not in sys.modules:
            _native.import_triton(imports_later)
        _native.load()


def _imports_later(file: Path) -> bool:
    """Whether a function of a file imports a module that may import torch."""
    try:
        tree = ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError):  # running it raises an error
        return False
    names = {
        name
        for function in ast.walk(tree)
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef))
        for node in ast.walk(function)
        for name in _imported(node)
    }
    return bool({name.partition(".")[0] for name in names} - WITHOUT_TORCH)


def _imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        return [node.module or ""] if not node.level else []
    return []


class _Finder:
    """Gives TensorFlow a loader that goes on with the native library."""

    def __init__(self, imports_later: bool) -> None:
        self._imports_later = imports_later
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
        imports_later = self._imports_later

        def exec_module(module: ModuleType) -> None:
            with _quiet():
                from ipufeed import _native

                _native.import_triton(imports_later)
                execute(module)
                _native.load()

        loader.exec_module = exec_module
        return spec


def _quiet() -> contextlib.AbstractContextManager[None]:
    # What other threads of the file print must not be withheld.
    if threading.active_count() > 1:
        return contextlib.nullcontext()
    return _quiet_import.quiet_stderr("3")  # TensorFlow also logs missing GPUs later
