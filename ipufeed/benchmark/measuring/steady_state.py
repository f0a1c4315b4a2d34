"""Which part of a run is its steady state, and how fast that is.

    request   first element                                        last element
    |  start-up  |  fill  |            steady state           |  drain  |

Start-up ends with the first element. A fill (a burst or a lull at the beginning) and,
where the dataset ended, a drain (likewise at the end) are found with the marginal
standard error rule on the rates of up to 100 windows of equal time: leave out the d
windows for which var(rest) / count(rest) is least. They are left out only if the windows'
rate differs from the rest's by more than 5 %, so that a steady run keeps all it has. Of
several passes only the last one can end in a drain: that one alone is searched for it,
since a pass that is faster than the others, from a cache, is none.

A run that is too short for that keeps all it has, too: where the steady state would be
shorter than 50 ms, or its rate not known to 20 %, nothing is marked as fill or drain.

Why a part of a run was at another rate is reported where a cause is known: buffers make
an end of a run faster, never slower; for a slower one there is a candidate if a cache,
AUTOTUNE or other processes were there, else none. A cache makes its first pass slower in
any case, so that with a cache no other cause need be suspected.

Source: White, "An effective truncation heuristic for bias reduction in simulation
output", Simulation 69(6), 1997 (MSER). Intervals: Künsch, "The jackknife and the
bootstrap for general stationary observations", Annals of Statistics 17(3), 1989 (moving
blocks, because neighbouring windows are not independent).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

MOST_WINDOWS = 100
# Fewer windows than this do not show a change of rate.
FEWEST_WINDOWS = 8
DIFFERENCE = 0.05
# Shorter than this, a run is as much the scheduler's as the pipeline's.
SHORTEST_S = 0.05
# A rate whose interval is wider than this to either side is a magnitude.
WIDEST = 0.2
RESAMPLES = 2000

Stamps = np.ndarray[Any, np.dtype[np.int64]]
Numbers = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True)
class LeftOut:
    """A part of the run that is not steady state.

    Attributes:
        what: `fill`, at the beginning, or `drain`, at the end.
        seconds: How long it lasted.
        elements: How many there were meanwhile.
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
        left_out: What of the run is not in it, but for the start-up.
        settled: False if the rate still changed when half of the run was left out, or
            if the run is too short.
        windows: The windows that it consists of, each with its elements and seconds: what
            a comparison with another run needs (see comparing/variance.py).
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
    def spread(self) -> float | None:
        """Half of the interval's width as a share of the rate, or None."""
        if self.interval is None:
            return None
        return (self.interval[1] - self.interval[0]) / 2 / self.rate

    @property
    def sure(self) -> bool:
        """Whether it is long enough, and its rate known well enough, to explain it."""
        return not self.short and self.spread is not None and self.spread <= WIDEST


def find_steady(stamps: Stamps, ended: bool, last_pass: int = 0) -> Steady | None:
    """Finds the steady state of a run.

    Args:
        stamps: int64 [n], when each element was there, in ns, ascending.
        ended: Whether the dataset came to its end, so that there can be a drain.
        last_pass: Index of the stamp at which the pass begins that can end in a drain.

    Returns:
        None if fewer than two elements, or no time between them, make a rate undefined.
    """
    if len(stamps) < 2 or stamps[-1] <= stamps[0]:
        return None
    edges = window_edges(stamps)
    counts = np.diff(edges).astype(float)
    seconds = np.diff(stamps[edges]) / 1e9
    head, head_settled = cut(counts, seconds)
    tail, tail_settled = 0, True
    if ended:
        begin = max(head, int(np.searchsorted(edges, last_pass)))
        tail, tail_settled = cut(counts[begin:][::-1], seconds[begin:][::-1])
    steady = between(stamps, edges, head, tail, head_settled and tail_settled)
    if (head or tail) and not steady.sure:
        return between(stamps, edges, 0, 0, steady.settled)
    return steady


