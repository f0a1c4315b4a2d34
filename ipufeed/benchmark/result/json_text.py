"""Readable JSON: objects are indented, a list of plain values is one line."""

from __future__ import annotations

import json
import math
from typing import Any

STEP = "  "

# A JSON object whose keys docs/result.md describes.
JsonObject = dict[str, Any]


def json_text(value: object, indent: str = "") -> str:
    """Returns strict JSON: a number that is not finite becomes null.

    Args:
        value: Dicts with text as keys, lists, tuples, text, numbers, bools or None.
        indent: The indent of all lines but the first.

    Raises:
        TypeError: `value` holds anything else.
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
        return json.dumps([_finite(each) for each in value], allow_nan=False)
    return json.dumps(_finite(value), allow_nan=False)


def _finite(value: object) -> object:
    return None if isinstance(value, float) and not math.isfinite(value) else value
