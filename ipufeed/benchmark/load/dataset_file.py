"""Finds the dataset, or the loader of another framework, that a file defines.

    dataset.py           `dataset`, else its only dataset, else its only factory; without
                         a tf.data dataset likewise its loaders, `loader` first
    dataset.py:name      that name: a dataset, a loader, or a function that returns one

A dataset file is a program, which is executed as `python dataset.py` would, with its own
folder first on sys.path. No other file is executed, nor is its
`if __name__ == "__main__":` part.
"""

from __future__ import annotations

import difflib
import functools
import importlib
import inspect
import sys
import types
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeGuard

from ipufeed.benchmark.load.set_values import value_for
from ipufeed.benchmark.loaders.stages import listen
from ipufeed.errors import DatasetFileError
from ipufeed.sources.loaders import kinds

# A tf.data.Dataset, or a loader of another framework.
Source = object
Factory = Callable[..., Source]

FACTORY_NAMES = (
    "make_dataset",
    "build_dataset",
    "get_dataset",
    "create_dataset",
    "load_dataset",
    "input_fn",
    "make_loader",
    "build_loader",
    "get_loader",
    "create_loader",
    "make_dataloader",
    "build_dataloader",
    "get_dataloader",
    "create_dataloader",
    "make_pipeline",
    "build_pipeline",
)
# Any iterable of one of these names is taken for a loader.
LOADER_NAMES = ("loader", "dataloader", "data_loader")
# The most names in a message.
MOST_SHOWN = 8


def split_target(target: str) -> tuple[Path, str | None]:
    """Splits `file.py:name`, unless there is a file with the whole text as its name."""
    if ":" in target and not Path(target).exists():
        path, name = target.rsplit(":", 1)
        if not name.isidentifier():
            raise DatasetFileError(
                f"`{target}` must be FILE.py or FILE.py:NAME, and {name!r} is not a name."
            )
        return Path(path), name
    return Path(target), None


def parse_assignments(assignments: list[str]) -> dict[str, str]:
    """Returns the texts by name of `["batch_size=64", "path=data"]`.

    set_values.py converts them to the type of the factory's parameter.

    Raises:
        DatasetFileError: An entry is not NAME=VALUE, or a name occurs twice.
    """
    texts: dict[str, str] = {}
    for assignment in assignments:
        name, equals, text = assignment.partition("=")
        if not equals or not name.isidentifier():
            raise DatasetFileError(
                f"--set must be NAME=VALUE, got {assignment!r}: for example "
                "--set batch_size=64."
            )
        if name in texts:
            raise DatasetFileError(f"--set {name} is given twice.")
        texts[name] = text
    return texts


def run_file(path: Path) -> types.ModuleType:
    """Executes a dataset file as a module named after it.

    The file's own exceptions pass through unchanged, also SystemExit and SyntaxError.

    Raises:
        DatasetFileError: The file cannot be read.
    """
    try:
        source = path.read_bytes()
    except OSError as error:
        reason = error.strerror or str(error)
        raise DatasetFileError(f"cannot read {path}: {reason}.") from error
    resolved = path.resolve()
    if b"spdl" in source:
        listen()  # a pipeline gets its hooks when it is built
    code = compile(source, str(path), "exec", dont_inherit=True)
    # A worker that is spawned imports it by this name, with the file's folder on sys.path.
    name = resolved.stem if "." not in resolved.stem else "dataset_file"
    if name in sys.stdlib_module_names:
        importlib.import_module(name)  # before the file's folder is on sys.path
    if name in sys.modules:  # a file called json.py must not replace json
        name = f"dataset_file_{name}"
    module = types.ModuleType(name)
    module.__file__ = str(resolved)
    sys.modules[name] = module  # pickle and dataclasses import their module
    sys.path.insert(0, str(resolved.parent))
    sys.argv = [str(path)]
    exec(code, module.__dict__)
    return module


