"""The engine's calls as operations of a graph, which a SavedModel can hold.

Each is TensorFlow's PyFunc with a token of ours, which `import ipufeed` registers: another
process that has imported it finds the function. The token is what TensorFlow's error shows
where it is missing, so it says what to do.

    start:             path, name, timeout_us, values of the inputs...      -> name
    call:              name, components...                                  -> results...
    start_and_call:    path, name, timeout_us, number of inputs, inputs..., components...
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

_ADVICE = "(`import ipufeed` before this runs)"
START = f"ipufeed.embedded_runtime_start {_ADVICE}"
CALL = f"ipufeed.embedded_runtime_call {_ADVICE}"
START_AND_CALL = f"ipufeed.embedded_runtime_start_and_call {_ADVICE}"


def start_engine(path: Any, name: Any, timeout_us: Any, *inputs: Any) -> Any:
    """Starts an engine; gives its name."""
    from ipufeed.applications import engine, file

    if not engine.exists(_text(name)):
        application = file.read(Path(_text(path)))
        engine.start(_text(name), application, list(inputs), int(timeout_us) / 1e6)
    return name


def call_engine(name: Any, *components: Any) -> list[Any]:
    """The results of one call, as arrays."""
    from ipufeed.applications import engine

    results = engine.find(_text(name)).call(list(components))
    return [result.numpy() for result in results]


def start_and_call_engine(
    path: Any, name: Any, timeout_us: Any, count: Any, *values: Any
) -> list[Any]:
    """Both, with `count` inputs in front of the components."""
    at = int(count)
    start_engine(path, name, timeout_us, *values[:at])
    return call_engine(name, *values[at:])


_FUNCTIONS = {
    START: start_engine,
    CALL: call_engine,
    START_AND_CALL: start_and_call_engine,
}


def _text(value: Any) -> str:
    """A string of TensorFlow's, which NumPy has as bytes or an array of one."""
    found = value.item() if hasattr(value, "item") else value
    return found.decode() if isinstance(found, bytes) else str(found)


def install() -> None:
    """Registers the functions, so that graphs of other processes find them."""
    from tensorflow.python.ops import script_ops

    for token, function in _FUNCTIONS.items():
        script_ops._py_funcs._funcs[token] = function
