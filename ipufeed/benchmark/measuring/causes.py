"""Why a part of a run was at another rate: what is known to do that, and no more.

Only rates were measured. Buffers make an end of a run faster, never slower; for a slower
one there is a candidate if a cache, AUTOTUNE or other processes were there, else none. A
cache makes its first pass slower in any case, so that beside it nobody need be suspected.
"""

from __future__ import annotations

from ipufeed.benchmark.measuring.steady_state import LeftOut


def why_left_out(part: LeftOut, autotune: bool, cache: bool, busy: bool) -> str:
    """The part's rate, and what may be behind it.

    Args:
        part: What was left out.
        autotune: Whether the pipeline leaves anything to AUTOTUNE.
        cache: Whether a step of it keeps elements for later passes.
        busy: Whether other processes took the CPUs, so that a warning says so.
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
        # Whether they came and went, or were there all the time, nobody has seen.
        causes.append(
            "the other processes that the warning is about, if they took more then"
        )
    if not causes:
        return f"{rate}; nothing that was measured says why"
    return f"{rate}; perhaps {', or '.join(causes)}"
