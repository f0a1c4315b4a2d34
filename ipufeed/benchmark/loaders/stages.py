"""The times of a loader's stages, from the statistics of Grain and SPDL.

    grain   a second, shorter pass in its STAGE_TIMING mode, then its execution summary
    spdl    the task hook that each stage gets when its pipeline is built

Both time the work of a stage on any thread; Grain does not report CPU time, and neither
reports the waits of a stage. A row has the keys of the stages of a tf.data pipeline;
figures that the framework does not report are None.

Names: Grain 0.2 (`grain.experimental`), SPDL 0.8 (`spdl.pipeline.config`). A release
without them has no stages.
"""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ipufeed.benchmark.result.sections import StageSection
from ipufeed.process_state import STATE
from ipufeed.sources.loaders.batch_steps import has_class
from ipufeed.sources.loaders.kinds import Kind, Loader

MOST_SECONDS = 5.0
# In a shorter pass Grain's times hold more than the threads can have worked.
LEAST_SECONDS = 0.3
# TaskStatsHooks of pipelines that were built since `listen`; Any: a class of SPDL.
_hooks: list[Any] = []


@STATE.part("loader stages")
def _forget() -> None:
    _hooks.clear()


@dataclass(frozen=True)
class Timed:
    """A stage as a framework reports it.

    Attributes:
        name: The framework's name of it.
        seconds: Time in the stage, summed over its threads.
        workers: Threads that it may use; None if unknown.
    """

    name: str
    seconds: float
    workers: int | None


def listen() -> None:
    """Collects the statistics of the stages of SPDL pipelines built from now on."""
    try:
        config = importlib.import_module("spdl.pipeline.config")
        base = config.get_default_hook_class()
    except (ImportError, AttributeError):
        return
    stock = getattr(sys.modules.get("spdl.pipeline"), "TaskStatsHook", None)
    if base is None or base is not stock:  # the user's own
        return

    class Listening(base):  # type: ignore[misc, valid-type]
        """SPDL's TaskStatsHook, registered in `_hooks`."""

        def __init__(self, info: Any, *arguments: object, **named: object) -> None:
            super().__init__(info, *arguments, **named)
            _hooks.append(self)

    config.set_default_hook_class(Listening)


def stages_of(
    source: Loader, kind: Kind, elements: int, seconds: float
) -> list[StageSection] | None:
    """Returns the stages, the most expensive first; None if the framework has none.

    Args:
        source: A loader that has been measured.
        kind: The loader's kind.
        elements: Number of measured elements of the last pass.
        seconds: Limit of a second pass.
    """
    if kind.name.startswith("spdl "):  # a DataLoader makes a Pipeline for each pass
        return rows(_spdl_stages(), elements)
    if has_class(source, "grain", "MapDataset") or has_class(
        source, "grain", "IterDataset"
    ):
        try:
            timed, elements = _grain_stages(source, _between(seconds))
        except (ImportError, AttributeError, TypeError, ValueError):
            return None  # another release, or a dataset without that option
        return rows(timed, elements)
    return None


def _between(seconds: float) -> float:
    return max(LEAST_SECONDS, min(seconds, MOST_SECONDS))


def _spdl_stages() -> list[Timed]:
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


def _grain_stages(source: Loader, seconds: float) -> tuple[list[Timed], int]:
    """Iterates again in Grain's STAGE_TIMING mode; the stages and number of elements."""
    experimental = importlib.import_module("grain.experimental")
    summary_of = importlib.import_module(
        "grain._src.python.dataset.dataset"
    ).get_execution_summary
    if has_class(source, "grain", "MapDataset"):
        source = source.to_iter_dataset()
    options = experimental.DatasetOptions(
        execution_tracking_mode=experimental.ExecutionTrackingMode.STAGE_TIMING
    )
    iterator = iter(experimental.WithOptionsIterDataset(source, options))
    end, elements = None, 0
    for _ in iterator:
        elements += 1
        now = time.monotonic()
        end = end or now + seconds  # from the first element on, which may take long
        if now >= end:
            break
    iterator._stats.report()  # by itself Grain does so every 5 s
    nodes = list(summary_of(iterator).nodes.values())  # the last step first
    made = [node.num_produced_elements for node in nodes if not node.is_prefetch]
    elements = max([elements, *made[:1]])  # those that were fetched ahead, too
    return [
        Timed(short_name(node.name), node.total_processing_time_ns / 1e9, None)
        for node in nodes
        if not node.is_prefetch
    ], elements


def short_name(name: str) -> str:
    """Shortens `MapMapDataset(transform=picture @ .../file.py:10)` to `...(picture)`."""
    head, _, arguments = name.partition("(")
    if not arguments.startswith("transform="):
        return head
    return f"{head}({arguments.removeprefix('transform=').split(' @ ')[0]})"


def rows(stages: Iterable[Timed], elements: int) -> list[StageSection] | None:
    """Returns the stages for the JSON; `share` is the fraction of all stages' time."""
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
