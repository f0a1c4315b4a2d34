"""Rows of the summary for --cold, --service and --processes."""

from __future__ import annotations

from ipufeed.benchmark.report.protocols import Row, Section
from ipufeed.render.units import counted, duration, number, size


def service_rows(service: Section | None) -> list[Row]:
    """Returns the rows of a run through tf.data service."""
    if service is None:
        return []
    rows: list[Row] = [
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
            rows.append((_curve_label(point), _curve_text(point)))
    return rows


def _curve_label(point: Section) -> str:
    count = point["workers"]
    if count == 0:
        return "no service"
    return "1 worker" if count == 1 else f"{count} workers"


def _curve_text(point: Section) -> str:
    """Returns rate, interval and efficiency of a number of workers."""
    if point["elements_per_second"] is None:
        return "no rate"
    text = f"{number(point['elements_per_second'])} elements/s"
    if point["interval"] is not None:
        text += " ({} to {})".format(*(number(end) for end in point["interval"]))
    if point["efficiency"] is not None:
        text += f", efficiency {point['efficiency']:.0%}"
    return text


def process_rows(processes: Section | None) -> list[Row]:
    """Returns the rows of a run in several processes."""
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


def cold_rows(cold: Section | None) -> list[Row]:
    """Returns the rows of a cold run."""
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
