"""Finds the dataset, or the loader of another framework, that a file defines.

    dataset.py           `dataset`, else its only dataset, else its only factory; without
                         a tf.data dataset likewise its loaders, `loader` first
    dataset.py:name      that one: a dataset, a loader, or a function that returns one

A dataset file is a program, and running it is running its code: only the file that was
named is run, with its own folder first on sys.path, as `python dataset.py` would. Its
`if __name__ == "__main__":` part does not run.
"""

from __future__ import annotations

import difflib
import functools
import inspect
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ipufeed.benchmark.load.set_values import value_for
from ipufeed.benchmark.loaders.kinds import Remade, is_known, kind_of, why_not
from ipufeed.benchmark.loaders.stages import listen
from ipufeed.errors import DatasetFileError

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
# Under these names anything that can be iterated is a loader.
LOADER_NAMES = ("loader", "dataloader", "data_loader")
# Names in a message.
MOST_SHOWN = 8


def split_target(target: str) -> tuple[Path, str | None]:
    """`file.py:name` -> (file.py, name); a file whose own name has a colon wins."""
    if ":" in target and not Path(target).exists():
        path, name = target.rsplit(":", 1)
        if not name.isidentifier():
            raise DatasetFileError(
                f"`{target}` must be FILE.py or FILE.py:NAME, and {name!r} is not a name."
            )
        return Path(path), name
    return Path(target), None


