"""Checks that several options of models share."""

from __future__ import annotations

from typing import Any


def check_count(steps: Any) -> None:
    """Checks the number of mini-batches of a weight update.

    Raises:
        ValueError: It is neither None nor a positive int.
    """
    if steps is None:
        return
    if isinstance(steps, bool) or not isinstance(steps, int) or steps <= 0:
        raise ValueError(
            "Expected `gradient_accumulation_steps_per_replica` to be a positive integer, "
            f"but got {steps} instead."
        )


def refuse_keys(
    kwargs: dict[str, Any], name: str, keys: tuple[str, ...], why: str
) -> None:
    """Raises ValueError for arguments that are not the caller's to set."""
    for key in keys:
        if key in kwargs:
            raise ValueError(f"Found `{key}` key in `{name}`. {why}")
