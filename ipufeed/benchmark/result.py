"""The result of a measurement, and its JSON."""

from __future__ import annotations

import json
import math
import os
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ipufeed.benchmark.output import is_stream, open_stream

# History: 1, the first one: epochs, dataset, settings, machine, startup, steady, latency,
# memcpy, resources, calibration, queue, warnings, error. Adding a key does not change the
# number; removing one, or changing what it means, does.
SCHEMA_VERSION = 1


@dataclass(frozen=True, kw_only=True)
class Result:
    """What `ipufeed.benchmark.measure` found, as it stands in the JSON.

    docs/result.md says of each number how to read it. Times are seconds, `latency` is in
    nanoseconds, `bandwidth` in GB/s (1e9 bytes); counts are exact.

    Attributes:
        epochs: The classic list: elements_processed, total_bytes_processed,
            time_elapsed, elements_per_second, bandwidth.
        dataset: Name, structure, bytes per element, cardinality, samples per element.
        settings: What was asked for.
        machine: What it ran on, and who else was using it.
        startup: From asking for the iterator to the first element; None if none came.
        steady: The steady state, the rate to quote; None where there is none.
        latency: Percentiles of the time between elements; None for fewer than two.
        memcpy: What the copies took; None if they were switched off.
        resources: CPU, memory, threads.
        calibration: The cost of the harness; None if it was not measured.
        queue: Which side of the ring waited for the other.
        cold: Files that were dropped from the page cache (--cold), and what of them was
            still in it; else None.
        service: Through tf.data service: what each of its processes did; else None.
        processes: Of several processes at a time: the rate of each; else None.
        links: Through the device: what each link of the way did; else None.
        warnings: What to know before quoting a number: a code and a sentence each.
        error: What the dataset failed with: type, message, element (from 0); or None.
    """

    epochs: list[dict[str, float]]
    dataset: dict[str, Any]
    settings: dict[str, Any]
    machine: dict[str, Any]
    startup: dict[str, float] | None
    steady: dict[str, Any] | None
    latency: dict[str, float] | None
    memcpy: dict[str, Any] | None
    resources: dict[str, Any]
    calibration: dict[str, float] | None
    queue: dict[str, float]
    links: dict[str, Any] | None = None
    cold: dict[str, Any] | None = None
    service: dict[str, Any] | None = None
    processes: dict[str, Any] | None = None
    warnings: list[dict[str, str]] = field(default_factory=list)
    error: dict[str, Any] | None = None

    @property
    def elements(self) -> int:
        """Elements in all epochs."""
        return sum(int(epoch["elements_processed"]) for epoch in self.epochs)

    def to_dict(self) -> dict[str, Any]:
        """The result as the JSON holds it."""
        return {"schema_version": SCHEMA_VERSION, **vars(self)}

    def to_json(self) -> str:
        """Strict JSON: a number that is not finite becomes null."""
        return json.dumps(finite(self.to_dict()), indent=2, allow_nan=False)

    def write(self, path: str | os.PathLike[str]) -> None:
        """Writes the JSON to `path`, whole or not at all.

        Raises:
            OSError: It cannot be written; what stood there before still does.
        """
        if is_stream(os.fspath(path)):
            with open_stream(os.fspath(path)) as file:
                file.write(self.to_json() + "\n")
            return
        target = Path(path).resolve()  # a link stays one
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=".ipufeed-")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(self.to_json() + "\n")
                file.flush()
                os.fsync(file.fileno())
            umask = os.umask(0)
            os.umask(umask)
            os.chmod(name, 0o666 & ~umask)
            os.replace(name, target)
        except BaseException:
            os.unlink(name)
            raise


def finite(value: Any) -> Any:
    """`value` with None for each float that JSON cannot hold."""
    if isinstance(value, dict):
        return {key: finite(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(inner) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