def find_dataset(
    module: types.ModuleType,
    name: str | None,
    texts: dict[str, str],
    file: str,
    on_note: Callable[[str], None] = lambda note: None,
) -> tuple[Source, str]:
    """Returns the dataset or loader of an executed module, and its name.

    Args:
        module: From run_file.
        name: The dataset or factory that the command line names, or None.
        texts: Arguments for a factory, from parse_assignments.
        file: The file's name in messages.
        on_note: Gets a note if a factory was ignored because of a dataset.

    Raises:
        DatasetFileError: The module has none, has several, or `texts` do not fit.
    """
    import tensorflow as tf

    found = vars(module)
    datasets = {
        key: value
        for key, value in found.items()
        if isinstance(value, tf.data.Dataset) and not key.startswith("_")
    }
    if not datasets:
        datasets = _loaders_of(found)
    factories = {
        key: value for key, value in found.items() if _is_factory(key, value, module)
    }
    usual = [key for key in FACTORY_NAMES if key in factories]
    makes_loader = any("loader" in key or "pipeline" in key for key in usual)
    if makes_loader and not any(
        key in LOADER_NAMES or isinstance(value, tf.data.Dataset)
        for key, value in datasets.items()
    ):
        datasets = {}  # what the loader reads
    if not factories:  # a file may only import one
        factories = {
            key: found[key]
            for key in (*FACTORY_NAMES, *LOADER_NAMES, "dataset")
            if _is_callable(found.get(key)) and kinds.kind_of(found[key]) is None
        }
    if name is None and not datasets and not factories:
        # Of another type, which is refused below.
        refused = [key for key in ("dataset", *LOADER_NAMES) if key in found]
        name = refused[0] if refused else None
    if name is None:
        name = _choose(datasets, factories, bool(texts), file)
        if name in datasets and usual:
            on_note(
                f"{file} has {usual[0]}() as well: measuring `{name}`. For the other "
                f"name it: {file}:{usual[0]}."
            )
    elif name not in found:
        others = [key for key in found if _is_own_function(key, found[key], module)]
        functions = list(dict.fromkeys([*factories, *others]))
        known = _likeliest(name, [*datasets, *(f"{key}()" for key in functions)])
        raise DatasetFileError(f"{file} defines no `{name}`. Found: {known}.")
    chosen = found[name]
    if isinstance(chosen, tf.data.Dataset) or kinds.kind_of(chosen) is not None:
        if texts:
            what = "dataset" if isinstance(chosen, tf.data.Dataset) else "loader"
            raise DatasetFileError(
                f"--set needs a factory to give the values to, and `{name}` in {file} is "
                f"a {what}. Define `def make_dataset({', '.join(texts)}): ...`."
            )
        return chosen, name
    if not _is_callable(chosen):
        raise DatasetFileError(
            f"`{name}` in {file} must be a tf.data.Dataset, a loader that can be "
            f"iterated, or a function that returns one, got {type(chosen).__name__}."
            f"{_advice_for(chosen)}"
        )
    return call_factory(chosen, name, texts, file), name


def _loaders_of(found: dict[str, object]) -> dict[str, object]:
    """Returns the loaders of other frameworks among a module's values.

    Iterables with one of the usual names, else objects of a framework's loader class.
    LOADER_NAMES come before `dataset`, which the loader usually reads.
    """
    for names in (LOADER_NAMES, ("dataset",)):
        named = {
            key: found[key]
            for key in names
            if kinds.kind_of(found.get(key)) is not None
        }
        if named:
            return named
    return {
        key: value
        for key, value in found.items()
        if not key.startswith("_") and kinds.is_known(value)
    }


def _is_factory(name: str, value: object, module: types.ModuleType) -> bool:
    """Whether the file defines it to make a dataset, by its name or annotation.

    With one of the usual names any callable will do: a function, a functools.partial, an
    object, the result of a decorator. Other names need an annotated function.
    """
    if not _is_callable(value):
        return False
    if name in (*FACTORY_NAMES, *LOADER_NAMES, "dataset"):
        return not _is_imported(name, value, module)
    if not inspect.isfunction(value) or value.__module__ != module.__name__:
        return False
    returns = str(value.__annotations__.get("return", ""))
    return "Dataset" in returns or "Loader" in returns


def _is_own_function(name: str, value: object, module: types.ModuleType) -> bool:
    """Whether it is a public callable of the file; its return value is unknown."""
    home = getattr(value, "__module__", None)
    return _is_callable(value) and home == module.__name__ and not name.startswith("_")


def _likeliest(name: str, known: list[str]) -> str:
    """Returns a few of the names as text, those similar to `name` first."""
    plain = {each.removesuffix("()").casefold(): each for each in known}
    close = difflib.get_close_matches(name.casefold(), plain, n=MOST_SHOWN)
    ordered = list(dict.fromkeys([*(plain[each] for each in close), *known]))
    left = len(ordered) - MOST_SHOWN
    more = f" and {left} more" if left > 0 else ""
    return (", ".join(ordered[:MOST_SHOWN]) or "nothing") + more


def _is_callable(value: object) -> TypeGuard[Factory]:
    """Whether calling it may return a dataset; a class returns its own instance."""
    return callable(value) and not isinstance(value, type)


def _is_imported(name: str, value: object, module: types.ModuleType) -> bool:
    """Whether another module has it under the same name.

    A value that another module's decorator made is not imported.
    """
    home = sys.modules.get(getattr(value, "__module__", None) or "")
    return home is not None and home is not module and vars(home).get(name) is value


