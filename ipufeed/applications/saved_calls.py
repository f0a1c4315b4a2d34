"""The engine's calls as operations of a graph, for SavedModels and version 1 graphs.

Each is a PyFunc of TensorFlow with a token that `import ipufeed` registers, so that other
processes find its function. TensorFlow's error for an unknown token shows the token, which
therefore contains advice.

    start:             path, name, timeout_us, values of the inputs...      -> name
    call:              name, components...                                  -> results...
    start_and_call:    path, name, timeout_us, number of inputs, inputs..., components...
"""

from __future__ import annotations

from pathlib import Path

import tensorflow as tf
from tensorflow.python.ops import gen_script_ops, script_ops

from ipufeed.tf_patches.changes import add_entry
from ipufeed.tf_types import Spec, Tensor

_TOKENS = "tensorflow.python.ops.script_ops._py_funcs._funcs"
_ADVICE = "(`import ipufeed` before this runs)"
START = f"ipufeed.embedded_runtime_start {_ADVICE}"
CALL = f"ipufeed.embedded_runtime_call {_ADVICE}"
START_AND_CALL = f"ipufeed.embedded_runtime_start_and_call {_ADVICE}"


def _start_engine(
    path: Tensor, name: Tensor, timeout_us: Tensor, *inputs: Tensor
) -> Tensor:
    """Starts an engine, unless it exists; returns its name."""
    from ipufeed.applications import engine, file

    if not engine.exists(_text(name)):
        application = file.read(Path(_text(path)))
        engine.start(_text(name), application, list(inputs), int(timeout_us) / 1e6)
    return name


def _call_engine(name: Tensor, *components: Tensor) -> list[Tensor]:
    """Returns the results of one call, as arrays."""
    from ipufeed.applications import engine

    results = engine.find(_text(name)).call(list(components))
    return [result.numpy() for result in results]


def _start_and_call_engine(
    path: Tensor, name: Tensor, timeout_us: Tensor, count: Tensor, *values: Tensor
) -> list[Tensor]:
    """Starts and calls an engine; the first `count` values are inputs."""
    at = int(count)
    _start_engine(path, name, timeout_us, *values[:at])
    return _call_engine(name, *values[at:])


_FUNCTIONS = {
    START: _start_engine,
    CALL: _call_engine,
    START_AND_CALL: _start_and_call_engine,
}


def _text(value: Tensor) -> str:
    """Converts a string tensor's value, bytes or an array of them, to a str."""
    found = value.item() if hasattr(value, "item") else value
    return found.decode() if isinstance(found, bytes) else str(found)


def build(token: str, inputs: list[Tensor], specs: list[Spec]) -> list[Tensor]:
    """Builds the operation of a token, whose results have these tf.TensorSpecs."""
    with tf.device("/device:CPU:0"):
        results = gen_script_ops.py_func(
            input=inputs, token=token, Tout=[spec.dtype for spec in specs]
        )
    for result, spec in zip(results, specs, strict=True):
        result.set_shape(spec.shape)
    return list(results)


def install() -> None:
    """Registers the functions for the graphs of this process."""
    for token, function in _FUNCTIONS.items():
        add_entry(_TOKENS, script_ops._py_funcs._funcs, token, function)
