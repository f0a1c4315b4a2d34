"""Records compilations, loads, runs, transfers and waits as a Chrome trace.

    with ipufeed.executable.trace("run.json"):
        train()                        then open run.json in https://ui.perfetto.dev

    compiler          COMPILE_BEGIN, COMPILE_END, from file
    IPU 0             LOAD_ENGINE, EXECUTE
    infeed 'images'   feeder: busy, blocked | IPU 0: waits, HOST_TO_DEVICE_TRANSFER
    outfeed 'loss'    IPU 0: DEVICE_TO_HOST_TRANSFER, waits

To record a whole run without changing the program: PVTI_OPTIONS='{"enable":"true",
"directory":"."}' writes tf_trace__<time>__<pid>.json when the process ends.

The recorder is native and bounded (cc/base/trace.h): the beginning of a long run is in
full, later events are merged, with their number.

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

# Events per thread: 10 ms of one-microsecond steps in full, 5 MB when full.
DEFAULT_EVENTS = 1 << 16
FIELDS = 10
MOST_NAME = 512


@contextlib.contextmanager
def trace(
    path: str | os.PathLike[str], *, events: int = DEFAULT_EVENTS
) -> Iterator[None]:
    """Records the block, and writes a Chrome trace at its end.

    Args:
        path: The file, which is replaced at the end of the block, also after an error.
        events: Number of events kept per thread, at least 64; 72 bytes each.
            Default: 65536.

    Raises:
        RuntimeError: A trace is already running; a process has one at a time.
        TypeError: `path` is not a path.
        ValueError: `events` is too small.
        OSError: The folder does not exist, or the file cannot be written.

    Threads: any; the trace covers all threads. An event that has not ended at the end of
    the block, such as a running program, is missing.
    """
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(
            f"`path` must be a str or a path, got {type(path).__name__} {path!r}."
        )
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
        _write(target, *stop(), begun)


def start(events: int = DEFAULT_EVENTS) -> None:
    """Starts the recorder; raises what `trace` raises."""
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
    """Stops the recorder; returns the events by start, and the number that did not fit."""
    entry = _native.entry()
    dropped = ctypes.c_int64()
    count = entry.ipufeed_trace_stop(ctypes.byref(dropped))
    rows = np.zeros([max(count, 1), FIELDS], np.int64)
    count = entry.ipufeed_trace_take(rows.ctypes.data, count)
    names: dict[tuple[int, int], str] = {}
    found = []
    for row in rows[:count].tolist():
        kind, ordinal, number, *figures = row
        key = (kind, number)
        if key not in names:
            buffer = ctypes.create_string_buffer(MOST_NAME)
            entry.ipufeed_trace_name(kind, number, buffer, MOST_NAME)
            names[key] = buffer.value.decode("utf-8", "replace")
        found.append(Event(Kind(kind), ordinal, number, names[key], *figures))
    found.sort(key=lambda event: event.start_ns)
    return found, dropped.value


def _write(path: Path, events: list[Event], dropped: int, begun_ns: int) -> None:
    """Writes a trace, which contains the number of events that did not fit."""
    from ipufeed.executable.tracing import chrome as chrome_trace
    from ipufeed.render.files import write_whole

    content = chrome_trace.chrome_trace(events, dropped, begun_ns)
    write_whole(path, json.dumps(content).encode(), mode=0o600)
    if dropped:
        LOGGER.warning(
            "%s lacks %d events, for which there was no room: give `events` more.",
            path,
            dropped,
        )


# The values of `enable` in PVTI_OPTIONS, in lower case.
_SWITCH = {"true": True, "1": True, "false": False, "0": False}


def follow_environment() -> None:
    """Traces the whole process if PVTI_OPTIONS requests it. Called at import."""
    text = os.environ.get("PVTI_OPTIONS", "")
    if not text.strip():
        return
    try:
        options: Any = json.loads(text)
        enabled = str(options.get("enable", "false")).lower()
        folder = Path(str(options.get("directory", "") or ".")).absolute()
    except (ValueError, AttributeError):
        LOGGER.warning("PVTI_OPTIONS must be a JSON object, got %r: no trace.", text)
        return
    if enabled not in _SWITCH:
        LOGGER.warning(
            'PVTI_OPTIONS: `enable` must be "true" or "false", got %r: no trace.',
            options["enable"],
        )
    if not _SWITCH.get(enabled):
        return
    start()
    begun = time.monotonic_ns()

    def finish() -> None:
        stamp = datetime.datetime.now().isoformat(timespec="milliseconds")
        path = folder / f"tf_trace__{stamp.replace(':', '-')}__{os.getpid()}.json"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            _write(path, *stop(), begun)
        except OSError as error:
            LOGGER.warning("The trace cannot be written to %s: %s", path, error)
        else:
            LOGGER.info("The trace is in %s", path)

    _native.at_exit(finish)
