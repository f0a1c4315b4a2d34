"""What a comparison needs of a result, taken out of its JSON and checked.

A result may come from anywhere: another version, another tool, a disk that was full. So
each value is looked at before it is used, and an error names the file.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ipufeed.benchmark.comparing.variance import Numbers, Spread, spread_of
from ipufeed.benchmark.result.result import SCHEMA_VERSION
from ipufeed.errors import ComparisonError, NothingToCompareError

# Windows and rate are written with all their digits: only other numbers differ by more.
SAME = 1e-3


@dataclass(frozen=True)
class Run:
    """One result, as far as a comparison reads it.

    Attributes:
        name: Of its file, or of its dataset.
        rate: Elements per second of the steady state.
        seconds: Length of the steady state.
        spread: How well the rate is known; None where the windows are too few.
        samples: Samples per element, or None.
        contention: See contention_of().
        warnings: The codes of its warnings.
        result: All of it.
    """

    name: str
    rate: float
    seconds: float
    spread: Spread | None
    samples: float | None
    contention: float
    warnings: frozenset[str]
    result: Mapping[str, Any]


def read_result(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The JSON of a result that the command has written.

    Raises:
        ComparisonError: There is none in that file; the message says what there is.
    """
    name = os.fspath(path)
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise ComparisonError(f"{name} cannot be read: {reason}.") from error
    if not text.strip():
        raise ComparisonError(
            f"{name} is empty: was the run that should have written it ended?"
        )
    try:
        value = json.loads(text, parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        raise ComparisonError(
            f"{name} must be the JSON of one result, and is not: {error}."
        ) from error
    return check_schema(value, name)


def refuse(constant: str) -> float:
    """Numbers that JSON does not have."""
    raise ValueError(f"{constant} is not a JSON number")


def check_schema(value: Any, name: str) -> dict[str, Any]:
    """The value, if it is a result of a version that can be read."""
    if not isinstance(value, dict) or "schema_version" not in value:
        kind = "an object without `schema_version`"
        if not isinstance(value, dict):
            kind = f"a JSON {type(value).__name__}"
        raise ComparisonError(
            f"{name} must be a result of `python -m ipufeed.benchmark`, got {kind}."
        )
    version = value["schema_version"]
    if version != SCHEMA_VERSION:
        raise ComparisonError(
            f"{name} has `schema_version` {version!r}, and this ipufeed reads "
            f"{SCHEMA_VERSION}: measure it again with this one."
        )
    return value


def run_of(result: Mapping[str, Any], name: str) -> Run:
    """Takes a result apart.

    Raises:
        ComparisonError: Something in it is missing or no result's.
        NothingToCompareError: It has no rate.
    """
    value = check_schema(dict(result), name)
    error = value.get("error")
    if isinstance(error, dict):
        raise ComparisonError(
            f"{name} is of a dataset that failed with {error.get('type')} at element "
            f"{error.get('element')}: a failed run has no comparable rate."
        )
    steady = value.get("steady")
    if steady is None:
        raise NothingToCompareError(
            f"{name} has no rate: the dataset gave too few elements. See its `warnings`."
        )
    rate = positive(steady, "elements_per_second", f"{name}: steady")
    seconds = positive(steady, "seconds", f"{name}: steady")
    elements, lengths = windows_of(steady, name)
    again = elements.sum() / lengths.sum()
    if abs(again / rate - 1) > SAME:
        raise ComparisonError(
            f"{name}: `elements_per_second` must be what the windows of `steady` give, "
            f"{again:.6g}, got {rate:.6g}: it was edited or damaged. Measure it again."
        )
    dataset = section(value, "dataset", name)
    samples = dataset.get("samples_per_element")
    warnings = value.get("warnings")
    return Run(
        name=name,
        rate=rate,
        seconds=seconds,
        spread=spread_of(elements, lengths),
        samples=None
        if samples is None
        else positive(dataset, "samples_per_element", f"{name}: dataset"),
        contention=contention_of(value, name),
        warnings=frozenset(
            str(warning.get("code"))
            for warning in (warnings if isinstance(warnings, list) else [])
            if isinstance(warning, dict)
        ),
        result=value,
    )


def section(value: Mapping[str, Any], key: str, name: str) -> Mapping[str, Any]:
    """An object inside a result."""
    inner = value.get(key)
    if not isinstance(inner, dict):
        raise ComparisonError(f"{name} must have an object `{key}`, got {inner!r:.40}.")
    return inner


def positive(value: Any, key: str, where: str) -> float:
    """A number above 0."""
    number = value.get(key) if isinstance(value, dict) else None
    if not is_positive(number):
        raise ComparisonError(
            f"{where}: `{key}` must be a number above 0, got {number!r:.40}."
        )
    return float(number)  # type: ignore[arg-type]  # is_positive has looked


def is_positive(number: Any) -> bool:
    """Whether it is a finite number above 0, as a float; True is not one."""
    if isinstance(number, bool) or not isinstance(number, (int, float)):
        return False
    try:
        return math.isfinite(number) and number > 0
    except OverflowError:  # an int of more than 308 digits
        return False


def windows_of(steady: Any, name: str) -> tuple[Numbers, Numbers]:
    """The elements and the seconds of each window."""
    windows = steady.get("windows") if isinstance(steady, dict) else None
    if windows is None:
        raise ComparisonError(
            f"{name} has no `windows` in `steady`, as results of older versions: measure "
            "it again with this one."
        )
    columns = [
        windows.get(key) if isinstance(windows, dict) else None
        for key in ("elements", "seconds")
    ]
    for key, column in zip(("elements", "seconds"), columns, strict=True):
        if not isinstance(column, list) or not column:
            raise ComparisonError(
                f"{name}: `{key}` of the windows must be a list of numbers, got "
                f"{column!r:.40}."
            )
        wrong = [number for number in column if not is_positive(number)]
        if wrong:
            raise ComparisonError(
                f"{name}: `{key}` of the windows must be numbers above 0, got "
                f"{wrong[0]!r:.40}."
            )
    elements, seconds = (np.asarray(column, dtype=float) for column in columns)
    if len(elements) != len(seconds):
        raise ComparisonError(
            f"{name}: the windows have {len(elements)} `elements` and {len(seconds)} "
            "`seconds`: as many of each must be there."
        )
    return elements, seconds


# Used by others and yet no contention, in CPUs: what a quiet machine's own services take.
QUIET_CPUS = 0.02
# A pipeline that only sleeps must still be woken, and waits for a CPU then.
WAKING = 0.1
# What a CPU computes less while the others are busy, at most: they share caches, memory
# and often the core itself.
SLOWED = 0.5
# From this share of the CPUs on, a thread has to queue for one.
SATURATED = 0.9


def contention_of(value: Mapping[str, Any], name: str) -> float:
    """The logarithm of how many times as fast the run can have been without the others.

    0 on a quiet machine. As long as there are CPUs left, it is the share that others used
    times the share that the pipeline needed. Once they are all in use, it is unknown what
    the pipeline would have done with those of the others: up to as much as with its own.
    Never more than what its threads have waited for CPUs, as the kernel counted it, and
    what a CPU computes less next to a busy one. Load that cannot be seen (mostly of a
    hypervisor's other guests) is not in it.
    """
    machine = section(value, "machine", name)
    others, usable = machine.get("cpus_used_by_others"), machine.get("usable_cpus")
    if not is_positive(others) or not is_positive(usable):
        return 0.0
    others, usable = max(0.0, float(others) - QUIET_CPUS), float(usable)  # type: ignore[arg-type]
    resources = value.get("resources")
    used = resources.get("cpus_busy") if isinstance(resources, dict) else None
    busy = float(used) if is_positive(used) else usable  # type: ignore[arg-type]
    taken = min(SATURATED, others / usable)
    if others > QUIET_CPUS and others + busy >= SATURATED * usable:
        most = math.log1p(others / busy)
    else:
        most = -math.log1p(-taken * min(1.0, busy + WAKING))
    waiting = resources.get("threads_waiting") if isinstance(resources, dict) else None
    if not isinstance(waiting, float) or not 0 <= waiting < math.inf:
        return most
    lost = waiting + SLOWED * taken * min(1.0, busy)
    return most if lost >= SATURATED else min(most, -math.log1p(-lost))
