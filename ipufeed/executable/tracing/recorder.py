"""What happens when: compiling, loading, running, transfers and waits, as a Chrome trace.

    with ipufeed.executable.trace("run.json"):
        train()                        then open run.json in https://ui.perfetto.dev

    compiler          COMPILE_BEGIN, COMPILE_END, from file
    IPU 0             LOAD_ENGINE, EXECUTE
    infeed 'images'   feeder: busy, blocked | IPU 0: waits, HOST_TO_DEVICE_TRANSFER
    outfeed 'loss'    IPU 0: DEVICE_TO_HOST_TRANSFER, waits

For a whole run without a change to it: PVTI_OPTIONS='{"enable":"true","directory":"."}'
writes tf_trace__<time>__<pid>.json when the process ends.

The recorder is native and bounded (cc/base/trace.h): of a long run the beginning is in
full, later many transfers become one slice with their number.

Source: names of the events and of PVTI_OPTIONS are those of Graphcore's PopVision Trace
Instrumentation; the format is the Trace Event Format of Chrome.
"""

from __future__ import annotations

import contextlib
import ctypes
import datetime
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ipufeed import _native
from ipufeed.device.log import LOGGER
from ipufeed.executable.tracing.events import Event, Kind

# Events of each thread. 10 ms of one-microsecond steps in full; 5 MB if it fills up.
DEFAULT_EVENTS = 1 << 16
FIELDS = 10
MOST_NAME = 512


@contextlib.contextmanager
def trace(
    path: str | os.PathLike[str], *, events: int = DEFAULT_EVENTS
) -> Iterator[None]:
    """Records what happens in the block, and writes it as a Chrome trace.

    Args:
        path: The file, which is replaced at the block's end, also if that is an error.
        events: How many events of each thread are kept, at least 64, at 72 bytes each.
            Default: 65536.

    Raises:
        RuntimeError: A trace is running already: there is one for the process.
        ValueError: `events` is too small.
        OSError: There is no such folder, or the file cannot be written.

    Threads: any may use it; it records what all of them do. A program that is running
    at the block's end is not in it: what is recorded has ended.
    """
    target = Path(path)
    if not target.parent.is_dir():
        raise FileNotFoundError(
            f"`path` must be in a folder that exists, got {str(target)!r}: make "
            f"{target.parent} first."
        )
    start(events)
    begun = time.monotonic_ns()
    try:
        yield
    finally:
        write(target, *stop(), begun)


def start(events: int = DEFAULT_EVENTS) -> None:
    """Starts the recorder; raises as `trace` does."""
    if events < 64:
        raise ValueError(f"`events` must be at least 64, got {events}.")
    if events >= 2**63:
        raise ValueError(f"`events` must be below 2**63, got {events}.")
    if not _native.entry().ipufeed_trace_start(events):
        raise RuntimeError(
            "A trace is running already, and there is one for the process: leave its "
            "block first, or unset PVTI_OPTIONS."
        )


def stop() -> tuple[list[Event], int]:
    """Stops it; gives the events by their start, and how many found no room."""
    entry = _native.entry()
    dropped = ctypes.c_int64()
    count = entry.ipufeed_trace_stop(ctypes.byref(dropped))
    rows = np.zeros([max(count, 1), FIELDS], np.int64)
    count = entry.ipufeed_trace_take(rows.ctypes.data, count)
    names: dict[tuple[int, int], str] = {}
    found = []
    for row in rows[:count].tolist():
        kind, ordinal, number, start_ns, end_ns, busy, waited, size, many, thread = row
        key = (kind, number)
        if key not in names:
            buffer = ctypes.create_string_buffer(MOST_NAME)
            entry.ipufeed_trace_name(kind, number, buffer, MOST_NAME)
            names[key] = buffer.value.decode("utf-8", "replace")
        found.append(
            Event(
                kind=Kind(kind),
                ordinal=ordinal,
                number=number,
                name=names[key],
                start_ns=start_ns,
                end_ns=end_ns,
                busy_ns=busy,
                waited_ns=waited,
                nbytes=size,
                count=many,
                thread=thread,
            )
        )
    found.sort(key=lambda event: event.start_ns)
    return found, dropped.value


def write(path: Path, events: list[Event], dropped: int, begun_ns: int) -> None:
    """Writes a trace; one that lacks events has their number."""
    from ipufeed.executable.store.cache import write_whole
    from ipufeed.executable.tracing import chrome as chrome_trace

    content = chrome_trace.chrome_trace(events, dropped, begun_ns)
    write_whole(path, json.dumps(content).encode())
    if dropped:
        LOGGER.warning(
            "%s lacks %d events, for which there was no room: give `events` more.",
            path,
            dropped,
        )


def follow_environment() -> None:
    """PVTI_OPTIONS: traces the whole run, if that is asked for. Called at import."""
    text = os.environ.get("PVTI_OPTIONS", "")
    if not text.strip():
        return
    try:
        options: Any = json.loads(text)
        enabled = str(options.get("enable", "false")).lower() in ("true", "1")
        folder = Path(str(options.get("directory", "") or ".")).absolute()
    except (ValueError, AttributeError):
        LOGGER.warning("PVTI_OPTIONS must be a JSON object, got %r: no trace.", text)
        return
    if not enabled:
        return
    start()
    begun = time.monotonic_ns()

    def finish() -> None:
        stamp = datetime.datetime.now().isoformat(timespec="milliseconds")
        path = folder / f"tf_trace__{stamp.replace(':', '-')}__{os.getpid()}.json"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            write(path, *stop(), begun)
        except OSError as error:
            LOGGER.warning("The trace cannot be written to %s: %s", path, error)
        else:
            LOGGER.info("The trace is in %s", path)

    _native.at_exit(finish)
