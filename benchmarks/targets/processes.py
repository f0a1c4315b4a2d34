"""What a collective between two processes costs, against a bare one of TensorFlow."""

import json
import operator

from benchmarks import child
from benchmarks.targets import Row, comparison, row


def rows(quick: bool) -> list[Row]:
    """Measures all-reduces of 4 bytes and of 4 MiB."""
    found: dict[str, dict[str, list[float]]] = {}
    for _ in range(1 if quick else 3):
        for size, times in measured().items():
            for name, seconds in times.items():
                found.setdefault(size, {}).setdefault(name, []).extend(seconds)
    return [
        each
        for size, what in (("4", "4 bytes"), (str(4 << 20), "4 MiB"))
        for each in rows_of(what, found[size]["ipufeed"], found[size]["bare"])
    ]


def measured() -> dict[str, dict[str, list[float]]]:
    """Returns size in bytes -> "ipufeed" or "bare" -> seconds of each repeat."""
    text = child.output("programs.two_processes")
    result: dict[str, dict[str, list[float]]] = json.loads(text)
    return result


def rows_of(what: str, ours: list[float], bare: list[float]) -> list[Row]:
    """Returns the rows of one size."""
    return [
        comparison(
            f"all-reduce of {what} by two processes, against a bare one of TensorFlow",
            "at most",
            1.3,
            "x",
            operator.truediv,
            ours,
            bare,
        ),
        row("    a bare one", "", 0, "us", [each * 1e6 for each in bare]),
    ]
