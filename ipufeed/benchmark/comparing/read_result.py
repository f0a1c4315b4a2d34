"""Reads and checks the values of a result that a comparison needs.

A result may come from another version or tool, or from a full disk. So each value is
checked before use, and an error names the file.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeGuard

import numpy as np

from ipufeed.benchmark.comparing.variance import LogVariance, Numbers, log_variance_of
from ipufeed.benchmark.result.json_text import JsonObject
from ipufeed.benchmark.result.result import SCHEMA_VERSION
from ipufeed.errors import ComparisonError, NothingToCompareError

# Windows and rate are written with all their digits: unless edited they agree to this.
SAME = 1e-3
MOST_BYTES = 256 << 20  # far more than any result has


@dataclass(frozen=True)
class ComparedRun:
    """The values of a result that a comparison needs.

    Attributes:
        name: The name of its file or dataset.
        rate: Elements per second of the steady state.
        seconds: Length of the steady state.
        log_variance: The variance of log(rate) within the run; None for too few windows.
        samples: Samples per element, or None.
        contention: See _contention_of().
        warnings: The codes of its warnings.
        result: The whole result.
    """

    name: str
    rate: float
    seconds: float
    log_variance: LogVariance | None
    samples: float | None
    contention: float
    warnings: frozenset[str]
    result: Mapping[str, object]


def read_result(path: str | os.PathLike[str]) -> JsonObject:
    """Reads the JSON of a result that the command has written.

    Raises:
        ComparisonError: The file does not hold a result.
    """
    name = os.fspath(path)
    try:
        if Path(path).stat().st_size > MOST_BYTES:
            raise ComparisonError(
                f"{name} is larger than {MOST_BYTES >> 20} MiB: it is not a result."
            )
        text = Path(path).read_text(encoding="utf-8")
    except ComparisonError:
        raise
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise ComparisonError(f"{name} cannot be read: {reason}.") from error
    if not text.strip():
        raise ComparisonError(
            f"{name} is empty: was the run that should have written it ended?"
        )
    try:
        value = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise ComparisonError(
            f"{name} must be the JSON of one result, and is not: {error}."
        ) from error
    return _check_schema(value, name)


def _refuse(constant: str) -> float:
    raise ValueError(f"{constant} is not a JSON number")


def _check_schema(value: object, name: str) -> JsonObject:
    if not isinstance(value, dict) or "schema_version" not in value:
        kind = "an object without `schema_version`"
        if not isinstance(value, dict):
            kind = f"a JSON {type(value).__name__}"
        raise ComparisonError(
            f"{name} must be a result of `python -m ipufeed.benchmark`, got {kind}. "
            "Give a file that --json has written."
        )
    version = value["schema_version"]
    if version != SCHEMA_VERSION:
        raise ComparisonError(
            f"{name} has `schema_version` {version!r}, and this ipufeed reads "
            f"{SCHEMA_VERSION}: measure it again with this one."
        )
    return value


def run_of(result: Mapping[str, object], name: str) -> ComparedRun:
    """Returns the values of a result that a comparison needs.

    Raises:
        ComparisonError: A value is missing or invalid.
        NothingToCompareError: The result has no rate.
    """
    value = _check_schema(dict(result), name)
    error = value.get("error")
    if isinstance(error, dict):
        raise ComparisonError(
            f"{name} is of a dataset that failed with {error.get('type')} at element "
            f"{error.get('element')}: a failed run has no comparable rate."
        )
    steady = value.get("steady")
    if steady is None:
        raise NothingToCompareError(
            f"{name} has no rate: the dataset had too few elements. See its `warnings`."
        )
    rate = _positive(steady, "elements_per_second", f"{name}: steady")
    seconds = _positive(steady, "seconds", f"{name}: steady")
    elements, lengths = _windows_of(steady, name)
    from_windows = elements.sum() / lengths.sum()
    if abs(from_windows / rate - 1) > SAME:
        raise ComparisonError(
            f"{name}: `elements_per_second` must be the rate of the windows of `steady`, "
            f"{from_windows:.6g}, got {rate:.6g}: it was edited or damaged. Measure it "
            "again."
        )
    dataset = _section(value, "dataset", name)
    samples = dataset.get("samples_per_element")
    warnings = value.get("warnings")
    return ComparedRun(
        name=name,
        rate=rate,
        seconds=seconds,
        log_variance=log_variance_of(elements, lengths),
        samples=None
        if samples is None
        else _positive(dataset, "samples_per_element", f"{name}: dataset"),
        contention=_contention_of(value, name),
        warnings=frozenset(
            str(warning.get("code"))
            for warning in (warnings if isinstance(warnings, list) else [])
            if isinstance(warning, dict)
        ),
        result=value,
    )


def _section(value: Mapping[str, object], key: str, name: str) -> Mapping[str, object]:
    inner = value.get(key)
    if not isinstance(inner, dict):
        raise ComparisonError(f"{name} must have an object `{key}`, got {inner!r:.40}.")
    return inner


def _positive(value: object, key: str, where: str) -> float:
    number = value.get(key) if isinstance(value, dict) else None
    if not _is_positive(number):
        raise ComparisonError(
            f"{where}: `{key}` must be a number above 0, got {number!r:.40}."
        )
    return float(number)


def _is_positive(number: object) -> TypeGuard[float]:
    """Whether it is a finite number above 0; True is not a number."""
    if isinstance(number, bool) or not isinstance(number, (int, float)):
        return False
    try:
        return math.isfinite(number) and number > 0
    except OverflowError:  # an int of more than 308 digits
        return False


def _windows_of(steady: object, name: str) -> tuple[Numbers, Numbers]:
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
        wrong = [number for number in column if not _is_positive(number)]
        if wrong:
            raise ComparisonError(
                f"{name}: `{key}` of the windows must be numbers above 0, got "
                f"{wrong[0]!r:.40}."
            )
    elements, seconds = (np.asarray(column, dtype=float) for column in columns)
    if len(elements) != len(seconds):
        raise ComparisonError(
            f"{name}: the windows must have as many `elements` as `seconds`, got "
            f"{len(elements)} and {len(seconds)}."
        )
    return elements, seconds


# CPUs that a quiet machine's own services use; not contention.
QUIET_CPUS = 0.02
# Fraction of a CPU that a pipeline needs which only sleeps: its threads must be woken.
WAKING = 0.1
# Slow-down of a CPU while the others are busy, at most: they share caches, memory and
# often the core itself.
SLOWED = 0.5
# From this fraction of busy CPUs on, a thread has to queue for one.
SATURATED = 0.9


def _contention_of(value: Mapping[str, object], name: str) -> float:
    """Log of the largest factor by which the run was slowed by other processes.

    0 on a quiet machine. While CPUs are free, it is the fraction that other processes used
    times the fraction that the pipeline needed. If all are busy, it is unknown how the
    pipeline would have used those of the others: at most as efficiently as its own. It is
    bounded by the run-queue delay of the pipeline's threads and the slow-down of a CPU next
    to a busy one. Load that is not visible (mostly of a hypervisor's other guests) is
    missing.
    """
    machine = _section(value, "machine", name)
    others, usable = machine.get("cpus_used_by_others"), machine.get("usable_cpus")
    if not _is_positive(others) or not _is_positive(usable):
        return 0.0
    others, usable = max(0.0, float(others) - QUIET_CPUS), float(usable)
    resources = value.get("resources")
    used = resources.get("cpus_busy") if isinstance(resources, dict) else None
    busy = float(used) if _is_positive(used) else usable
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