def parse_assignments(assignments: list[str]) -> dict[str, str]:
    """`["batch_size=64", "path=data"]` -> the texts by name.

    What they mean is up to the parameter that they are for: see set_values.py.

    Raises:
        DatasetFileError: One is not of the form NAME=VALUE, or a name comes twice.
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
    """Runs a dataset file as a module of its own name.

    What it raises is passed on as it is, SystemExit and SyntaxError too.

    Raises:
        DatasetFileError: It cannot be read.
    """
    try:
        source = path.read_bytes()
    except OSError as error:
        reason = error.strerror or str(error)
        raise DatasetFileError(f"cannot read {path}: {reason}.") from error
    resolved = path.resolve()
    if b"spdl" in source:
        listen()  # a pipeline takes its hooks when it is built
    code = compile(source, str(path), "exec", dont_inherit=True)
    name = resolved.stem if resolved.stem.isidentifier() else "dataset_file"
    if name in sys.modules:  # a file called json.py must not replace json
        name = f"dataset_file_{name}"
    module = types.ModuleType(name)
    module.__file__ = str(resolved)
    sys.modules[name] = module  # pickle and dataclasses look their module up
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
) -> tuple[Any, str]:
    """The dataset of a module that has run, and what to call it.

    Args:
        module: From run_file.
        name: The dataset or factory that was asked for, or None.
        texts: Arguments for a factory, from parse_assignments.
        file: How to call the file in messages.
        on_note: Gets the note that a factory was passed over for a dataset.

    Raises:
        DatasetFileError: There is none, there are several, or `texts` do not fit.
    """
    import tensorflow as tf

    found = vars(module)
    datasets = {
        key: value
        for key, value in found.items()
        if isinstance(value, tf.data.Dataset) and not key.startswith("_")
    }
    if not datasets:
        datasets = loaders_of(found)
    factories = {
        key: value for key, value in found.items() if is_factory(key, value, module)
    }
    usual = [key for key in FACTORY_NAMES if key in factories]
    if not factories:  # a file may do nothing but import one
        factories = {
            key: found[key]
            for key in (*FACTORY_NAMES, *LOADER_NAMES, "dataset")
            if is_callable(found.get(key)) and kind_of(found[key]) is None
        }
    if name is None and not datasets and not factories and "dataset" in found:
        name = "dataset"  # of another kind, and refused as such
    if name is None:
        name = choose(datasets, factories, bool(texts), file)
        if name in datasets and usual:
            on_note(
                f"{file} has {usual[0]}() as well: measuring `{name}`. For the other "
                f"name it: {file}:{usual[0]}."
            )
    elif name not in found:
        others = [key for key in found if is_own_function(key, found[key], module)]
        functions = list(dict.fromkeys([*factories, *others]))
        known = likeliest(name, [*datasets, *(f"{key}()" for key in functions)])
        raise DatasetFileError(f"{file} defines no `{name}`. Found: {known}.")
    chosen = found[name]
    if isinstance(chosen, tf.data.Dataset) or kind_of(chosen) is not None:
        if texts:
            what = "dataset" if isinstance(chosen, tf.data.Dataset) else "loader"
            raise DatasetFileError(
                f"--set needs a factory to give the values to, and `{name}` in {file} is "
                f"a {what}. Define `def make_dataset({', '.join(texts)}): ...`."
            )
        return chosen, name
    if not is_callable(chosen):
        raise DatasetFileError(
            f"`{name}` in {file} must be a tf.data.Dataset, a loader that can be "
            f"iterated, or a function that returns one, got {type(chosen).__name__}."
            f"{advice_for(chosen)}"
        )
    return call_factory(chosen, name, texts, file), name


def loaders_of(found: dict[str, Any]) -> dict[str, Any]:
    """The loaders of other frameworks among a module's values.

    Whatever can be iterated under one of the usual names, else what a framework's own
    class is registered as one. What is called `loader` reads what is called `dataset`.
    """
    for names in (LOADER_NAMES, ("dataset",)):
        named = {
            key: found[key] for key in names if kind_of(found.get(key)) is not None
        }
        if named:
            return named
    return {
        key: value
        for key, value in found.items()
        if not key.startswith("_") and is_known(value)
    }


def is_factory(name: str, value: Any, module: types.ModuleType) -> bool:
    """Whether it makes a dataset, by its name or annotation, and is the file's own.

    Under one of the usual names anything will do that can be called: a function, a
    functools.partial, an object, what a decorator has made. Other names need a function
    that is annotated.
    """
    if not is_callable(value):
        return False
    if name in (*FACTORY_NAMES, *LOADER_NAMES, "dataset"):
        return not is_imported(name, value, module)
    if not inspect.isfunction(value) or value.__module__ != module.__name__:
        return False
    returns = str(value.__annotations__.get("return", ""))
    return "Dataset" in returns or "Loader" in returns


def is_own_function(name: str, value: Any, module: types.ModuleType) -> bool:
    """Whether the file itself defines it, for others to call; what it gives is unknown."""
    home = getattr(value, "__module__", None)
    return is_callable(value) and home == module.__name__ and not name.startswith("_")


def likeliest(name: str, known: list[str]) -> str:
    """A few of the names, those first that look like the one that was asked for."""
    plain = {each.removesuffix("()").casefold(): each for each in known}
    close = difflib.get_close_matches(name.casefold(), plain, n=MOST_SHOWN)
    ordered = list(dict.fromkeys([*(plain[each] for each in close), *known]))
    left = len(ordered) - MOST_SHOWN
    more = f" and {left} more" if left > 0 else ""
    return (", ".join(ordered[:MOST_SHOWN]) or "nothing") + more


def is_callable(value: Any) -> bool:
    """Whether calling it may give a dataset; a class gives an object of its own."""
    return callable(value) and not isinstance(value, type)


def is_imported(name: str, value: Any, module: types.ModuleType) -> bool:
    """Whether the file has it from another module, where it has the same name.

    That it was made by another module's decorator does not count.
    """
    home = sys.modules.get(getattr(value, "__module__", None) or "")
    return home is not None and home is not module and vars(home).get(name) is value


def choose(
    datasets: dict[str, Any], factories: dict[str, Any], with_values: bool, file: str
) -> str:
    """Picks one by the rule in this module's docstring, or raises with the reason."""
    # Values can only go to a factory, so with values it comes first.
    pools = [factories, datasets] if with_values else [datasets, factories]
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
    factory: Callable[..., Any], name: str, texts: dict[str, str], file: str
) -> Any:
    """Calls it with the values that were set, once they are known to fit."""
    import tensorflow as tf

    try:
        signature = signature_of(factory)
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
    given = {key: value_for(key, text, named.get(key)) for key, text in texts.items()}
    positional = [
        given.pop(key, parameter.default)
        for key, parameter in named.items()
        if parameter.kind is inspect.Parameter.POSITIONAL_ONLY
    ]
    make = functools.partial(factory, *positional, **given)
    dataset = make()
    kind = None if isinstance(dataset, tf.data.Dataset) else kind_of(dataset)
    if kind is not None and not kind.passes:
        return Remade(make, dataset)
    if not isinstance(dataset, tf.data.Dataset) and kind is None:
        raise DatasetFileError(
            f"{name}() in {file} must return a tf.data.Dataset or a loader that can be "
            f"iterated, got {type(dataset).__name__}.{advice_for(dataset)}"
        )
    return dataset


def signature_of(factory: Callable[..., Any]) -> inspect.Signature:
    """Its signature, with annotations that are text evaluated where that is possible."""
    try:
        return inspect.signature(factory, eval_str=True)
    except Exception:  # whatever the text raises, such as a name for type checkers only
        return inspect.signature(factory)


def advice_for(value: Any) -> str:
    """How to make a dataset of what is none, after a space; empty if unknown."""
    import tensorflow as tf

    if value is None:
        return " Is a `return` missing?"
    if inspect.iscoroutine(value):
        value.close()  # else Python warns, later, that it was never awaited
        return " Make it a plain function, without `async`."
    reason = why_not(value)
    if reason is not None:
        return f" {reason}"
    if isinstance(value, tf.data.Iterator):
        return " Define the dataset that the iterator was made from."
    if isinstance(value, tf.distribute.DistributedDataset):
        return (
            " Define the dataset that was distributed: one host's pipeline is measured."
        )
    if isinstance(value, (list, tuple, dict)) or hasattr(value, "__array__"):
        return " Make one of it with tf.data.Dataset.from_tensor_slices."
    return ""
