"""Checks the capacities of the queues' rings, in elements."""

from __future__ import annotations

from ipufeed.checks import is_int

MOST_PREFETCH_DEPTH = 255
# As kMostCapacity in ipufeed/cc/feeds/outfeed.h.
MOST_BUFFER_DEPTH = 1 << 16


def check_prefetch_depth(depth: object) -> int | None:
    """Returns the depth; None, for the default, instead of 0.

    Raises:
        ValueError: It is not an integer in [0, 255].
    """
    if depth is None:
        return None
    if not is_int(depth):
        raise ValueError(
            f"prefetch_depth must be an integer, but it is {depth!r} of type "
            f"{type(depth).__name__}"
        )
    if depth < 0:  # in the words of the original; 0 is the default here
        raise ValueError(f"prefetch_depth must be greater than zero, but it is {depth}")
    if depth > MOST_PREFETCH_DEPTH:
        raise ValueError(f"prefetch_depth must be less than 256, but it is {depth}")
    return int(depth) or None


def check_buffer_depth(buffer_depth: object) -> int:
    """Returns the depth of a ring.

    Raises:
        ValueError: It is not an integer, or out of range.
    """
    if not is_int(buffer_depth):
        raise ValueError(
            f"Outfeed buffer depth must be an integer, got {buffer_depth!r}."
        )
    if buffer_depth <= 0:
        raise ValueError(
            f"Outfeed buffer depth cannot be less than 1, got {buffer_depth}."
        )
    if buffer_depth > MOST_BUFFER_DEPTH:
        raise ValueError(
            f"Outfeed buffer depth cannot be more than {MOST_BUFFER_DEPTH}, got "
            f"{buffer_depth}. Results that do not fit into the ring are kept behind "
            "it: a ring of a few elements is enough."
        )
    return int(buffer_depth)
