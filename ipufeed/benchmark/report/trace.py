"""A run as a timeline in Chrome's Trace Event Format, for https://ui.perfetto.dev.

    Run          parts      start-up | fill | steady state | drain     slices
                 waits      where the consumer starved, or the dataset was blocked
                 elements per second, queue depth, waits in percent    counters
    Threads      feeder     the dataset makes an element | blocked     from the recorder
                 consumer   starved | copies
    Compiler, IPUs, Feeds   of a run through the device                likewise

The first two come from the series of the JSON and are always there; what the threads did
is there where it was recorded (recording.py), which a stored result has not.

Source: "Trace Event Format", the Chromium project.
"""

from __future__ import annotations

import gzip
import json
from typing import Any

from ipufeed.benchmark.report.pictures import PARTS, Course, course_of
from ipufeed.benchmark.report.protocols import Recording
from ipufeed.executable.tracing import chrome as chrome_trace
from ipufeed.executable.tracing.chrome import meta, span
from ipufeed.executable.tracing.events import Event, Kind
from ipufeed.render.text import part

# Behind those of chrome_trace: Perfetto orders processes by their number, and the run
# comes first.
RUN, THREADS = 0, 9
PARTS_ROW, WAITS_ROW = 1, 2
# A window in which a side waited longer than this is a part of a slice.
WAITED = 0.5


def trace_bytes(
    result: dict[str, Any], recording: Recording | None, zipped: bool
) -> bytes:
    """The trace of a result as the JSON holds it.

    Args:
        result: The result.
        recording: What the threads did, or None.
        zipped: Whether to give it as gzip, which Perfetto and Chrome open, too.
    """
    course = course_of(result)
    offset_ns = recording.requested_ns - recording.begun_ns if recording else 0
    events = run_events(course, offset_ns) if course else []
    other: dict[str, Any] = {"dataset": str(part(result, "dataset").get("name", ""))}
    if recording is not None and part(result, "links"):
        inner = chrome_trace.chrome_trace(
            recording.events, recording.dropped, recording.begun_ns
        )
        events += inner["traceEvents"]
    elif recording is not None:
        events += thread_events(recording.events, recording.begun_ns)
    if recording is not None:
        other["dropped events"] = recording.dropped
        other["merged events"] = sum(each.count - 1 for each in recording.events)
    whole = {"displayTimeUnit": "ms", "otherData": other, "traceEvents": events}
    text = json.dumps(whole).encode()
    # No time in the header: the same result gives the same file.
    return gzip.compress(text, 6, mtime=0) if zipped else text


def run_events(course: Course, offset_ns: int) -> list[dict[str, Any]]:
    """Parts, waits and counters; the course begins offset_ns behind the trace's time 0."""
    found = [
        meta("process_name", RUN, 0, "Run"),
        meta("thread_name", RUN, PARTS_ROW, "parts of the run"),
        meta("thread_name", RUN, WAITS_ROW, "waits"),
    ]

    def at(seconds: float) -> int:
        return offset_ns + round(seconds * 1e9)

    for name, begin, end in course.stretches():
        slice_ = span(PARTS[name][2], at(begin), at(end) - at(begin), {})
        found.append({"pid": RUN, "tid": PARTS_ROW, **slice_})
    for name, begin, end in waits(course):
        slice_ = span(name, at(begin), at(end) - at(begin), {})
        found.append({"pid": RUN, "tid": WAITS_ROW, **slice_})
    columns = {
        "elements per second": course.rates,
        "queue depth": course.depths,
        "starved [%]": [100 * share for share in course.starved],
        "blocked [%]": [100 * share for share in course.blocked],
    }
    for name, values in columns.items():
        # A counter holds its value until the next one.
        for begin, value in zip(course.edges[:-1], values, strict=True):
            found.append(counter(name, at(begin), round(value, 3)))
        found.append(counter(name, at(course.end), 0))
    return found


def counter(name: str, at_ns: int, value: float) -> dict[str, Any]:
    """A value of a counter."""
    return {
        "name": name,
        "ph": "C",
        "pid": RUN,
        "tid": 0,
        "ts": at_ns / 1e3,
        "args": {"value": value},
    }


def waits(course: Course) -> list[tuple[str, float, float]]:
    """Stretches in which a side waited most of the time: name, begin, end."""
    found: list[tuple[str, float, float]] = []
    for index, (begin, end) in enumerate(
        zip(course.edges[:-1], course.edges[1:], strict=True)
    ):
        name = ""
        if course.starved[index] > WAITED:
            name = "starved: waits for the dataset"
        elif course.blocked[index] > WAITED:
            name = "blocked: the queue is full"
        if name and found and found[-1][0] == name and found[-1][2] == begin:
            found[-1] = (name, found[-1][1], end)
        elif name:
            found.append((name, begin, end))
    return found


def thread_events(events: list[Event], begun_ns: int) -> list[dict[str, Any]]:
    """What feeder and consumer did, in a row each."""
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
