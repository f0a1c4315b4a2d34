"""Results as a run of known rate and noise would have given them, without running it."""

from __future__ import annotations

from typing import Any

import numpy as np

WINDOWS, RATE, SECONDS = 100, 1000.0, 10.0


def synthetic(
    noise: Any = 0.0,
    *,
    factor: float = 1.0,
    seconds: float = SECONDS,
    **changes: Any,
) -> dict[str, Any]:
    """The JSON of a result whose windows' rates are off by `noise`, a fraction for each.

    `changes` are values of a section: machine={"cpu": "other"}.
    """
    shares = np.asarray(noise, dtype=float)
    if shares.ndim == 0:
        shares = np.full(WINDOWS, shares)
    lengths = np.full(len(shares), seconds / len(shares))
    elements = RATE * factor * np.exp(shares) * lengths
    result: dict[str, Any] = {
        "schema_version": 1,
        "error": None,
        "steady": {
            "elements_per_second": float(elements.sum() / seconds),
            "seconds": seconds,
            "windows": {"elements": elements.tolist(), "seconds": lengths.tolist()},
        },
        "dataset": {
            "name": "synthetic",
            "element_spec": "float32 (8,)",
            "samples_per_element": 8.0,
            "bytes_per_element": 32.0,
        },
        "settings": {"memcpy": True, "passes": None},
        "machine": {"cpu": "any", "usable_cpus": 2, "cpus_used_by_others": 0.0},
        "resources": {"cpus_busy": 1.0},
        "warnings": [],
    }
    for section, values in changes.items():
        if isinstance(values, dict):
            result[section] = {**(result[section] or {}), **values}
        else:
            result[section] = values
    return result
