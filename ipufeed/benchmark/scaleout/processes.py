"""Measures the same pipeline in several processes of this host at a time.

    one alone        |--fill--|------------- steady -------------|
    process 0        |--fill--|------------- steady -------------|
    process 1          |----fill----|----------- steady -----------|
    added up                        |<------- all of them ------>|

All start at the same time. Rates are added over the time in which every process is in its
steady state: the time before and after, in which some processes are idle, would show the
others faster than they are together.
"""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any, cast

import numpy as np

from ipufeed.benchmark.measuring import machine
from ipufeed.benchmark.measuring.steady_state import Stamps, Steady, find_steady
from ipufeed.benchmark.process.child_process import Child
from ipufeed.benchmark.result.result import Result
from ipufeed.benchmark.result.sections import (
    EpochSection,
    ProcessesSection,
    ResourcesSection,
    SteadySection,
    WarningSection,
)
from ipufeed.benchmark.result.settings import Settings
from ipufeed.errors import ScaleOutError

MODULE = "ipufeed.benchmark.scaleout.process_worker"
# For TensorFlow's import and the dataset file, in all processes at a time.
START_S = 300.0
BARRIER_NS = 200_000_000
WINDOW_S = 1.0


@dataclasses.dataclass(frozen=True)
class Run:
    """The measurement of one process.

    Attributes:
        result: Its result.
        stamps: Time of each element, on the clock that all processes share.
        steady: Its steady state, if any.
    """

    result: Result
    stamps: Stamps
    steady: Steady | None


def measure_processes(
    target: str | None, assignments: list[str], settings: Settings, count: int
) -> Result:
    """Measures a dataset file in `count` processes at a time, and before in one alone.

    Each process makes its own dataset, and delivers all of it.

    Args:
        target: FILE[:NAME] as the command takes it; None for the built-in pipeline.
        assignments: NAME=VALUE texts for its factory.
        settings: Length of each run of each process.
        count: Number of processes, at least 1.

    Returns:
        A result with `processes`. Its `steady`, `epochs` and `resources` are of all
        processes together; the rest is of process 0.

    Raises:
        ScaleOutError: A process failed (the message quotes the end of its log), the dataset
            failed, or at no time were all processes in their steady state.

    Threads: one, which must live until it returns.
    """
    top = Path(tempfile.mkdtemp(prefix="ipufeed-processes-"))
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, top, ignore_errors=True)
        children = []
        for number in range(count):
            folder = top / str(number)
            folder.mkdir()
            options = {
                "parent": os.getpid(),
                "target": target,
                "assignments": assignments,
                "settings": dataclasses.asdict(settings),
                "folder": str(folder),
            }
            child = Child(
                f"process {number}", MODULE, [json.dumps(options)], folder / "log"
            )
            stack.callback(child.kill)
            children.append(child)
        _await_all(children, "ready", time.monotonic() + START_S)
        (alone,) = _run_all(children[:1], top, "alone")
        before = machine.machine_busy_s(), _cpu_seconds(), time.monotonic()
        runs = _run_all(children, top, "together") if count > 1 else [alone]
        others = _others_since(*before) if count > 1 else None
        for child in children:
            child.request_end()
        for child in children:
            child.await_end()
    return together(alone, runs, others)


def _await_all(children: list[Child], word: str, deadline: float | None) -> None:
    """Waits until each process has sent a message with the key `word`.

    Raises:
        ScaleOutError: A process ended, or the deadline has passed.
    """
    waiting = list(children)
    while waiting:
        for child in list(waiting):
            message = child.try_receive()
            if message is not None and word in message:
                waiting.remove(child)
            child.sample()
        if deadline is not None and waiting and time.monotonic() > deadline:
            raise ScaleOutError(
                f"the {waiting[0].what} was not ready after {START_S:g} s. It last "
                f"printed: {waiting[0].stderr_tail()}"
            )


def _run_all(children: list[Child], top: Path, tag: str) -> list[Run]:
    """Makes the processes measure from the same time on, and returns their measurements."""
    at_ns = time.monotonic_ns() + BARRIER_NS
    for child in children:
        child.send({"measure": tag, "at_ns": at_ns})
    _await_all(children, "done", None)  # bounded by the settings or the dataset's end
    return [_read_run(top / str(number), tag) for number in range(len(children))]


def _read_run(folder: Path, tag: str) -> Run:
    """Reads the files of a process.

    Raises:
        ScaleOutError: Its dataset failed.
    """
    found = json.loads((folder / f"{tag}.json").read_text())
    ended = found.pop("ended")
    del found["schema_version"]
    result = Result(**found)
    if result.error is not None:
        raise ScaleOutError(
            f"the dataset failed in process {folder.name}, at element "
            f"{result.error['element']}: {result.error['type']}: "
            f"{result.error['message']}"
        )
    stamps = np.load(folder / f"{tag}.npy")
    return Run(result, stamps, find_steady(stamps, ended))


def _cpu_seconds() -> float:
    """Returns the CPU time of the processes and of those that their loaders started."""
    return machine.descendants_cpu_ns() / 1e9


