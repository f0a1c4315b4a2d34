"""Python runs this file at the start of a child process of `python -m ipufeed.run`.

    start --> this file --> the sitecustomize that Python would have run without it
    import tensorflow  --> TensorFlow's own import --> ipufeed.child_processes.prepare()

A process that imports ipufeed first, such as one of ipufeed's commands, prepares itself:
there Graphcore's names are made importable when the first of them is imported.

It imports nothing of ipufeed at its top, and its folder does not stay on sys.path: the
child may run in another environment, without ipufeed or TensorFlow.
"""

from __future__ import annotations

import os
import sys

# Each Python process pays for what is imported here; these are there.
from _frozen_importlib import module_from_spec
from _frozen_importlib_external import PathFinder

TYPE_CHECKING = False  # `typing` takes ten times as long as the rest of this file
if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any

HERE = os.path.dirname(os.path.abspath(__file__))
HOME = os.path.dirname(os.path.dirname(HERE))
# What programs import without TensorFlow's top module, or after ipufeed's.
PACKAGES = ("popdist", "ipu_tensorflow_addons")
INSIDE = ("tensorflow.python.ipu", "tensorflow.compiler.plugin")


class _AfterTensorFlow:
    """The first finder: prepares the process when TensorFlow has been imported."""

    def __init__(self) -> None:
        self._done = False

    def find_spec(
        self, name: str, path: object = None, target: object = None
    ) -> ModuleSpec | None:
        """Returns the other finders' spec of TensorFlow, with a loader that prepares."""
        if self._done or name not in ("ipufeed", "tensorflow"):
            return None
        self._done = True
        if name == "ipufeed":  # loads TensorFlow itself
            return None
        from importlib.util import find_spec

        try:
            spec = find_spec(name)
            if spec is None or spec.loader is None or not _find_ipufeed():
                return spec
        finally:
            self._done = False  # it may be a search without an import
        loader: Any = spec.loader
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            self._done = True
            with _quiet():
                execute(module)
                from ipufeed import child_processes

                child_processes.prepare()

        # Python leaves frames of its import system out of tracebacks.
        exec_module.__code__ = exec_module.__code__.replace(
            co_filename="<frozen importlib._bootstrap_external>"
        )
        loader.exec_module = exec_module
        return spec


class _OnRequest:
    """The last finder: prepares the process when a name of Graphcore's is imported."""

    def __init__(self) -> None:
        self._done = False

    def find_spec(
        self, name: str, path: object = None, target: object = None
    ) -> ModuleSpec | None:
        """Returns the spec of a module that `prepare` has made."""
        if self._done or not (name in PACKAGES or name.startswith(INSIDE)):
            return None
        from importlib.machinery import ModuleSpec
        from importlib.util import find_spec

        self._done = True
        if find_spec("tensorflow") is None or not _find_ipufeed():
            return None
        import tensorflow  # noqa: F401  # may prepare, too

        from ipufeed import child_processes

        child_processes.prepare()
        if name not in sys.modules:
            return None
        loader: Any = _Made()
        return ModuleSpec(name, loader)


class _Made:
    """The loader of a module that is in sys.modules."""

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Returns the module."""
        return sys.modules[spec.name]

    def exec_module(self, module: ModuleType) -> None:
        """Does nothing: the module has its content."""


def _find_ipufeed() -> bool:
    """Whether ipufeed can be imported; adds the checkout that the program runs from."""
    from importlib.util import find_spec

    if find_spec("ipufeed") is None:
        if os.environ.get("IPUFEED_PREFIX") != sys.prefix:
            return False  # another environment
        sys.path.append(HOME)
    return True


def _quiet() -> AbstractContextManager[object]:
    """Returns ipufeed's quiet_stderr, without importing ipufeed; one thread only."""
    import contextlib
    import threading
    from importlib.util import spec_from_file_location

    path = os.path.join(HOME, "ipufeed", "_quiet_import.py")
    spec = spec_from_file_location("_ipufeed_quiet_import", path)
    if threading.active_count() > 1 or spec is None or spec.loader is None:
        return contextlib.nullcontext()
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    quiet: AbstractContextManager[object] = module.quiet_stderr("1")
    return quiet


def _run_next() -> None:
    """Runs the sitecustomize that is found without this folder, if there is one."""
    sys.path[:] = [each for each in sys.path if os.path.abspath(each) != HERE]
    spec = PathFinder.find_spec("sitecustomize", sys.path)
    if spec is None or spec.loader is None:
        return
    module = sys.modules["sitecustomize"] = module_from_spec(spec)
    spec.loader.exec_module(module)


first, last = _AfterTensorFlow(), _OnRequest()
sys.meta_path[:] = [first, *sys.meta_path, last]
_run_next()
