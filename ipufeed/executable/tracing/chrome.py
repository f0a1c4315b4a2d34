"""Converts the recorder's events to Chrome's Trace Event Format.

A single event becomes a slice for its work and one for its wait. A merged event becomes
one slice from the first to the last, with the sums of both.

Source: "Trace Event Format", the Chromium project.
"""

from __future__ import annotations

import re

from ipufeed.executable.program.file_format import JsonObject
from ipufeed.executable.program.names import author_name
from ipufeed.executable.tracing.events import Event, Kind

# Perfetto orders processes by their number.
COMPILER, IPUS, FEEDS = 1, 2, 3
PROCESSES = {COMPILER: "Compiler", IPUS: "IPUs", FEEDS: "Feeds"}
# Shorter waits are the check of the ring, or the handover to a waiting reader.
SHORTEST_WAIT_NS = 20_000
SLICES = {
    Kind.READ_FILE: "COMPILE (from file)",
    Kind.LOAD: "LOAD_ENGINE",
    Kind.EXECUTE: "EXECUTE",
    Kind.HOST_TO_DEVICE: "HOST_TO_DEVICE_TRANSFER",
    Kind.DEVICE_TO_HOST: "DEVICE_TO_HOST_TRANSFER",
    Kind.FEEDER: "busy",
    Kind.CONSUMER: "takes an element",
}
# Names of the slices for waits; {} is the queue's name.
WAITS = {
    Kind.HOST_TO_DEVICE: "waits for infeed {}",
    Kind.CONSUMER: "starved: waits for the dataset",
    Kind.DEVICE_TO_HOST: "blocked: outfeed is full",
    Kind.FEEDER: "blocked: infeed is full",
}
# Events that wait before they work; the others wait after it.
WAIT_FIRST = {Kind.HOST_TO_DEVICE, Kind.CONSUMER}


def chrome_trace(events: list[Event], dropped: int, begun_ns: int) -> JsonObject:
    """Returns a trace, ready for JSON.

    Args:
        events: The events, by their start.
        dropped: Number of events that did not fit.
        begun_ns: Time at which the trace began: its time 0.
    """
    rows = _Rows()
    slices = []
    for event in events:
        process, row = rows.of(event)
        slices += [
            {"pid": process, "tid": row, **each} for each in slices_of(event, begun_ns)
        ]
    merged = sum(event.count - 1 for event in events)
    return {
        "displayTimeUnit": "ns",
        "otherData": {"merged events": merged, "dropped events": dropped},
        "traceEvents": rows.names() + slices,
    }


class _Rows:
    """Assigns rows to events."""

    def __init__(self) -> None:
        self._rows: dict[tuple[int, str], int] = {}

    def of(self, event: Event) -> tuple[int, int]:
        process, name = _row_of(event)
        return process, self._rows.setdefault((process, name), len(self._rows) + 1)

    def names(self) -> list[JsonObject]:
        used = {process for process, _ in self._rows}
        processes = [
            meta("process_name", process, 0, PROCESSES[process])
            for process in sorted(used)
        ]
        # By name: the rows of a feed stand together.
        ordered = sorted(self._rows.items())
        threads = [
            meta("thread_name", process, row, name) for (process, name), row in ordered
        ]
        order = [
            {
                "name": "thread_sort_index",
                "ph": "M",
                "pid": process,
                "tid": row,
                "args": {"sort_index": place},
            }
            for place, ((process, _), row) in enumerate(ordered)
        ]
        return [*processes, *threads, *order]


def meta(what: str, process: int, row: int, name: str) -> JsonObject:
    """Returns the event that names a process or row."""
    return {"name": what, "ph": "M", "pid": process, "tid": row, "args": {"name": name}}