def _others_since(busy_s: float | None, own_s: float, start_s: float) -> float | None:
    """Returns the CPUs that all but these processes kept busy in that time."""
    now = machine.machine_busy_s()
    if busy_s is None or now is None:
        return None
    own = _cpu_seconds() - own_s
    return max(0.0, (now - busy_s - own) / (time.monotonic() - start_s))


def overlap(runs: list[Run]) -> tuple[int, int]:
    """Returns the time in which all were in their steady state, from and to, in ns.

    Raises:
        ScaleOutError: There is no such time, or a process has no steady state.
    """
    states = [(run.stamps, run.steady) for run in runs]
    starts = [int(stamps[steady.first]) for stamps, steady in states if steady]
    ends = [int(stamps[steady.last]) for stamps, steady in states if steady]
    if len(starts) < len(runs) or max(starts) >= min(ends):
        raise ScaleOutError(
            "there was no time in which all processes were in their steady state: measure "
            "for longer (--seconds), repeat() the dataset or go through it more often "
            "(--passes)."
        )
    return max(starts), min(ends)


def together(alone: Run, runs: list[Run], others: float | None) -> Result:
    """Returns the result of all processes."""
    start, end = overlap(runs)
    seconds = (end - start) / 1e9
    inside = [run.stamps[(run.stamps > start) & (run.stamps <= end)] for run in runs]
    counts = [len(stamps) for stamps in inside]
    rate = sum(counts) / seconds
    merged = np.sort(np.concatenate([np.array([start]), *inside]))
    found = find_steady(merged, False)
    interval = None if found is None else found.interval
    base = runs[0].result
    samples, size = (
        base.dataset["samples_per_element"],
        base.dataset["bytes_per_element"],
    )
    single = alone.result.steady
    one = None if single is None else single["elements_per_second"]
    steady: SteadySection = {
        "elements": sum(counts),
        "seconds": seconds,
        "elements_per_second": rate,
        "samples_per_second": None if samples is None else rate * samples,
        "bandwidth": None if size is None else rate * size / 1e9,
        "interval": interval,
        "pass_rates": None,
        "left_out": [],
    }
    section: ProcessesSection = {
        "count": len(runs),
        "seconds": seconds,
        "elements_per_second": rate,
        "interval": interval,
        "each": [
            {
                "process": number,
                "elements": count,
                "elements_per_second": count / seconds,
                "cpus_busy": run.result.resources["cpus_busy"],
                "peak_rss_bytes": run.result.resources["peak_rss_bytes"],
            }
            for number, (run, count) in enumerate(zip(runs, counts, strict=True))
        ],
        "alone": None
        if single is None
        else {"elements_per_second": one, "interval": single["interval"]},
        "efficiency": rate / one / len(runs) if one else None,
    }
    return dataclasses.replace(
        base,
        epochs=windows(merged, start, end, size),
        steady=steady,
        latency=None,
        memcpy=None,
        resources=_added([run.result.resources for run in runs]),
        machine={**base.machine, "cpus_used_by_others": others}
        if len(runs) > 1
        else base.machine,
        warnings=_warnings_of(runs, others, base.machine["usable_cpus"]),
        processes=section,
    )


def windows(
    merged: Stamps, start: int, end: int, size: float | None
) -> list[EpochSection]:
    """Returns `epochs`: windows of a second with the elements of all processes."""
    edges = np.arange(start, end, round(WINDOW_S * 1e9))
    edges = np.append(edges[: max(1, len(edges) - 1)], end)  # the last one is longer
    counts, _ = np.histogram(merged[1:], edges)
    entries: list[EpochSection] = []
    for count, length in zip(counts.tolist(), np.diff(edges) / 1e9, strict=True):
        whole = round(count * (size or 0))
        entries.append(
            {
                "elements_processed": count,
                "total_bytes_processed": whole,
                "time_elapsed": float(length),
                "elements_per_second": count / float(length),
                "bandwidth": whole / float(length) / 1e9,
            }
        )
    return entries


def _added(resources: list[ResourcesSection]) -> ResourcesSection:
    """Returns the sum of each figure; None if a process does not have it."""
    first = dict(resources[0])
    # A figure of one element: the same in all processes.
    total = {"cpu_seconds_per_element": first.pop("cpu_seconds_per_element")}
    for key in first:
        values: list[Any] = [dict(each).get(key) for each in resources]
        total[key] = None if None in values else sum(values)
    return cast(ResourcesSection, total)


def _warnings_of(
    runs: list[Run], others: float | None, usable: int
) -> list[WarningSection]:
    """Returns each warning once; `busy_machine` only for other processes."""
    from ipufeed.benchmark.measuring.warnings import BUSY_SHARE

    found: dict[str, WarningSection] = {}
    for run in runs:
        for warning in run.result.warnings:
            if len(runs) == 1 or warning["code"] != "busy_machine":
                found.setdefault(warning["code"], warning)
    if len(runs) > 1 and others is not None and others > BUSY_SHARE * usable:
        found["busy_machine"] = {
            "code": "busy_machine",
            "message": f"Processes other than these kept {others:.1f} of {usable} CPUs "
            "busy in that time: on a quiet machine the rate would probably be higher.",
        }
    return list(found.values())
