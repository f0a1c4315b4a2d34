"""A run as a timeline in Chrome's Trace Event Format, for https://ui.perfetto.dev.

    Run          parts      start-up | fill | steady state | drain     slices
                 waits      where the consumer starved, or the dataset was blocked
                 elements per second, queue depth, waits in percent    counters
    Threads      feeder     the dataset makes an element | blocked     recorded events
                 consumer   starved | copies
    Compiler, IPUs, Feeds   of a run through the device                recorded events

The run comes from the series of the JSON and is in every trace; the rest only where events
were recorded (recording.py), not for a stored result.

Source: "Trace Event Format", the Chromium project.
"""

from __future__ import annotations

import gzip
import json

from ipufeed.benchmark.report.pictures import PARTS, Series, series_of
from ipufeed.benchmark.report.protocols import Recording
from ipufeed.executable.tracing import chrome as chrome_trace
from ipufeed.executable.tracing.chrome import meta, span
from ipufeed.executable.tracing.events import Event, Kind
from ipufeed.render.text import JsonObject, part

# Perfetto sorts processes by number: the run is first, the threads come after those of
# chrome_trace.
RUN, THREADS = 0, 9
PARTS_ROW, WAITS_ROW = 1, 2
# A window is part of a slice if a side waited for more than this fraction of it.
WAITED_FRACTION = 0.5


def trace_bytes(result: JsonObject, recording: Recording | None, zipped: bool) -> bytes:
    """Returns the trace of a result as the JSON holds it.

    Args:
        result: The result.
        recording: Events of the threads, or None.
        zipped: Whether to compress it as gzip, which Perfetto and Chrome can open.
    """
    series = series_of(result)
    offset_ns = recording.requested_ns - recording.begun_ns if recording else 0
    events = _run_events(series, offset_ns) if series else []
    other: JsonObject = {"dataset": str(part(result, "dataset").get("name", ""))}
    if recording is not None and part(result, "links"):
        inner = chrome_trace.chrome_trace(
            recording.events, recording.dropped, recording.begun_ns
        )
        events += inner["traceEvents"]
    elif recording is not None:
        events += _thread_events(recording.events, recording.begun_ns)
    if recording is not None:
        other["dropped events"] = recording.dropped
        other["merged events"] = sum(each.count - 1 for each in recording.events)
    whole = {"displayTimeUnit": "ms", "otherData": other, "traceEvents": events}
    text = json.dumps(whole).encode()
    # Without a time in the header, so that the same result gives the same file.
    return gzip.compress(text, 6, mtime=0) if zipped else text


def _run_events(series: Series, offset_ns: int) -> list[JsonObject]:
    """Returns parts, waits and counters; the series begins offset_ns after the trace."""
    found = [
        meta("process_name", RUN, 0, "Run"),
        meta("thread_name", RUN, PARTS_ROW, "parts of the run"),
        meta("thread_name", RUN, WAITS_ROW, "waits"),
    ]

    def at(seconds: float) -> int:
        return offset_ns + round(seconds * 1e9)

    for name, begin, end in series.stretches():
        slice_ = span(PARTS[name][2], at(begin), at(end) - at(begin), {})
        found.append({"pid": RUN, "tid": PARTS_ROW, **slice_})
    for name, begin, end in _waits(series):
        slice_ = span(name, at(begin), at(end) - at(begin), {})
        found.append({"pid": RUN, "tid": WAITS_ROW, **slice_})
    columns = {
        "elements per second": series.rates,
        "queue depth": series.depths,
        "starved [%]": [100 * share for share in series.starved],
        "blocked [%]": [100 * share for share in series.blocked],
    }
    for name, values in columns.items():
        # A counter holds its value until the next one.
        for begin, value in zip(series.edges[:-1], values, strict=True):
            found.append(_counter(name, at(begin), round(value, 3)))
        found.append(_counter(name, at(series.end), 0))
    return found


def _counter(name: str, at_ns: int, value: float) -> JsonObject:
    return {
        "name": name,
        "ph": "C",
        "pid": RUN,
        "tid": 0,
        "ts": at_ns / 1e3,
        "args": {"value": value},
    }


def _waits(series: Series) -> list[tuple[str, float, float]]:
    """Returns the windows in which a side waited most of the time: name, begin, end."""
    found: list[tuple[str, float, float]] = []
    for index, (begin, end) in enumerate(
        zip(series.edges[:-1], series.edges[1:], strict=True)
    ):
        name = ""
        if series.starved[index] > WAITED_FRACTION:
            name = "starved: waits for the dataset"
        elif series.blocked[index] > WAITED_FRACTION:
            name = "blocked: the queue is full"
        if name and found and found[-1][0] == name and found[-1][2] == begin:
            found[-1] = (name, found[-1][1], end)
        elif name:
            found.append((name, begin, end))
    return found


def _thread_events(events: list[Event], begun_ns: int) -> list[JsonObject]:
    """Returns the events of feeder and consumer, a row each."""
    rows = {Kind.FEEDER: (1, "feeder"), Kind.CONSUMER: (2, "consumer")}
    found = []
    for event in events:
        if event.kind in rows:
            found += [
                {"pid": THREADS, "tid": rows[event.kind][0], **each}
                for each in chrome_trace.slices_of(event, begun_ns)
            ]
    names = [meta("thread_name", THREADS, row, name) for row, name in rows.values()]
    return (
        [meta("process_name", THREADS, 0, "Threads"), *names, *found] if found else []
    )
