"""Numbers as text: no exponents, and the unit that fits after rounding."""

import pytest

from ipufeed.render import units


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.9996, "1 s"),
        (0.9994, "999 ms"),
        (999.7e-6, "1 ms"),
        (999.4e-6, "999 µs"),
        (999.6e-9, "1 µs"),
        (99.96, "100 s"),
        (0.0, "0 ns"),
    ],
)
def test_a_duration_that_is_rounded_up_has_the_next_unit(seconds, text):
    assert units.duration(seconds) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [(999_700, "1 MB"), (999_400, "999 kB"), (999.7e6, "1 GB"), (999, "999 bytes")],
)
def test_a_size_that_is_rounded_up_has_the_next_unit(count, text):
    assert units.size(count) == text


@pytest.mark.parametrize(
    ("value", "text"), [(999_700, "1 M"), (999_400, "999 k"), (999, "999")]
)
def test_a_count_that_is_rounded_up_has_the_next_prefix(value, text):
    assert units.prefixed(value) == text
