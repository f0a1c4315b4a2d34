"""Checks of the stages: a slow stage at each place among fast ones."""

from __future__ import annotations

import numpy as np

from ipufeed.benchmark import Settings, measure, with_stages
from ipufeed.benchmark.selftest import planted
from ipufeed.benchmark.selftest.check import Row, exact, within

# Milliseconds of each stage.
COSTS = {"read": 0.5, "decode": 4.0, "augment": 1.0}


def stages(quick: bool) -> list[Row]:
    """Checks that the slowest of three stages comes first, by its name, at each place."""
    random = np.random.default_rng(0)
    rows = []
    for place in range(2 if quick else 3):
        names = [str(name) for name in random.permutation(list(COSTS))]
        costs = dict(zip(names, sorted(COSTS.values()), strict=True))
        slow = names[-1]
        order = names[:-1]
        order.insert(place, slow)
        rows += _slowest({name: costs[name] for name in order}, slow, quick)
    return rows


def _slowest(costs: dict[str, float], slow: str, quick: bool) -> list[Row]:
    """The first stage of a serial pipeline with these milliseconds, and its fraction."""
    dataset = planted.stage_pipeline(costs)
    result = measure(dataset, Settings(seconds=1.5 if quick else 2.5))
    result = with_stages(result, dataset)
    first = result.stages[0] if result.stages else None
    name, share = (first["name"], first["share"]) if first else (None, None)
    # The real times of these stages on this machine.
    taken = {name: planted.true_stage_period(ms) for name, ms in costs.items()}
    return [
        exact(
            f"slowest of {len(costs)}, at place {list(costs).index(slow) + 1}",
            slow,
            name,
        ),
        within("    its share", taken[slow] / sum(taken.values()), share, 0.1),
    ]
