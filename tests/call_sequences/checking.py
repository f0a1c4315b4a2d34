"""What a call gives, against what it must give."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from call_sequences.model import OutfeedModel, packed

FAILED = object()  # the call has raised what it may
END = object()


class FaultError(AssertionError):
    """A queue has not done what the model says."""


def call(
    action: Callable[[], Any],
    queues: Sequence[Any] = (),
    must: Sequence[Any] = (),
    may: Sequence[Any] = (),
) -> Any:
    """Runs a call.

    Args:
        action: The call.
        queues: An error's message must name one of them.
        must: It must raise one of these, if there are any.
        may: It may raise one of these.

    Returns:
        What it gives, or FAILED.

    Raises:
        FaultError: It does something else.
    """
    try:
        found = action()
    except (*must, *may) as error:
        names = [f"'{queue._id}'" for queue in queues]
        if names and not any(name in str(error) for name in names):
            raise FaultError(
                f"the message names no queue of {names}: {error}"
            ) from error
        return FAILED
    except Exception as error:
        raise FaultError(f"{type(error).__name__}: {error}") from error
    if must:
        names = [each.__name__ for each in must]
        raise FaultError(f"must raise one of {names}, and gave {found}")
    return found


def compare(model: OutfeedModel, found: Any, values: list[float]) -> None:
    """Raises FaultError if `found` is not the result of these values."""
    assert model.kept is not None
    expected = model.kept.flat(values)
    flat = tf.nest.flatten(found)
    if len(flat) != len(expected):
        raise FaultError(f"{len(flat)} tensors, not {len(expected)}: {found}")
    shapes = [packed(name, flat) for name in model.structures()]
    if not any(is_like(found, shape) for shape in shapes):
        raise FaultError(f"a structure that no program enqueues: {found}")
    pairs = zip(expected, flat, strict=True)
    for want, tensor in pairs:
        got = np.asarray(tensor)
        if (got.dtype, got.shape) != (want.dtype, want.shape):
            raise FaultError(f"{got.dtype} {got.shape}, not {want.dtype} {want.shape}")
        if not np.array_equal(got, want):
            raise FaultError(f"{got.ravel()[:4]}, not {want.ravel()[:4]}")


def is_like(found: Any, expected: Any) -> bool:
    """Whether both have the same structure."""
    try:
        tf.nest.assert_same_structure(found, expected)
    except (TypeError, ValueError):
        return False
    return True
