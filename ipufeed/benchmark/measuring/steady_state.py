"""Finds the steady state of a run, its rate and the rate's confidence interval.

    request   first element                                        last element
    |  start-up  |  fill  |            steady state           |  drain  |

Start-up ends with the first element. A fill (a burst or a lull at the beginning) and, if
the dataset ended, a drain (likewise at the end) are found with the marginal standard error
rule on the rates of up to 100 windows of equal time: leave out the d windows for which
var(rest) / count(rest) is least. They are left out only if their rate differs from the
rest's by more than 5 %, so that a steady run loses nothing. Of several passes only the
last one can end in a drain, so only that one is searched: a pass that is faster than the
others, from a cache, is not a drain.

A run that is too short for that loses nothing either: if the steady state would be shorter
than 50 ms, or its rate not known to 20 %, nothing is marked as fill or drain.

The report names possible causes of a fill or drain. Buffers make an end of a run faster,
never slower; a slower one is explained by a cache, AUTOTUNE or other processes if the run
had them, else not at all. A cache slows its first pass in any case, so with a cache no
other cause is named.

Source: White, "An effective truncation heuristic for bias reduction in simulation
output", Simulation 69(6), 1997 (MSER). Intervals: Künsch, "The jackknife and the
bootstrap for general stationary observations", Annals of Statistics 17(3), 1989 (moving
blocks, because neighbouring windows are not independent).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

MOST_WINDOWS = 100
# Fewer windows than this do not show a change of rate.
FEWEST_WINDOWS = 8
DIFFERENCE = 0.05
# A shorter run measures the scheduler as much as the pipeline.
SHORTEST_S = 0.05
# A rate whose interval is wider than this to either side is only a magnitude.
WIDEST = 0.2
RESAMPLES = 2000

Stamps = NDArray[np.int64]
Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class LeftOut:
    """A part of the run that is not steady state.

    Attributes:
        what: `fill`, at the beginning, or `drain`, at the end.
        seconds: Its duration.
        elements: Its elements.
        ratio: Its rate, divided by that of the steady state.
    """

    what: str
    seconds: float
    elements: int
    ratio: float


@dataclass(frozen=True)
class Steady:
    """The steady state.

    Attributes:
        first: Index of the stamp at which it begins. That element is not counted: its
            time lies before the stamp.
        last: Index of the stamp at which it ends.
        elements: Elements between the two.
        seconds: Time between the two.
        interval: 95 % interval of elements per second, or None for too few windows.
        left_out: The fill and the drain, if the run had them.
        settled: False if the rate still changed when half of the run was left out, or
            if the run is too short.
        windows: Elements and seconds of each of its windows, which a comparison with
            another run needs (comparing/variance.py).
    """

    first: int
    last: int
    elements: int
    seconds: float
    interval: tuple[float, float] | None
    left_out: tuple[LeftOut, ...]
    settled: bool
    windows: tuple[tuple[int, float], ...] = ()

    @property
    def rate(self) -> float:
        """Elements per second."""
        return self.elements / self.seconds

    @property
    def short(self) -> bool:
        """Whether it lasted less than SHORTEST_S."""
        return self.seconds < SHORTEST_S

    @property
    def half_width(self) -> float | None:
        """Half of the interval's width as a fraction of the rate, or None."""
        if self.interval is None:
            return None
        return (self.interval[1] - self.interval[0]) / 2 / self.rate

    @property
    def sure(self) -> bool:
        """Whether it is long enough, and its rate known well enough, to be explained."""
        width = self.half_width
        return not self.short and width is not None and width <= WIDEST


def find_steady(stamps: Stamps, ended: bool, last_pass: int = 0) -> Steady | None:
    """Finds the steady state of a run.

    Args:
        stamps: int64 [n], arrival times of the elements in ns, ascending.
        ended: Whether the dataset ended, so that there can be a drain.
        last_pass: Index of the stamp at which the last pass begins.

    Returns:
        None with fewer than two elements, or without time between them.
    """
    if len(stamps) < 2 or stamps[-1] <= stamps[0]:
        return None
    edges = _window_edges(stamps)
    counts = np.diff(edges).astype(float)
    seconds = np.diff(stamps[edges]) / 1e9
    head, head_settled = _truncation(counts, seconds)
    tail, tail_settled = 0, True
    if ended:
        begin = max(head, int(np.searchsorted(edges, last_pass)))
        tail, tail_settled = _truncation(counts[begin:][::-1], seconds[begin:][::-1])
    steady = _without(stamps, edges, head, tail, head_settled and tail_settled)
    if (head or tail) and not steady.sure:
        return _without(stamps, edges, 0, 0, steady.settled)
    return steady


