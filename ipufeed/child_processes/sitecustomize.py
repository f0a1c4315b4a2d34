"""Python runs this file at the start of a child process of `python -m ipufeed.run`.

    start --> this file --> the sitecustomize that Python would have run without it
    import tensorflow  --> TensorFlow's own import --> ipufeed.child_processes.prepare()

A process that imports ipufeed first, such as one of ipufeed's commands, prepares itself:
there Graphcore's names are made importable when the first of them is imported. In the
process of `ipufeed.run` itself `install` does this, since ipufeed is imported there.

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
    """The first finder: prepares the process when TensorFlow has been imported.

    Args:
        runs_program: Whether this is the process of ipufeed.run. A module of ipufeed that
            its program imports then imports TensorFlow first.
    """

    def __init__(self, runs_program: bool) -> None:
        self._done = False
        self._runs_program = runs_program

    def find_spec(
        self, name: str, path: object = None, target: object = None
    ) -> ModuleSpec | None:
        """Returns the other finders' spec of TensorFlow, with a loader that prepares."""
        if self._done:
            return None
        if self._runs_program and name.startswith("ipufeed."):
            import tensorflow  # noqa: F401  # prepares

            return _spec_of_made(name)
        if name not in ("ipufeed", "tensorflow"):
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
        from importlib.util import find_spec

        self._done = True
        if find_spec("tensorflow") is None or not _find_ipufeed():
            return None
        import tensorflow  # noqa: F401  # may prepare, too

        from ipufeed import child_processes

        child_processes.prepare()
        return _spec_of_made(name)


def _spec_of_made(name: str) -> ModuleSpec | None:
    """Returns a spec that keeps a module of sys.modules; None if it is not there.

    It is taken out until it is loaded: of a module that has been imported during the
    search Python uses the module's own spec, and would run its code again.
    """
    from importlib.machinery import ModuleSpec

    if name not in sys.modules:
        return None
    loader: Any = _Made(sys.modules[name])
    del sys.modules[name]
    return ModuleSpec(name, loader)


class _Made:
    """The loader of a module that has its content."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module
        self._spec = module.__spec__

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Returns the module."""
        return self._module

    def exec_module(self, module: ModuleType) -> None:
        """Gives the module its own spec again, if it had one."""
        if self._spec is not None:
            module.__spec__ = self._spec


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


def install(*, runs_program: bool) -> None:
    """Adds the finders that prepare this process."""
    first, last = _AfterTensorFlow(runs_program), _OnRequest()
    sys.meta_path[:] = [first, *sys.meta_path, last]


if __name__ == "sitecustomize":
    install(runs_program=False)
    _run_next()
