"""JSON that people can read: objects are indented, a list of plain values is one line."""

from __future__ import annotations

import json
import math
from typing import Any

STEP = "  "


def json_text(value: Any, indent: str = "") -> str:
    """Strict JSON: a number that is not finite becomes null.

    Args:
        value: Of dicts with text as keys, lists, tuples, text, numbers, bools, None.
        indent: What stands before the lines that follow the first.

    Raises:
        TypeError: There is something else in it.
    """
    inner = indent + STEP
    if isinstance(value, dict) and value:
        lines = (
            f"{inner}{json.dumps(key)}: {json_text(each, inner)}"
            for key, each in value.items()
        )
        return "{\n" + ",\n".join(lines) + f"\n{indent}}}"
    if isinstance(value, (list, tuple)):
        if any(isinstance(each, (dict, list, tuple)) for each in value):
            lines = (inner + json_text(each, inner) for each in value)
            return "[\n" + ",\n".join(lines) + f"\n{indent}]"
        return json.dumps([finite(each) for each in value], allow_nan=False)
    return json.dumps(finite(value), allow_nan=False)


def finite(value: Any) -> Any:
    """The value, or None for a float that JSON cannot hold."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