def between(
    stamps: Stamps, edges: Stamps, head: int, tail: int, settled: bool
) -> Steady:
    """The steady state without some windows at the beginning and at the end."""
    counts = np.diff(edges).astype(float)
    seconds = np.diff(stamps[edges]) / 1e9
    stop = len(counts) - tail
    first, last = int(edges[head]), int(edges[stop])
    left_out = []
    if head:
        ratio = compare(counts, seconds, slice(0, head), slice(head, stop))
        left_out.append(
            LeftOut("fill", float(seconds[:head].sum()), first - int(edges[0]), ratio)
        )
    if tail:
        ratio = compare(counts, seconds, slice(stop, None), slice(head, stop))
        left_out.append(
            LeftOut("drain", float(seconds[stop:].sum()), int(edges[-1]) - last, ratio)
        )
    return Steady(
        first=first,
        last=last,
        elements=last - first,
        seconds=float(stamps[last] - stamps[first]) / 1e9,
        interval=interval(counts[head:stop], seconds[head:stop]),
        left_out=tuple(left_out),
        settled=settled,
        windows=tuple(
            (int(count), float(length))
            for count, length in zip(counts[head:stop], seconds[head:stop], strict=True)
        ),
    )


def window_edges(stamps: Stamps) -> Stamps:
    """Indices into `stamps` that cut the run into windows of about equal time.

    An edge lies on an element, so a window's rate is exact: its elements over the time
    from the element before its first to its last. A window has at least one element and
    some time.
    """
    ends = np.linspace(stamps[0], stamps[-1], MOST_WINDOWS + 1)[1:]
    edges = np.searchsorted(stamps, ends, side="left")
    edges = np.unique(np.concatenate([[0], edges, [len(stamps) - 1]]))
    # Elements that were there at the same time belong to the window before.
    kept = [0]
    for edge in edges[1:]:
        if stamps[edge] > stamps[kept[-1]]:
            kept.append(int(edge))
    kept[-1] = len(stamps) - 1
    return np.asarray(kept, dtype=np.int64)


def cut(counts: Numbers, seconds: Numbers) -> tuple[int, bool]:
    """How many windows to leave out at the beginning, and whether that settled it."""
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


def compare(counts: Numbers, seconds: Numbers, part: slice, rest: slice) -> float:
    """The rate of one part, divided by that of another."""
    return float(
        (counts[part].sum() / seconds[part].sum())
        / (counts[rest].sum() / seconds[rest].sum())
    )


def interval(counts: Numbers, seconds: Numbers) -> tuple[float, float] | None:
    """95 % interval of the rate, from resampled blocks of neighbouring windows."""
    windows = len(counts)
    if windows < FEWEST_WINDOWS:
        return None
    block = max(2, round(windows ** (1 / 2)))
    blocks = -(-windows // block)
    random = np.random.default_rng(0)  # the same run always gives the same interval
    starts = random.integers(0, windows - block + 1, size=(RESAMPLES, blocks))
    chosen = (starts[:, :, None] + np.arange(block)).reshape(RESAMPLES, -1)[:, :windows]
    rates = counts[chosen].sum(axis=1) / seconds[chosen].sum(axis=1)
    low, high = np.percentile(rates, [2.5, 97.5])
    return float(low), float(high)


def why_left_out(part: LeftOut, autotune: bool, cache: bool, busy: bool) -> str:
    """The part's rate, and what may be behind it.

    Args:
        part: What was left out.
        autotune: Whether the pipeline leaves anything to AUTOTUNE.
        cache: Whether a step of it keeps elements for later passes.
        busy: Whether other processes took the CPUs, for the warning.
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
        # Whether they came and went, or were there all the time, is unknown.
        causes.append(
            "the other processes that the warning is about, if they took more then"
        )
    if not causes:
        return f"{rate}; the cause is not in what was measured"
    return f"{rate}; perhaps {', or '.join(causes)}"
