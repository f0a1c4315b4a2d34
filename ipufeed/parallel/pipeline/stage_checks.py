"""Checks of a stage's arguments, captured tensors, ops and results."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import tensorflow as tf

from ipufeed.checks import own_signature
from ipufeed.device.program.outside_compilation import OUTSIDE_ATTR
from ipufeed.device.program.sharding import with_called
from ipufeed.parallel.pipeline.schedules import Position
from ipufeed.parallel.pipeline.traced import Traced
from ipufeed.python_ops import PYTHON_OPS
from ipufeed.tf_types import FuncGraph, Nest, NestFunction, Operation, Tensor


def check_arity(
    function: NestFunction,
    position: Position,
    stages: list[list[NestFunction]],
    arguments: list[Tensor],
    keywords: dict[str, Tensor],
) -> None:
    """Raises TypeError, before tracing, if a stage does not take its inputs.

    The error names both stages.
    """
    signature = own_signature(function)
    if signature is None:
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


def name_of(function: NestFunction) -> str:
    """Returns a function's name in its source."""
    return str(getattr(function, "__name__", type(function).__name__))


def tensors_of(structure: Nest, stage: int, is_last: bool) -> list[Tensor]:
    """Converts a stage's results to tensors; drops operations, which only have to run.

    Raises:
        TypeError: They are nested deeper than a flat list, or not numeric.
    """
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


def check_host_ops(ops: list[Operation], stage: int) -> None:
    """Raises TypeError if an op, or one in its loops or branches, runs on the host.

    Such as a call of Python, or an op in an outside_compilation_scope.
    """
    for op in with_called(ops):
        if OUTSIDE_ATTR in op.node_def.attr:
            raise TypeError(
                f"Stage {stage} of the pipeline has {op.name} in an "
                "outside_compilation_scope (ctc_beam_search_decoder has one, too): IPUs "
                "run compiled programs. Call it on what the outfeed gives."
            )
        if op.type in PYTHON_OPS:
            raise TypeError(
                f"Stage {stage} of the pipeline has {op.name}, a call of Python "
                "(tf.py_function, tf.numpy_function): IPUs run compiled programs. Call it "
                "in the dataset (`dataset.map`), or on what the outfeed gives."
            )


def check_captures(graph: FuncGraph, allowed: set[int]) -> None:
    """Raises ValueError if a stage uses a tensor of the outer program directly."""
    for outside, inside in graph.captures:
        if id(inside) in allowed or inside.dtype == tf.resource:
            continue
        if isinstance(outside, tf.Tensor) and _is_ours(outside):
            continue
        name = getattr(outside, "name", None) or "an eager tensor"
        raise ValueError(
            f"Trying to capture the tensor {name} which is not a resource. This tensor "
            "needs to be passed as either part of the `input` or `infeed_queue` of the "
            "pipeline."
        )


def is_value(tensor: Tensor) -> bool:
    """Whether a tensor is an eager one, with elements, and no handle of a queue."""
    if not isinstance(tensor, tf.__internal__.EagerTensor) or _is_ours(tensor):
        return False
    return tensor.dtype not in (tf.resource, tf.variant)


def _is_ours(tensor: Tensor) -> bool:
    """Whether a tensor is the handle of a queue."""
    if isinstance(tensor, tf.__internal__.EagerTensor):
        return bool(tensor.dtype == tf.int64 and tensor.shape.rank == 0)
    return bool(tensor.op.type == "IpufeedHostNumber")


def check_sources(
    traced: Traced,
    position: Position,
    arguments: list[Tensor],
    keywords: dict[str, Tensor],
) -> None:
    """Raises ValueError if a stage uses a tensor of another stage directly."""
    given = {id(each) for each in [*arguments, *keywords.values()]}
    for op, owner in traced.owners.items():
        if owner != position or op.type.startswith("Ipufeed"):
            continue
        for tensor in op.inputs:
            if tensor.op.type in ("Placeholder", "Const"):  # shared, as a variable is
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
def named(function: NestFunction, position: Position) -> Iterator[None]:
    """Adds the stage as a note to an error within it."""
    try:
        yield
    except Exception as error:
        note = (
            f"In stage {position.stage} of the pipeline ({position.label}, "
            f"`{name_of(function)}`)."
        )
        # As add_note(), which Python 3.10 lacks; nor does it print notes.
        error.__notes__ = [*getattr(error, "__notes__", ()), note]
        # A tf.function raises another error, which autograph makes of this message.
        rewritten = getattr(error, "ag_error_metadata", None)
        if rewritten is not None:
            rewritten.cause_message += f"\n{note}"
        raise
