"""A cause: one sentence on why two programs are not the same one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Cause:
    """Why a program is not another one; `str()` is the sentence.

    Attributes:
        kind: What changed: "same" (nothing), "environment", "target", "flag", "option",
            "argument", "feed", "shape", "dtype", "constant", "weights", "loop count",
            "operands", "structure", "attribute", "results", "consequences" or "unknown".
        text: What changed, in words.
        advice: What to do about it, or "".
        name: Of what changed: an argument, an option, an op; or "".
        before: What it was, ready for JSON; None if that is not a single value.
        after: What it is, likewise.
        source: "file:line" of the op, or "".
    """

    kind: str
    text: str
    advice: str = ""
    name: str = ""
    before: Any = None
    after: Any = None
    source: str = ""

    def __str__(self) -> str:
        where = f" ({self.source})" if self.source else ""
        advice = f": {self.advice}" if self.advice else ""
        return f"{self.text}{where}{advice}"
