"""The links of the way through the device, as rows of the summary."""

from __future__ import annotations

from typing import Any

# A program that waits for less of its time than this has not waited.
HARDLY = 0.005
PILE_UP = "the host: results come faster than it reads them, and pile up unread"
WORDS = {
    "dataset": "the dataset: the program waited for it",
    "infeed": "the hand-over to the program: the dataset alone is faster",
    "program": "the program itself, copies into it included",
    "host": "the host: the program waited for room in the outfeed",
}


def link_rows(links: dict[str, Any] | None) -> list[tuple[str, str | None]]:
    """Rows for the summary; none for a result without links."""
    if links is None:
        return []
    from ipufeed.benchmark.report.summary import (  # which imports this module
        duration,
        number,
    )

    infeed, outfeed = links["infeed"], links["outfeed"]
    dataset, latency = links["dataset"], links["host"]["latency_ns"]
    slowest = WORDS[links["slowest"]]
    if links["slowest"] == "host" and outfeed["blocked_share"] < HARDLY:
        slowest = PILE_UP  # what lies behind the outfeed has room for them
    return [
        ("slowest link", slowest),
        (
            "dataset alone",
            None
            if dataset is None
            else f"{number(dataset['elements_per_second'])} elements/s",
        ),
        (
            "infeed",
            f"the program starved {infeed['starved_share']:.1%} of the time, the dataset "
            f"was blocked {infeed['blocked_share']:.1%}",
        ),
        (
            "device program",
            f"{duration(links['program']['seconds_per_element'])} per element, busy "
            f"{links['program']['busy_share']:.1%} of the time",
        ),
        (
            "outfeed",
            f"the program was blocked {outfeed['blocked_share']:.1%} of the time",
        ),
        (
            "host dequeue",
            None
            if latency is None
            else f"a result is visible after p50 {duration(latency['p50'] / 1e9)}, p99 "
            f"{duration(latency['p99'] / 1e9)}",
        ),
    ]
