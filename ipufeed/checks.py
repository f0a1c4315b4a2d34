"""Checks of public arguments: what must be what, and what it got."""

from __future__ import annotations

from typing import Any

import numpy as np


def is_flag(value: Any) -> bool:
    """Whether it is a bool; 0, 1 and NumPy's are as good."""
    return isinstance(value, (bool, int, np.bool_)) and value in (0, 1)


def check_flags(**flags: Any) -> None:
    """Raises TypeError for the first that is neither a bool nor None."""
    for name, value in flags.items():
        if value is not None and not is_flag(value):
            raise TypeError(
                f"{name} must be a bool, got {type(value).__name__} {value!r}."
            )
