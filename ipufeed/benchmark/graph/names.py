"""What to call a step of a pipeline: by the user's name for it where there is one.

The order: `name=`, else the function's name (`decode` of `.map(decode)`), else what it
reads (`TFRecord`), else the op and its place from the source (`Batch 4`).
"""

from __future__ import annotations

import re
from typing import Any

from ipufeed.benchmark.graph.pipeline_graph import (
    PipelineGraph,
    Step,
    is_dataset,
    step_of,
)
from ipufeed.benchmark.graph.step_functions import file_reader, nodes_of
from ipufeed.render.terminal import printable

# Names come from outside; a longer one would only be in the way.
MOST_CHARACTERS = 100

# Functions of tf.data's own that make a source out of flat_map and interleave.
_GENERATOR = "flat_map_fn"
_READER = "read_one_file"
_SOURCES = (_GENERATOR, _READER)
_NAMELESS = ("lambda", "None", "")
_TRACED = re.compile(r"^__inference_(?:Dataset_)?(?P<rest>.*)_\d+$")
_TRANSFORMATIONS = (
    "flat_map",
    "map",
    "interleave",
    "filter",
    "scan",
    "take_while",
    "group_by_window",
    "tf_data_experimental_parallel_interleave",
)


def stage_names(graph: PipelineGraph) -> dict[str, str]:
    """A name for each step, by node; no two are the same."""
    names: dict[str, str] = {}
    taken: dict[str, int] = {}
    places = {step.node: place for place, step in enumerate(graph.steps, start=1)}
    # Of several steps that stand for one of the user's, the one that works has its name.
    ordered = sorted(graph.steps, key=lambda step: function_name(step) not in _SOURCES)
    for step in ordered:
        place = places[step.node]
        name = step.name or own_name(graph.graph, step) or f"{step.kind} {place}"
        name = printable(name)
        if len(name) > MOST_CHARACTERS:
            name = name[: MOST_CHARACTERS - 1] + "\N{HORIZONTAL ELLIPSIS}"
        taken[name] = taken.get(name, 0) + 1
        names[step.node] = name if taken[name] == 1 else f"{name} #{taken[name]}"
    return names


def inner_names(graph: Any, step: Step) -> list[str]:
    """Names of the steps of the datasets that a step's function makes, in their order.

    Those that the user has named, by `name=` or by their function; their time is in that
    of the step around them.
    """
    found: list[str] = []
    if function_name(step) in _SOURCES:
        return found
    for node in nodes_of(graph, step):
        if not is_dataset(node.op):
            continue
        inner = step_of(node, [])
        name = inner.name or own_name(graph, inner)
        if name and printable(name) not in found:
            found.append(printable(name)[:MOST_CHARACTERS])
    return found


def stage_kind(graph: PipelineGraph, step: Step) -> str:
    """The op, or what it is when it stands for a source: `Generator`, `TFRecord`."""
    function = function_name(step)
    if function == _GENERATOR:
        return "Generator"
    if function == _READER:
        return file_reader(graph.graph, step) or step.kind
    return step.kind


def own_name(graph: Any, step: Step) -> str | None:
    """What the step's function calls itself, or what the step reads."""
    function = function_name(step)
    if function == _GENERATOR:
        return "from_generator"
    if function == _READER or function is None:
        return file_reader(graph, step)
    return function


def function_name(step: Step) -> str | None:
    """`decode` for `__inference_Dataset_map_decode_9`; None for a lambda."""
    for function in step.functions.values():
        found = _TRACED.match(function)
        if found is None:  # tf.data made it, by fusing others
            continue
        rest = found["rest"]
        for transformation in _TRANSFORMATIONS:
            if rest.startswith(transformation + "_"):
                rest = rest[len(transformation) + 1 :]
                break
        name = rest.strip("_")
        # A class in place of a function: interleave(tf.data.TFRecordDataset).
        if name not in _NAMELESS and name.isidentifier():
            return name
    return None