def _row_of(event: Event) -> tuple[int, str]:
    """Returns process and name of an event's row."""
    if event.kind in (Kind.COMPILE, Kind.READ_FILE):
        return COMPILER, f"compile, thread {event.thread}"
    if event.kind in (Kind.LOAD, Kind.EXECUTE):
        return IPUS, f"IPU {event.ordinal}"
    name = event.name or str(event.number)
    if event.kind is Kind.STAGE:
        return IPUS, f"IPU {event.ordinal}, {name}"
    if event.kind is Kind.PIPELINE:
        return IPUS, f"IPU {event.ordinal}, pipeline from chip {event.nbytes}"
    if event.number < 0:
        return IPUS, f"IPU {event.ordinal}, {name}"
    if event.kind is Kind.DEVICE_TO_HOST:
        return FEEDS, f"outfeed {name}: IPU {event.ordinal}"
    if event.kind is Kind.HOST_TO_DEVICE:
        return FEEDS, f"infeed {name}: IPU {event.ordinal}"
    return FEEDS, f"infeed {name}: feeder"


def slices_of(event: Event, begun_ns: int) -> list[JsonObject]:
    """Returns the slices of an event; times in microseconds."""
    start = event.start_ns - begun_ns
    end = event.end_ns - begun_ns
    figures: JsonObject
    if event.kind is Kind.COMPILE:
        figures = {"program": author_name(event.name), "hash": _key(event)}
        return [
            _moment("COMPILE_BEGIN", start),
            span("COMPILE", start, end - start, figures),
            _moment("COMPILE_END", end),
        ]
    if event.kind in (Kind.LOAD, Kind.READ_FILE, Kind.EXECUTE):
        figures = {"program": author_name(event.name), "hash": _key(event)}
        if event.count > 1:
            figures |= {"runs": event.count, "busy [us]": event.busy_ns / 1e3}
        return [span(_title(event), start, end - start, figures)]
    if event.kind is Kind.STAGE and event.nbytes < 0:
        return [span("weight update", start, end - start, {})]
    if event.kind is Kind.STAGE:
        figures = {"mini-batch": event.nbytes}
        return [span(f"mini-batch {event.nbytes}", start, end - start, figures)]
    if event.kind is Kind.PIPELINE:
        return [span(on_ipus(event.name, event.nbytes), start, end - start, {})]
    figures = {"bytes": event.nbytes, "count": event.count}
    if event.count > 1:
        figures |= {
            "busy [us]": event.busy_ns / 1e3,
            "waited [us]": event.waited_ns / 1e3,
        }
        return [span(_title(event), start, end - start, figures)]
    waits_first = event.kind in WAIT_FIRST
    works_at = start + (event.waited_ns if waits_first else 0)
    waits_at = start + (0 if waits_first else event.busy_ns)
    found = [span(SLICES[event.kind], works_at, event.busy_ns, figures)]
    if event.waited_ns >= SHORTEST_WAIT_NS:
        found.append(
            span(WAITS[event.kind].format(event.name), waits_at, event.waited_ns, {})
        )
    return found


def on_ipus(schedule: str, first: int) -> str:
    """Renumbers the IPUs in `Schedule.text` for a replica that begins at IPU `first`."""
    what, before, ipus = schedule.rpartition("stages on IPUs ")
    if not before:
        return schedule
    return what + before + re.sub(r"\d+", lambda ipu: str(int(ipu[0]) + first), ipus)


def _title(event: Event) -> str:
    name = SLICES[event.kind]
    return f"{name} x {event.count}" if event.count > 1 else name


def _key(event: Event) -> str:
    """Returns a program's key as elsewhere in logs and file names."""
    return f"{event.number % 2**64:x}"


def span(name: str, start_ns: int, ns: int, figures: JsonObject) -> JsonObject:
    """Returns a slice of a row: a Chrome trace's event with a duration."""
    return {
        "name": name,
        "ph": "X",
        "ts": start_ns / 1e3,
        "dur": max(ns, 0) / 1e3,
        "args": figures,
    }


def _moment(name: str, at_ns: int) -> JsonObject:
    return {"name": name, "ph": "i", "s": "t", "ts": at_ns / 1e3}
