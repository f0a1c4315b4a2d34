"""Checks of where the time goes: a slow stage, planted anywhere among fast ones."""

from __future__ import annotations

import importlib.util

import numpy as np

from ipufeed.benchmark import Settings, measure
from ipufeed.benchmark.selftest import planted
from ipufeed.benchmark.selftest.check import Row, exact
from ipufeed.benchmark.selftest.through import share

# Milliseconds of each stage.
COSTS = {"read": 0.3, "decode": 4.0, "augment": 1.0}


def available() -> bool:
    """Whether results attribute their time to stages."""
    return importlib.util.find_spec("ipufeed.benchmark.stages") is not None


def stages(quick: bool) -> list[Row]:
    """The slowest of three stages comes first, under its name, wherever it stands."""
    random = np.random.default_rng(0)
    rows = []
    for _ in range(2 if quick else 4):
        names = list(random.permutation(list(COSTS)))
        costs = dict(zip(names, COSTS.values(), strict=True))
        order = {name: costs[name] for name in random.permutation(names)}
        slow = max(costs, key=lambda name: costs[name])
        result = measure(
            planted.stage_pipeline(order), Settings(seconds=1.0 if quick else 2.0)
        )
        found = getattr(result, "stages", None) or [{"name": None, "share": None}]
        place = list(order).index(slow) + 1
        rows += [
            exact(f"slowest of 3, at place {place}", slow, found[0]["name"]),
            share(
                "    its share",
                costs[slow] / sum(costs.values()),
                found[0]["share"],
                0.1,
            ),
        ]
    return rows
