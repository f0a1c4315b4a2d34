"""Which steps of a pipeline run in which thread, as its probes tell."""

from __future__ import annotations

from ipufeed.benchmark.graph.pipeline_graph import Step
from ipufeed.benchmark.stages.probe_run import Reading

# Steps whose calls fetch their elements themselves.
FETCHING = frozenset(
    {"ParallelMapDatasetV2", "MapAndBatchDataset", "ParallelBatchDataset"}
)


def function_ns(reading: Reading) -> float:
    """What a parallel step's functions took, those of the datasets they made included."""
    return reading.model_ns + reading.inner_wall_ns


def thread_tops(steps: dict[str, Step], readings: dict[str, Reading]) -> list[str]:
    """The last step of each thread's part of the pipeline."""
    last = list(steps)[-1]
    tops = [last]
    for node, step in steps.items():
        if readings[node].is_async == 1:
            tops += step.inputs
    return [top for top in tops if readings[top].is_async != 1]


def thread_steps(
    top: str, steps: dict[str, Step], readings: dict[str, Reading]
) -> list[str]:
    """The steps that run in the thread that asks `top` for elements."""
    found, stack = [], [top]
    while stack:
        node = stack.pop()
        if readings[node].is_async == 1 or node in found:
            continue
        found.append(node)
        stack += steps[node].inputs
    return found