def _without(
    stamps: Stamps, edges: Stamps, head: int, tail: int, settled: bool
) -> Steady:
    """Returns the steady state without `head` windows at the start, `tail` at the end."""
    counts = np.diff(edges).astype(float)
    seconds = np.diff(stamps[edges]) / 1e9
    stop = len(counts) - tail
    first, last = int(edges[head]), int(edges[stop])
    left_out = []
    if head:
        ratio = _rate_ratio(counts, seconds, slice(0, head), slice(head, stop))
        left_out.append(
            LeftOut("fill", float(seconds[:head].sum()), first - int(edges[0]), ratio)
        )
    if tail:
        ratio = _rate_ratio(counts, seconds, slice(stop, None), slice(head, stop))
        left_out.append(
            LeftOut("drain", float(seconds[stop:].sum()), int(edges[-1]) - last, ratio)
        )
    return Steady(
        first=first,
        last=last,
        elements=last - first,
        seconds=float(stamps[last] - stamps[first]) / 1e9,
        interval=_bootstrap_interval(counts[head:stop], seconds[head:stop]),
        left_out=tuple(left_out),
        settled=settled,
        windows=tuple(
            (int(count), float(length))
            for count, length in zip(counts[head:stop], seconds[head:stop], strict=True)
        ),
    )


def _window_edges(stamps: Stamps) -> Stamps:
    """Returns indices into `stamps` that divide the run into windows of equal time.

    An edge lies on an element, so a window's rate is exact: its elements over the time
    from the element before its first to its last. A window has at least one element and
    a duration above 0.
    """
    ends = np.linspace(stamps[0], stamps[-1], MOST_WINDOWS + 1)[1:]
    edges = np.searchsorted(stamps, ends, side="left")
    edges = np.unique(np.concatenate([[0], edges, [len(stamps) - 1]]))
    # Elements with the same stamp belong to the window before.
    kept = [0]
    for edge in edges[1:]:
        if stamps[edge] > stamps[kept[-1]]:
            kept.append(int(edge))
    kept[-1] = len(stamps) - 1
    return np.asarray(kept, dtype=np.int64)


def _truncation(counts: Numbers, seconds: Numbers) -> tuple[int, bool]:
    """Windows to leave out at the beginning, and whether the rate settled after them."""
    windows = len(counts)
    if windows < FEWEST_WINDOWS:
        return 0, True
    rates = counts / seconds
    most = windows // 2
    scores = [float(np.var(rates[d:]) / (windows - d)) for d in range(most + 1)]
    best = int(np.argmin(scores))
    if best == 0:
        return 0, True
    before = counts[:best].sum() / seconds[:best].sum()
    after = counts[best:].sum() / seconds[best:].sum()
    if abs(before / after - 1) <= DIFFERENCE:
        return 0, True
    return best, best < most


def _rate_ratio(counts: Numbers, seconds: Numbers, part: slice, rest: slice) -> float:
    return float(
        (counts[part].sum() / seconds[part].sum())
        / (counts[rest].sum() / seconds[rest].sum())
    )


def _bootstrap_interval(
    counts: Numbers, seconds: Numbers
) -> tuple[float, float] | None:
    """95 % interval of the rate, from resampled blocks of neighbouring windows."""
    windows = len(counts)
    if windows < FEWEST_WINDOWS:
        return None
    block = max(2, round(windows ** (1 / 2)))
    blocks = -(-windows // block)
    random = np.random.default_rng(0)  # fixed: the same run gives the same interval
    starts = random.integers(0, windows - block + 1, size=(RESAMPLES, blocks))
    chosen = (starts[:, :, None] + np.arange(block)).reshape(RESAMPLES, -1)[:, :windows]
    rates = counts[chosen].sum(axis=1) / seconds[chosen].sum(axis=1)
    low, high = np.percentile(rates, [2.5, 97.5])
    return float(low), float(high)


def why_left_out(part: LeftOut, autotune: bool, cache: bool, busy: bool) -> str:
    """Returns the part's rate and its possible causes as text.

    Args:
        part: A fill or a drain.
        autotune: Whether the pipeline uses AUTOTUNE.
        cache: Whether a step of it is a cache.
        busy: Whether there is a warning that other processes used the CPUs.
    """
    rate = f"the rate was {part.ratio:.3g} times that of the steady state"
    if part.ratio > 1:
        buffers = "had filled before" if part.what == "fill" else "emptied"
        return f"{rate}; perhaps buffers that {buffers}"
    causes = []
    if part.what == "fill" and cache:
        causes.append("the first pass through the cache, which fills it")
    if part.what == "fill" and autotune:
        causes.append("AUTOTUNE, which begins with little parallelism")
    if busy and not (part.what == "fill" and cache):
        # Their CPU use is known for the whole run only.
        causes.append(
            "the other processes that the warning is about, if they took more then"
        )
    if not causes:
        return f"{rate}; the measurement does not show the cause"
    return f"{rate}; perhaps {', or '.join(causes)}"
