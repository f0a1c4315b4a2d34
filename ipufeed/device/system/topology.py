"""The simulated server: 16 IPUs, and the groups of them that make devices.

A hardware ID identifies a group of IPUs that a program can attach to:

    0..15   single IPUs          24..27  fours
    16..23  pairs                28, 29  eights       30  all of them

Source: the numbers are those of the 16-IPU server of Graphcore's documents, where 24 is
the group of IPUs 4, 5, 6 and 7.
"""

from __future__ import annotations

from collections.abc import Sequence

# The IPUs of one server, and the number of registered TensorFlow devices.
NUM_IPUS = 16

_PAIRS = ((5, 7), (4, 6), (1, 3), (0, 2), (13, 15), (12, 14), (9, 11), (8, 10))
_FOURS = ((4, 5, 6, 7), (0, 1, 2, 3), (12, 13, 14, 15), (8, 9, 10, 11))
_EIGHTS = (tuple(range(8)), tuple(range(8, 16)))

# The IPUs of each hardware ID.
GROUPS: tuple[tuple[int, ...], ...] = (
    *((ipu,) for ipu in range(NUM_IPUS)),
    *_PAIRS,
    *_FOURS,
    *_EIGHTS,
    tuple(range(NUM_IPUS)),
)


def allocate(counts: Sequence[int]) -> list[int] | None:
    """Returns hardware IDs of disjoint groups with these numbers of IPUs.

    The largest are chosen first: groups are nested, so that this finds a solution if there
    is one.

    Returns:
        An ID for each count, in the same order; None if the IPUs do not suffice, or there
        is no group of one of the sizes.
    """
    taken: set[int] = set()
    ids: dict[int, int] = {}
    for place in sorted(range(len(counts)), key=lambda place: -counts[place]):
        free = (
            hardware_id
            for hardware_id, ipus in enumerate(GROUPS)
            if len(ipus) == counts[place] and not taken & set(ipus)
        )
        hardware_id = next(free, None)
        if hardware_id is None:
            return None
        ids[place] = hardware_id
        taken.update(GROUPS[hardware_id])
    return [ids[place] for place in range(len(counts))]
