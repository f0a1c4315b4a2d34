"""Names of a pipeline's stages.

The name is the user's `name=`, else that of the function (`decode` of `.map(decode)`), else
that of the files read (`TFRecord`), else the op and its position from the source
(`Batch 4`).
"""

from __future__ import annotations

import re

from ipufeed.benchmark.graph.pipeline_graph import (
    PipelineGraph,
    Step,
    is_dataset,
    step_of,
)
from ipufeed.benchmark.graph.step_functions import file_reader, nodes_of
from ipufeed.render.terminal_text import printable
from ipufeed.tf_types import GraphDef

# Longer names are cut: they can be any text.
MOST_CHARACTERS = 100

# tf.data's own functions, which make a source out of flat_map and interleave.
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
    """Returns a unique name for each stage, by node."""
    names: dict[str, str] = {}
    taken: dict[str, int] = {}
    places = {step.node: place for place, step in enumerate(graph.steps, start=1)}
    # Where several stages make up one of the user's, the stage that does the work gets the
    # name without a number.
    ordered = sorted(graph.steps, key=lambda step: _function_name(step) not in _SOURCES)
    for step in ordered:
        name = _own_name(graph.graph, step) or f"{step.kind} {places[step.node]}"
        name = printable(name)
        if len(name) > MOST_CHARACTERS:
            name = name[: MOST_CHARACTERS - 1] + "\N{HORIZONTAL ELLIPSIS}"
        taken[name] = taken.get(name, 0) + 1
        names[step.node] = name if taken[name] == 1 else f"{name} #{taken[name]}"
    return names


def inner_names(graph: GraphDef, step: Step) -> list[str]:
    """Returns the names of the dataset stages inside a stage's functions, in their order.

    Only those named by the user (`name=`, or a named function); their time is part of that
    of the enclosing stage.
    """
    found: list[str] = []
    if _function_name(step) in _SOURCES:
        return found
    for node in nodes_of(graph, step):
        if not is_dataset(node.op):
            continue
        name = _own_name(graph, step_of(node, []))
        if name and printable(name) not in found:
            found.append(printable(name)[:MOST_CHARACTERS])
    return found


def stage_kind(graph: PipelineGraph, step: Step) -> str:
    """Returns the op, or the kind of the source that it makes: `Generator`, `TFRecord`."""
    function = _function_name(step)
    if function == _GENERATOR:
        return "Generator"
    if function == _READER:
        return file_reader(graph.graph, step) or step.kind
    return step.kind


def _own_name(graph: GraphDef, step: Step) -> str | None:
    if step.name:
        return step.name
    function = _function_name(step)
    if function == _GENERATOR:
        return "from_generator"
    if function == _READER or function is None:
        return file_reader(graph, step)
    return function


def _function_name(step: Step) -> str | None:
    """Returns `decode` for `__inference_Dataset_map_decode_9`; None for a lambda."""
    for function in step.functions.values():
        found = _TRACED.match(function)
        if found is None:  # made by tf.data, by fusing others
            continue
        rest = found["rest"]
        for transformation in _TRANSFORMATIONS:
            if rest.startswith(transformation + "_"):
                rest = rest[len(transformation) + 1 :]
                break
        name = rest.strip("_")
        # "None" is a class in place of a function: interleave(tf.data.TFRecordDataset).
        if name not in _NAMELESS and name.isidentifier():
            return name
    return None
