"""Where a loader's time goes, by the framework's own statistics: Grain's and SPDL's.

    grain   a second, shorter pass in its STAGE_TIMING mode, then its execution summary
    spdl    the task hook that each stage gets when its pipeline is built

Both time what runs in a stage, whichever thread runs it; Grain gives no CPU time, and
neither reports what a stage waits for. A row has the keys of the stages of a tf.data
pipeline; what the framework does not report is None.

Names: Grain 0.2 (`grain.experimental`), SPDL 0.8 (`spdl.pipeline.config`). Of another
release that lacks them there are no stages.
"""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ipufeed.benchmark.loaders.kinds import Kind, classes

MOST_SECONDS = 5.0
# TaskStatsHooks of pipelines that were built since `listen`.
_hooks: list[Any] = []


@dataclass(frozen=True)
class Timed:
    """A stage as a framework reports it.

    Attributes:
        name: As the framework has it.
        seconds: That all its threads together spent in it.
        workers: Threads that it may use; None if unknown.
    """

    name: str
    seconds: float
    workers: int | None


def listen() -> None:
    """From now on each stage of an SPDL pipeline that is built leaves its statistics."""
    try:
        config = importlib.import_module("spdl.pipeline.config")
        base = config.get_default_hook_class()
    except (ImportError, AttributeError):
        return
    stock = getattr(sys.modules.get("spdl.pipeline"), "TaskStatsHook", None)
    if base is None or base is not stock:  # the user's own
        return

    class Listening(base):  # type: ignore[misc, valid-type]
        """SPDL's TaskStatsHook, which can be found again."""

        def __init__(self, info: Any, *arguments: Any, **named: Any) -> None:
            super().__init__(info, *arguments, **named)
            _hooks.append(self)

    config.set_default_hook_class(Listening)


def stages_of(
    source: Any, kind: Kind, elements: int, seconds: float
) -> list[dict[str, Any]] | None:
    """The stages, the costliest first; None where the framework reports nothing.

    Args:
        source: A loader that has been measured, or the function's wrapper around it.
        kind: Of it.
        elements: That were measured.
        seconds: That a second pass may take.
    """
    if kind.name == "spdl Pipeline":
        return rows(spdl_stages(), elements)
    if classes(source, "grain", "MapDataset") or classes(
        source, "grain", "IterDataset"
    ):
        try:
            timed, elements = grain_stages(source, min(seconds, MOST_SECONDS))
        except (ImportError, AttributeError, TypeError, ValueError):
            return None  # another release, or a dataset that takes no such option
        return rows(timed, elements)
    return None


def spdl_stages() -> list[Timed]:
    """What the hooks of the last pipeline have counted."""
    last = max((hook.info.pipeline_id for hook in _hooks), default=None)
    return [
        Timed(
            str(hook.info.stage_name),
            hook.ave_time * hook.num_success,
            getattr(hook.info, "concurrency", None),
        )
        for hook in _hooks
        if hook.info.pipeline_id == last
    ]


def grain_stages(source: Any, seconds: float) -> tuple[list[Timed], int]:
    """Iterates once more, in Grain's own mode for that; elements that came, too."""
    experimental = importlib.import_module("grain.experimental")
    summary_of = importlib.import_module(
        "grain._src.python.dataset.dataset"
    ).get_execution_summary
    if classes(source, "grain", "MapDataset"):
        source = source.to_iter_dataset()
    options = experimental.DatasetOptions(
        execution_tracking_mode=experimental.ExecutionTrackingMode.STAGE_TIMING
    )
    iterator = iter(experimental.WithOptionsIterDataset(source, options))
    end, elements = time.monotonic() + seconds, 0
    for _ in iterator:
        elements += 1
        if time.monotonic() >= end:
            break
    iterator._stats.report()  # it does so each 5 s by itself
    nodes = summary_of(iterator).nodes.values()
    return [
        Timed(short_name(node.name), node.total_processing_time_ns / 1e9, None)
        for node in nodes
        if not node.is_prefetch
    ], elements


def short_name(name: str) -> str:
    """`MapMapDataset(picture)` of `MapMapDataset(transform=picture @ .../file.py:10)`."""
    head, _, arguments = name.partition("(")
    if not arguments.startswith("transform="):
        return head
    return f"{head}({arguments.removeprefix('transform=').split(' @ ')[0]})"


def rows(stages: Iterable[Timed], elements: int) -> list[dict[str, Any]] | None:
    """As the JSON has them; `share` is of the time that all stages took together."""
    found = sorted(stages, key=lambda stage: stage.seconds, reverse=True)
    whole = sum(stage.seconds for stage in found)
    if not whole or not elements:
        return None
    return [
        {
            "name": stage.name,
            "kind": "",
            "share": stage.seconds / whole,
            "seconds_per_element": stage.seconds / elements,
            "cpu_seconds_per_element": None,
            "parallelism": stage.workers,
            "autotuned": False,
            "buffered_bytes": None,
            "ceiling_elements_per_second": None
            if stage.workers is None or not stage.seconds
            else stage.workers * elements / stage.seconds,
            "confirmed": False,
            "advice": None,
            "inside": [],
        }
        for stage in found
    ]
