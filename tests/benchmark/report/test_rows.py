"""What rows of the summary promise: they agree with the figures next to them."""

from types import SimpleNamespace

import pytest

from ipufeed.benchmark.report.summary_device import link_rows
from ipufeed.benchmark.report.summary_stages import stage_lines


def links(blocked_share):
    return {
        "slowest": "host",
        "dataset": None,
        "infeed": {"starved_share": 0.0, "blocked_share": 0.9},
        "program": {"seconds_per_element": 0.01, "busy_share": 1 - blocked_share},
        "outfeed": {"blocked_share": blocked_share},
        "host": {"latency_ns": None},
    }


@pytest.mark.parametrize(
    ("blocked_share", "words"),
    [(0.4, "waited for room in the outfeed"), (0.0, "and pile up unread")],
)
def test_a_host_that_reads_slowly_is_waited_for_or_not(blocked_share, words):
    """Where the store has room for all results, the program has waited for nothing."""
    rows = dict(link_rows(links(blocked_share)))

    assert words in rows["slowest link"]
    assert f"blocked {blocked_share:.1%}" in rows["outfeed"]


def stage(number):
    return {
        "name": f"map {number}",
        "share": 0.0,
        "seconds_per_element": 0.0,
        "cpu_seconds_per_element": 0.0,
        "parallelism": None,
        "autotuned": False,
        "ceiling_elements_per_second": None,
        "inside": [],
    }


@pytest.mark.parametrize(
    ("stages", "words"),
    [
        (3, "1 more stage (overlapped, or below 0.5%)"),
        (4, "2 more stages (overlapped, or below 0.5%)"),
    ],
)
def test_stages_that_are_left_out_are_counted(stages, words):
    """One hides; several hide."""
    result = SimpleNamespace(
        stages=[stage(n) for n in range(stages)], advice=None, what_if=None
    )

    assert stage_lines(result)[-1].strip() == words


def test_what_a_stage_contains_is_indented_below_its_row():
    """Also where stderr is not a terminal, and lines are not wrapped."""
    reader = stage(0) | {"share": 1.0, "inside": ["TFRecord"]}
    result = SimpleNamespace(stages=[reader], advice=None, what_if=None)

    assert stage_lines(result)[-1] == "    with `TFRecord` inside it"
