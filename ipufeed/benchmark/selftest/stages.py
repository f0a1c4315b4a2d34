"""Checks of where the time goes: a slow stage, planted anywhere among fast ones."""

from __future__ import annotations

import numpy as np

from ipufeed.benchmark import Settings, measure, with_stages
from ipufeed.benchmark.selftest import planted
from ipufeed.benchmark.selftest.check import Row, exact
from ipufeed.benchmark.selftest.through import share

# Milliseconds of each stage.
COSTS = {"read": 0.5, "decode": 4.0, "augment": 1.0}


def stages(quick: bool) -> list[Row]:
    """The slowest of three stages comes first, under its name, wherever it stands."""
    random = np.random.default_rng(0)
    rows = []
    for place in range(2 if quick else 3):
        names = [str(name) for name in random.permutation(list(COSTS))]
        costs = dict(zip(names, sorted(COSTS.values()), strict=True))
        slow = names[-1]
        order = names[:-1]
        order.insert(place, slow)
        rows += slowest({name: costs[name] for name in order}, slow, quick)
    return rows


def slowest(costs: dict[str, float], slow: str, quick: bool) -> list[Row]:
    """A serial pipeline of stages with these milliseconds, and which holds it back."""
    dataset = planted.stage_pipeline(costs)
    result = measure(dataset, Settings(seconds=1.5 if quick else 2.5))
    result = with_stages(result, dataset)
    found = (result.stages or [{"name": None, "share": None}])[0]
    # As long as this machine really sleeps.
    taken = {name: planted.true_period(ms / 1e3, 20) for name, ms in costs.items()}
    return [
        exact(
            f"slowest of {len(costs)}, at place {list(costs).index(slow) + 1}",
            slow,
            found["name"],
        ),
        share("    its share", taken[slow] / sum(taken.values()), found["share"], 0.1),
    ]
