"""Runs on several processes, as rows of the summary."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ipufeed.render.units import counted, duration, number, size


def service_rows(service: Mapping[str, Any] | None) -> list[tuple[str, str | None]]:
    """Rows for the summary; none for a result of another kind."""
    if service is None:
        return []
    rows: list[tuple[str, str | None]] = [
        (
            "service",
            f"{service['service']}, sharding {service['sharding']}, compression "
            f"{service['compression']}",
        )
    ]
    for worker in service["workers"] or []:
        rate, busy = worker["elements_per_second"], worker["cpus_busy"]
        parts = [
            "not counted with this sharding"
            if worker["elements"] is None
            else f"{worker['elements']:,} elements produced",
            None if rate is None else f"{number(rate)} elements/s",
            None if busy is None else f"{busy:.2f} CPUs busy",
            "died" if worker["died"] else None,
        ]
        rows.append((f"worker {worker['worker']}", ", ".join(filter(None, parts))))
    if len(service["scale"]) > 1:
        for point in service["scale"]:
            rows.append((curve_label(point), curve_text(point)))
    return rows


def curve_label(point: Mapping[str, Any]) -> str:
    """`2 workers`."""
    count = point["workers"]
    if count == 0:
        return "no service"
    return "1 worker" if count == 1 else f"{count} workers"


def curve_text(point: Mapping[str, Any]) -> str:
    """Rate, interval and efficiency of a number of workers."""
    if point["elements_per_second"] is None:
        return "no rate"
    text = f"{number(point['elements_per_second'])} elements/s"
    if point["interval"] is not None:
        text += " ({} to {})".format(*(number(end) for end in point["interval"]))
    if point["efficiency"] is not None:
        text += f", efficiency {point['efficiency']:.0%}"
    return text


def process_rows(processes: Mapping[str, Any] | None) -> list[tuple[str, str | None]]:
    """Rows for the summary; none for a result of another kind."""
    if processes is None:
        return []
    rates = [each["elements_per_second"] for each in processes["each"]]
    shown = ", ".join(number(rate) for rate in rates)
    efficiency = processes["efficiency"]
    alone = processes["alone"]
    return [
        (
            f"{processes['count']} processes",
            f"{shown} elements/s, over the {duration(processes['seconds'])} in which all "
            "were in their steady state",
        ),
        (
            "one alone",
            None
            if alone is None
            else f"{number(alone['elements_per_second'])} elements/s"
            + ("" if efficiency is None else f": efficiency {efficiency:.0%}"),
        ),
    ]


def cold_rows(cold: Mapping[str, Any] | None) -> list[tuple[str, str | None]]:
    """Rows for the summary; none for a result of another kind."""
    if cold is None:
        return []
    times = "once" if cold["drops"] == 1 else f"{cold['drops']} times"
    return [
        (
            "cold files",
            f"{counted(cold['files'], 'file')} of {size(cold['bytes'])} dropped {times}; "
            f"{size(cold['cached_bytes_before'])} of it had been in memory, "
            f"{size(cold['cached_bytes_left'])} stayed",
        )
    ]