def _choose(
    datasets: dict[str, object],
    factories: dict[str, Factory],
    with_values: bool,
    file: str,
) -> str:
    """Returns the name by the rule in this module's docstring."""
    # Only a factory takes values, so with values it comes first.
    pools: list[Mapping[str, object]] = [datasets, factories]
    if with_values:
        pools.reverse()
    for pool in pools:
        for usual in ("dataset", *LOADER_NAMES):
            if usual in pool:
                return usual
        if len({id(value) for value in pool.values()}) == 1:  # `train = best = ...`
            return next(iter(pool))
        if len(pool) > 1:
            shown = ", ".join(sorted(pool))
            raise DatasetFileError(
                f"{file} has several to choose from: {shown}. Call one `dataset`, or "
                f"name it: {file}:{sorted(pool)[0]}."
            )
    raise DatasetFileError(
        f"{file} has no dataset: define `dataset`, or a function `make_dataset()` that "
        "returns one, at the top level; of another framework `loader` or `make_loader()`."
    )


def call_factory(
    factory: Factory, name: str, texts: dict[str, str], file: str
) -> Source:
    """Calls a factory with the values of --set, after checking that they fit.

    Raises:
        DatasetFileError: They do not fit, or the factory returned something else.
    """
    import tensorflow as tf

    try:
        signature = _signature_of(factory)
    except (TypeError, ValueError):  # written in C
        signature = inspect.Signature(
            [inspect.Parameter("values", inspect.Parameter.VAR_KEYWORD)]
        )
    takes_any = any(
        parameter.kind is inspect.Parameter.VAR_KEYWORD
        for parameter in signature.parameters.values()
    )
    named = {
        key: parameter
        for key, parameter in signature.parameters.items()
        if parameter.kind
        not in (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    }
    unknown = [key for key in texts if key not in named]
    if unknown and not takes_any:
        takes = ", ".join(named) or "no arguments"
        raise DatasetFileError(
            f"{name}() in {file} takes no `{unknown[0]}`. It takes: {takes}."
        )
    missing = [
        key
        for key, parameter in named.items()
        if parameter.default is inspect.Parameter.empty and key not in texts
    ]
    if missing:
        sets = " ".join(f"--set {key}=VALUE" for key in missing)
        raise DatasetFileError(
            f"{name}() in {file} needs {', '.join(f'`{key}`' for key in missing)}. "
            f"Give {sets}."
        )
    try:
        given = {
            key: value_for(key, text, named.get(key)) for key, text in texts.items()
        }
    except DatasetFileError as error:
        raise DatasetFileError(f"{name}() in {file}: {error}") from None
    positional = [
        given.pop(key, parameter.default)
        for key, parameter in named.items()
        if parameter.kind is inspect.Parameter.POSITIONAL_ONLY
    ]
    make = functools.partial(factory, *positional, **given)
    dataset = kinds.as_loader(make())
    kind = None if isinstance(dataset, tf.data.Dataset) else kinds.kind_of(dataset)
    if kind is not None and not kind.passes:
        return kinds.Remade(make, dataset)
    if not isinstance(dataset, tf.data.Dataset) and kind is None:
        raise DatasetFileError(
            f"{name}() in {file} must return a tf.data.Dataset or a loader that can be "
            f"iterated, got {type(dataset).__name__}.{_advice_for(dataset)}"
        )
    return dataset


def _signature_of(factory: Factory) -> inspect.Signature:
    """Returns the signature, with annotations that are text evaluated if possible."""
    try:
        return inspect.signature(factory, eval_str=True)
    except Exception:  # from evaluating the text, such as a name for type checkers only
        return inspect.signature(factory)


def _advice_for(value: object) -> str:
    """Returns how to make a dataset of a value, after a space; empty if unknown."""
    import tensorflow as tf

    if value is None:
        return " Is a `return` missing?"
    if inspect.iscoroutine(value):
        value.close()  # or Python warns later that it was never awaited
        return " Make it a plain function, without `async`."
    reason = kinds.why_not(value)
    if reason is not None:
        return f" {reason}"
    if isinstance(value, (tf.data.Iterator, tf.data.NumpyIterator)):
        return " Define the dataset that the iterator was made from."
    if isinstance(value, tf.distribute.DistributedDataset):
        return (
            " Define the dataset that was distributed: one host's pipeline is measured."
        )
    if isinstance(value, (list, tuple, dict)) or hasattr(value, "__array__"):
        return " Make one of it with tf.data.Dataset.from_tensor_slices."
    if hasattr(type(value), "__enter__"):
        return " Enter this context manager in the file, and return what it gives."
    if isinstance(value, type):
        return " It is a class: give an object of it."
    if hasattr(type(value), "__next__"):
        return " A `for` loop needs `__iter__` or `__getitem__`."
    return ""
