"""Measures all points of an axis alternately.

What slows the machine down for a while then slows down all of them.
"""

from collections.abc import Callable, Mapping

from benchmarks.iterate import Cost
from benchmarks.scaling import Curve

Run = Callable[[], Cost]
MICRO = 1e6


def in_turns(ways: Mapping[str, Mapping[float, Run]], repeats: int) -> list[Curve]:
    """Measures wall and CPU time of each way at each point, in microseconds.

    Args:
        ways: By name, a call for each amount of work.
        repeats: The number of rounds of all calls; every other one goes from the most
            work to the least. One more round before them is not counted: first calls
            cost more.

    Returns:
        Two curves for each way, three where the cost has a copy.
    """
    calls = [(what, x, run) for what, runs in ways.items() for x, run in runs.items()]
    costs: dict[str, dict[float, list[Cost]]] = {
        what: {x: [] for x in runs} for what, runs in ways.items()
    }
    for _, _, run in calls:
        run()
    for repeat in range(repeats):
        for what, x, run in calls if repeat % 2 == 0 else reversed(calls):
            costs[what][x].append(run())
    return [curve for what, points in costs.items() for curve in curves(what, points)]


def curves(what: str, points: Mapping[float, list[Cost]]) -> list[Curve]:
    """Returns the curves of one way."""
    found = []
    for figure, field in (("wall", "wall"), ("CPU", "cpu"), ("the copy", "copy")):
        values = {
            x: tuple(MICRO * getattr(cost, field) for cost in costs)
            for x, costs in points.items()
        }
        if field != "copy" or any(any(each) for each in values.values()):
            found.append(Curve(what, figure, "us", values))
    return found
