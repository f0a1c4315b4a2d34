"""Checks the use of an accumulated gradient, which is zeros in most iterations.

    accumulated --> [sum over replicas, cast, scaling] --> update of a variable    accepted
                                                       --> anything else            refused

The refusal is an operation that fails the program when it runs, as in the original.
"""

from __future__ import annotations

import functools

import tensorflow as tf

from ipufeed.ops import host_calls
from ipufeed.tf_types import Operation, Tensor

_KIND = "refused_use"
_SCALED = ("Cast", "Mul", "Neg", "RealDiv", "Reshape")
_SAME = ("Identity", "IdentityN", "Snapshot", "StopGradient", "IpufeedCollective")


def check(accumulated: Tensor, results: list[Tensor]) -> list[Operation]:
    """Builds the operation that fails a program which uses a gradient otherwise.

    Args:
        accumulated: The tensor whose consumers in its graph are checked.
        results: What the body of the loop returns.

    Returns:
        That operation; nothing if all uses are accepted.
    """
    found = _other_use(accumulated, {id(each) for each in results}, set())
    if found is None:
        return []
    host_calls.call(
        _KIND,
        f'The IpuStatefulGradientAccumulate op "{accumulated.op.name}" must be used by the '
        f"update of a variable, with at most a cross-replica sum in between, got {found}. "
        "Its value is zeros but for the last iteration of each group. For any other use of "
        "it give `verify_usage=False`.",
        [],
        [],
    )
    return [host_calls.last_operation()]


def _other_use(value: Tensor, results: set[int], seen: set[int]) -> str | None:
    """Returns the words for the first use that is not the update of a variable."""
    if id(value) in results:
        return "a result of the loop's body"
    if id(value) in seen:
        return None
    seen.add(id(value))
    for consumer in value.consumers():
        if "Resource" in consumer.type or consumer.type.startswith("Assign"):
            continue
        outputs: list[Tensor] = []
        if consumer.type in _SCALED:
            outputs = [consumer.outputs[0]]
        elif consumer.type in _SAME:  # a collective also takes and gives a token
            outputs = [
                output
                for given, output in zip(
                    consumer.inputs, consumer.outputs, strict=False
                )
                if given is value
            ]
        if not outputs:
            return f'a {consumer.type} op ("{consumer.name}")'
        for output in outputs:
            found = _other_use(output, results, seen)
            if found is not None:
                return found
    return None


@host_calls.handler(_KIND)
def _refuse(call: host_calls.Call) -> None:
    raise tf.errors.FailedPreconditionError(None, None, call.text)


def checked(accumulated: Tensor) -> functools.partial[list[Operation]]:
    """Returns the check of a tensor, for TrainingLoop.use_checks."""
    return functools.partial(check, accumulated)
