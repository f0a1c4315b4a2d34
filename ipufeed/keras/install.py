"""Patches Keras once: models of an IPUStrategy get ipufeed's calls and methods.

`connect` makes IPUStrategy call `install`. A Keras that is imported later is patched after
its import: this package itself imports no Keras.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.abc
import inspect
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from ipufeed.device.program.strategy import current_strategy
from ipufeed.device.program.strategy_contexts import alone, outside_scope
from ipufeed.keras import calls, exporting, model_options, pipelining, saving
from ipufeed.keras.changes import adapting, files
from ipufeed.keras.checks.arguments import check_execution
from ipufeed.keras.data.dtypes import narrow_arrays
from ipufeed.keras.kit import Kit
from ipufeed.keras.programs import BUILT
from ipufeed.keras.refusals import (
    do_not_compile_for_host,
    refuse_to_compile,
    refuse_version_1,
    warn_that_host_runs,
)
from ipufeed.keras.state import ModelState, existing_state, state_of
from ipufeed.once import once
from ipufeed.tf_patches.changes import replace
from ipufeed.tf_types import KerasModel, NestFunction


@once
def install() -> None:
    """Patches each imported Keras now, and others when they are imported."""
    if sys.modules.get("keras") is not None:
        _change_keras3()
    if sys.modules.get("tf_keras") is not None:
        _change_legacy_keras()
    # Both functions act once.
    later = _AfterImport({"keras": _change_keras3, "tf_keras": _change_legacy_keras})
    sys.meta_path.insert(0, later)


def _change_keras3() -> None:
    # Another thread may be importing it, which calls this too: the import ends first, and
    # no thread waits for it while it has the lock of `once`.
    import keras  # noqa: F401

    _change_imported_keras3()


@once
def _change_imported_keras3() -> None:
    import keras

    if keras.backend.backend() != "tensorflow":
        return
    try:
        from ipufeed.keras import keras3
        from ipufeed.keras.changes import clipping, encoding, logs, weights
    except (ImportError, AttributeError) as error:
        raise ImportError(
            f"ipufeed cannot run models of Keras {keras.__version__} on an IPU: {error}. "
            "Use Keras 3.12 or later, or IPUStrategy(enable_keras_extensions=False)."
        ) from error
    change(keras3.KIT, keras3.MODEL, keras3.TRAINER, keras3.COMPILER)
    keras3.note_stages()
    encoding.encode_without_bincount()
    keras3.accept_arguments()
    keras3.move_optimizers()
    clipping.sum_before_clipping()
    logs.raise_interrupts()
    weights.add_weights_to_the_device()
    adapting.adapt_keras3()
    keras3.restore_options(_restoring(keras3.KIT))
    files.keep_options_of_keras3(_options_of, _restoring(keras3.KIT))
    files.save_without_the_scope()
    for name in ("add", "pop"):
        stock = getattr(keras.Sequential, name)
        replace(keras.Sequential, name, _changing_layers(stock))


def _change_legacy_keras() -> None:
    import tf_keras  # noqa: F401  # as above

    _change_imported_legacy_keras()


@once
def _change_imported_legacy_keras() -> None:
    import tf_keras

    try:
        from ipufeed.keras import legacy_keras
        from ipufeed.keras.changes import legacy
    except (ImportError, AttributeError) as error:
        raise ImportError(
            f"ipufeed cannot run models of tf_keras {tf_keras.__version__} on an IPU: "
            f"{error}. Use tf_keras 2.21, or "
            "IPUStrategy(enable_keras_extensions=False)."
        ) from error
    model = legacy_keras.MODEL
    change(legacy_keras.KIT, model, model, model)
    legacy_keras.note_stages()
    legacy_keras.move_optimizers()
    legacy_keras.restore_options(_restoring(legacy_keras.KIT))
    files.keep_options_of_tf_keras(_options_of, _restoring(legacy_keras.KIT))
    files.save_metrics_of_one_process()
    legacy.install()


def change(kit: Kit, model_class: type, trainer: type, compiler: type) -> None:
    """Installs the calls and the methods in the classes of a Keras.

    Args:
        kit: The kit of this Keras.
        model_class: Gets the `set_...` methods.
        trainer: Has fit, evaluate and predict.
        compiler: Has compile.
    """
    for on_ipus in (calls.fit, calls.evaluate, calls.predict):
        stock = getattr(trainer, on_ipus.__name__)
        replace(trainer, on_ipus.__name__, _dispatch(kit, stock, on_ipus))
    for name in ("train_on_batch", "test_on_batch", "predict_on_batch"):
        replace(trainer, name, _in_scope(kit, getattr(trainer, name)))
    stock_compile = compiler.compile  # type: ignore[attr-defined]
    signature = inspect.signature(stock_compile)

    def compile_here(
        model: KerasModel, state: ModelState, *arguments: object, **keywords: object
    ) -> None:
        found = signature.bind_partial(model, *arguments, **keywords).arguments
        check_execution(found.get("steps_per_execution"))
        if not kit.takes_version_1:
            refuse_version_1(found.get("optimizer"))
        stock_compile(model, *arguments, **keywords)
        model.__dict__.pop(BUILT, None)
        kit.adopt(model)
        model_options.take_from_optimizer(model, state)
        state.forget_programs()
        state.functions.clear()

    replace(compiler, "compile", _dispatch(kit, stock_compile, compile_here))
    stock_config = model_class.get_build_config  # type: ignore[attr-defined]

    @functools.wraps(stock_config)
    def get_build_config(model: KerasModel) -> Any:
        config, options = stock_config(model), _options_of(model)
        return config if options is None else {**(config or {}), files.KEY: options}

    replace(model_class, "get_build_config", get_build_config)
    for option in model_options.METHODS:
        replace(model_class, option.__name__, _method(kit, option))
    for method in (*pipelining.METHODS, exporting.export_for_ipu_serving):
        replace(model_class, method.__name__, _method(kit, method, with_model=True))


def _dispatch(kit: Kit, stock: NestFunction, on_ipus: NestFunction) -> NestFunction:
    """Returns a method: `on_ipus` for models of an IPUStrategy, Keras's own for others."""

    @functools.wraps(stock)
    def method(self: KerasModel, *arguments: object, **keywords: object) -> object:
        state = state_of(self, kit)
        if state is None:
            with _on_host(self, stock.__name__):
                return stock(self, *arguments, **keywords)
        with state.running, alone(), state.strategy.scope():
            return on_ipus(self, state, *arguments, **keywords)

    return method


