"""The simulated server: hardware IDs, and the groups of IPUs that they name."""

import pytest

from ipufeed.device.system.topology import GROUPS, allocate


def test_hardware_ids_are_those_of_the_documents():
    """16 single IPUs, then pairs, fours, eights and all; 24 is IPUs 4, 5, 6 and 7."""
    assert [len(ipus) for ipus in GROUPS] == [
        *[1] * 16,
        *[2] * 8,
        *[4] * 4,
        *[8] * 2,
        16,
    ]
    assert [GROUPS[ipu] for ipu in range(16)] == [(ipu,) for ipu in range(16)]
    assert GROUPS[24] == (4, 5, 6, 7)


@pytest.mark.parametrize("size", [1, 2, 4, 8, 16])
def test_the_groups_of_a_size_have_every_ipu_once(size):
    """And lie within those of the next size, so that room is never lost."""
    groups = [ipus for ipus in GROUPS if len(ipus) == size]

    assert sorted(ipu for ipus in groups for ipu in ipus) == list(range(16))
    for ipus in groups:
        larger = [each for each in GROUPS if len(each) == 2 * size]
        assert size == 16 or any(set(ipus) <= set(each) for each in larger)


@pytest.mark.parametrize(
    ("counts", "ids"),
    [
        ([1], [0]),
        ([4], [24]),
        ([16], [30]),
        ([1, 1, 1], [0, 1, 2]),
        ([1, 2], [0, 16]),
        ([1, 4, 2], [0, 24, 18]),
        ([1, 8, 4], [8, 28, 26]),
    ],
)
def test_groups_are_given_in_order_and_without_a_common_ipu(counts, ids):
    """The first free group of the size, the largest sizes first."""
    assert allocate(counts) == ids
    ipus = [ipu for hardware_id in ids for ipu in GROUPS[hardware_id]]
    assert len(set(ipus)) == sum(counts)


@pytest.mark.parametrize(
    "counts", [[1, 2, 4, 8, 1], [1] * 16, [4, 1, 1, 2, 8], [8, 8], [2, 1, 8, 1, 4]]
)
def test_whatever_adds_up_to_the_server_has_room(counts):
    """In any order of sizes."""
    ids = allocate(counts)

    assert ids is not None
    assert [len(GROUPS[hardware_id]) for hardware_id in ids] == counts
    assert sorted(ipu for each in ids for ipu in GROUPS[each]) == list(range(16))


@pytest.mark.parametrize("counts", [[3], [32], [16, 1], [1] * 17, [0]])
def test_what_has_no_room_gets_none(counts):
    """Too many IPUs, or a size that no group has."""
    assert allocate(counts) is None
