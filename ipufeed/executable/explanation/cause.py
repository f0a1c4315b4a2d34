"""A cause: one sentence on why two programs differ."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Cause:
    """A reason why two programs differ; `str()` is the sentence.

    Attributes:
        kind: What changed: "same" (nothing), "environment", "target", "flag", "option",
            "argument", "feed", "shape", "dtype", "constant", "weights", "loop count",
            "operands", "structure", "attribute", "results", "consequences" or "unknown".
        text: The change, in words.
        advice: The remedy, or "".
        name: Name of the argument, option or op that changed, or "".
        before: The former value, ready for JSON; None if it is not a single value.
        after: The present value, likewise.
        source: "file:line" of the op, or "".
    """

    kind: str
    text: str
    advice: str = ""
    name: str = ""
    before: object = None
    after: object = None
    source: str = ""

    def __str__(self) -> str:
        where = f" ({self.source})" if self.source else ""
        advice = f": {self.advice}" if self.advice else ""
        return f"{self.text}{where}{advice}"