def _on_host(model: KerasModel, call: str) -> contextlib.AbstractContextManager[object]:
    """Returns the context of a call of a model that was not made in an IPU's scope."""
    strategy = current_strategy()
    inside = strategy is not None and strategy._enable_keras_extensions
    if call == "compile":
        if inside:
            refuse_to_compile(model)
        return contextlib.nullcontext()
    do_not_compile_for_host(model)
    if not inside:
        return contextlib.nullcontext()
    warn_that_host_runs(model, call)
    return outside_scope()


def _in_scope(kit: Kit, stock: NestFunction) -> NestFunction:
    """Returns Keras's own method, run in the strategy scope of the model."""

    def on_ipus(
        model: KerasModel, state: ModelState, *arguments: object, **keywords: object
    ) -> object:
        state.kit.prepare_batch(model)
        arguments, keywords = narrow_arrays((arguments, keywords))
        return stock(model, *arguments, **keywords)

    return _dispatch(kit, stock, on_ipus)


def _method(kit: Kit, option: NestFunction, with_model: bool = False) -> NestFunction:
    @functools.wraps(option)
    def method(self: KerasModel, *arguments: object, **keywords: object) -> object:
        state = state_of(self, kit)
        if state is None:
            raise ValueError(
                f"{type(self).__name__} can only be used on an IPU device: "
                f"`{option.__name__}` needs a model that was made in the scope of an "
                "IPUStrategy with enable_keras_extensions=True."
            )
        if option.__name__.startswith(("set", "reset")):
            state.forget_programs()
        if not with_model:
            return option(state, *arguments, **keywords)
        with state.strategy.scope():  # `call` of a subclass may be followed
            return option(state, self, *arguments, **keywords)

    return method


def _changing_layers(stock: NestFunction) -> NestFunction:
    """Returns `add` or `pop` of a Sequential, after which its stages are unknown."""

    @functools.wraps(stock)
    def method(self: KerasModel, *arguments: object, **keywords: object) -> object:
        result = stock(self, *arguments, **keywords)
        # Keras's constructor adds layers, too: a new model has no state yet.
        if (state := existing_state(self)) is not None:
            pipelining.forget_graph(state, self)
        return result

    return method


def _options_of(model: KerasModel) -> dict[str, Any] | None:
    """Returns a model's options for its file; None: it is not a model of an IPU."""
    state = existing_state(model)
    return None if state is None else saving.options_of(model, state)


def _restoring(kit: Kit) -> Callable[[Any, dict[str, Any] | None], None]:
    """Returns the function that sets a file's options on the loaded model."""

    def restore(model: KerasModel, options: dict[str, Any] | None) -> None:
        state = state_of(model, kit) if options else None
        if state is not None and options:
            saving.restore(state, options)

    return restore


class _AfterImport(importlib.abc.MetaPathFinder):
    """Calls a function when a package has been imported."""

    def __init__(self, functions: dict[str, Callable[[], None]]) -> None:
        self._functions = functions

    def find_spec(
        self,
        name: str,
        path: Sequence[str] | None = None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        """Returns the other finders' spec, whose loader calls the function afterwards.

        For each search: that of `importlib.util.find_spec` need not end in an import.
        """
        function = self._functions.get(name)
        if function is None:
            return None
        found = (
            finder.find_spec(name, path, target)
            for finder in sys.meta_path
            if finder is not self and hasattr(finder, "find_spec")
        )
        spec = next((each for each in found if each is not None), None)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            function()

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec
