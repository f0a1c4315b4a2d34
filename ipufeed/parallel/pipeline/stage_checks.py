"""What a stage of a pipeline may take, use and return."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator
from typing import Any

from ipufeed.device.program.sharding import with_called
from ipufeed.parallel.pipeline.schedules import Position
from ipufeed.parallel.pipeline.traced import Traced
from ipufeed.python_ops import PYTHON_OPS


def check_arity(
    function: Callable[..., Any],
    position: Position,
    stages: list[list[Callable[..., Any]]],
    arguments: list[Any],
    keywords: dict[str, Any],
) -> None:
    """Finds out before tracing whether a stage takes what it will get.

    Raises:
        TypeError: It does not; the error names both stages.
    """
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # built-in functions have none
        return
    try:
        signature.bind(*arguments, **keywords)
    except TypeError as error:
        number = position.stage
        if number == 0:
            gets = "`inputs` and the infeed give it"
        else:
            names = ", ".join(f"`{name_of(each)}`" for each in stages[number - 1])
            gets = f"stage {number - 1} ({names}) gives it"
        count = len(arguments) + len(keywords)
        named = f", by name: {', '.join(keywords)}" if keywords else ""
        raise TypeError(
            f"Stage {number} of the pipeline ({position.label}, `{name_of(function)}`) "
            f"cannot be called with the {count} tensor{'s' if count != 1 else ''} that "
            f"{gets}{named}: {error}. It is `{name_of(function)}{signature}`."
        ) from error


def name_of(function: Any) -> str:
    """What a stage is called in its source."""
    return str(getattr(function, "__name__", type(function).__name__))


def tensors_of(structure: Any, stage: int, is_last: bool) -> list[Any]:
    """What a stage has returned, as tensors; operations only have to run.

    Raises:
        TypeError: It is more than a flat list, or has something else than numbers.
    """
    import tensorflow as tf

    if isinstance(structure, dict):
        if not is_last:
            raise TypeError(
                f"Stage {stage} of the pipeline returns a dict. Only the last stage may: "
                "return a list of tensors, which are the next stage's arguments."
            )
        values = tf.nest.flatten(structure)
    elif isinstance(structure, (list, tuple)):
        values = list(structure)
    else:
        values = [structure]
    found = []
    for value in values:
        if value is None or isinstance(value, tf.Operation):
            continue
        if isinstance(value, (list, tuple, dict)):
            raise TypeError(
                f"Stage {stage} of the pipeline returns a {type(value).__name__} inside "
                "its results: return a flat list of tensors."
            )
        tensor = tf.convert_to_tensor(value)
        if tensor.dtype in (tf.string, tf.resource, tf.variant):
            raise TypeError(
                f"Stage {stage} of the pipeline returns {tensor.name} of "
                f"{tensor.dtype.name}: between IPUs, and to the outfeed, go numbers only."
            )
        found.append(tensor)
    return found


def check_python(ops: list[Any], stage: int) -> None:
    """Refuses what calls back into Python: it cannot be compiled.

    Raises:
        TypeError: One of the ops of a stage does, or of a loop or a branch in it.
    """
    for op in with_called(ops):
        if op.type in PYTHON_OPS:
            raise TypeError(
                f"Stage {stage} of the pipeline has {op.name}, a call of Python "
                "(tf.py_function, tf.numpy_function): IPUs run compiled programs. Call it "
                "in the dataset (`dataset.map`), or on what the outfeed gives."
            )


def check_captures(graph: Any, allowed: set[int]) -> None:
    """Refuses tensors of the program around the pipeline that are not an argument.

    Raises:
        ValueError: A stage uses one.
    """
    import tensorflow as tf

    for outside, inside in graph.captures:
        if id(inside) in allowed or inside.dtype == tf.resource:
            continue
        if isinstance(outside, tf.Tensor) and is_ours(outside):
            continue
        name = getattr(outside, "name", None) or "an eager tensor"
        raise ValueError(
            f"Trying to capture the tensor {name} which is not a resource. This tensor "
            "needs to be passed as either part of the `input` or `infeed_queue` of the "
            "pipeline."
        )


def is_ours(tensor: Any) -> bool:
    """Whether it is the number of a queue."""
    import tensorflow as tf

    if isinstance(tensor, tf.__internal__.EagerTensor):
        return bool(tensor.dtype == tf.int64 and tensor.shape.rank == 0)
    return bool(tensor.op.type == "IpufeedHostNumber")


def check_sources(
    traced: Traced, position: Position, arguments: list[Any], keywords: dict[str, Any]
) -> None:
    """Refuses tensors of another stage that are not an argument.

    Raises:
        ValueError: A stage uses one.
    """
    given = {id(each) for each in [*arguments, *keywords.values()]}
    for op, owner in traced.owners.items():
        if owner != position or op.type.startswith("Ipufeed"):
            continue
        for tensor in op.inputs:
            if tensor.op.type in (
                "Placeholder",
                "Const",
            ):  # of both, such as a variable
                continue
            source = traced.owners.get(tensor.op)
            if source in (None, position) or id(tensor) in given:
                continue
            raise ValueError(
                f"Trying to capture the tensor {tensor.name} which is not a resource: "
                f"stage {position.label} of the pipeline uses a tensor of stage "
                f"{source.label}. Return it from that stage, and from all between them."
            )


@contextlib.contextmanager
def named(function: Callable[..., Any], position: Position) -> Iterator[None]:
    """An error within it is noted to be the stage's."""
    try:
        yield
    except Exception as error:
        note = (
            f"In stage {position.stage} of the pipeline ({position.label}, "
            f"`{name_of(function)}`)."
        )
        # As add_note() does, which Python 3.10 has not; nor does it print notes.
        error.__notes__ = [*getattr(error, "__notes__", ()), note]
        raise
