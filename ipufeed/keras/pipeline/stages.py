"""Completes and checks the stages of a model's calls."""

from __future__ import annotations

import itertools

from ipufeed.keras.pipeline.calls import Call, Graph, flat
from ipufeed.keras.pipeline.scope import stage_of

_MOST_SHOWN = 20  # stages without a layer, in an error


def take_from_scopes(graph: Graph) -> bool:
    """Sets stages from the scopes of calls or layers; returns whether there are any."""
    _take(graph.calls, None)
    return any(each.stage is not None for each in graph.flat() if each.is_layer)


def _take(calls: list[Call], around: int | None) -> None:
    for call in calls:
        stage = around if around is not None else call.scope
        if call.inner is not None:
            _take(call.inner, stage if stage is not None else stage_of(call.operation))
        else:
            call.stage = stage if stage is not None else stage_of(call.operation)


def take(graph: Graph, saved: list[int | None]) -> None:
    """Sets the stages of a file on the layer calls.

    Raises:
        ValueError: The model has another number of layer calls.
    """
    calls = [each for each in graph.flat() if each.is_layer]
    if len(calls) != len(saved):
        raise ValueError(
            f"The file had stages of {len(saved)} layer calls, and the model has "
            f"{len(calls)}: call `set_pipeline_stage_assignment`, or "
            "`reset_pipeline_stage_assignment`."
        )
    for call, stage in zip(calls, saved, strict=True):
        call.stage = stage


def check(graph: Graph, is_sequential: bool) -> None:
    """Checks that each layer has a stage, and uses outputs of no later stage.

    Raises:
        ValueError: A layer has no stage, or depends on a later one; in a Sequential the
            stages are not in order.
    """
    if is_sequential:
        _check_order(graph.calls)
    made: dict[int, int] = {}
    for call in graph.flat():
        before = max((made.get(slot, 0) for slot in call.inputs), default=0)
        if call.stage is None and call.is_layer:
            raise ValueError(
                "All layers of a pipelined model must have an associated pipeline stage. "
                f"However, {call.operation.name} has not been assigned to one. Pipeline "
                "stages can be assigned when a layer is constructed, or each time a layer "
                "is called. Different pipeline stages can assigned to each call."
            )
        if call.stage is None:
            call.stage = before
        if call.stage < before:
            raise ValueError(
                f"Layer {call.operation.name} in pipeline stage {call.stage} has a "
                "dependency from a pipeline stage which has not yet been executed. Layers "
                "can only use outputs from current or previous pipeline stages."
            )
        made |= dict.fromkeys(call.outputs, call.stage)


def _check_order(calls: list[Call]) -> None:
    last, name = 0, None
    for call in calls:
        for each in flat([call]):
            if each.stage is None or not each.is_layer:
                continue
            layer = each.operation.name
            if name is None and each.stage != 0:
                raise ValueError(
                    "The first layer in a pipelined sequential model needs to be assigned "
                    f"to the 0th pipeline stage, however it was assigned to {each.stage}."
                )
            if each.stage not in (last, last + 1):
                raise ValueError(
                    f"Layer {layer} has been assigned to pipeline stage {each.stage}, "
                    "however the previous layer in the Sequential model was assigned to "
                    f"pipeline stage {last}. A layer in a Sequential model can only be "
                    "assigned to the same pipeline stage as the previous layer or to the "
                    "next pipeline stage."
                )
            last, name = each.stage, layer


def count(graph: Graph) -> int:
    """Returns the number of stages.

    Raises:
        RuntimeError: A stage has no layer.
    """
    used = {each.stage for each in graph.flat() if each.is_layer}
    stages = max((each for each in used if each is not None), default=-1) + 1
    # Without a list of all stages: a wrong number may be any.
    missing = (each for each in range(stages) if each not in used)
    shown = list(itertools.islice(missing, _MOST_SHOWN))
    if shown:
        more = next(missing, None) is not None
        raise RuntimeError(
            "All stages in a pipeline must have at lease one layer assigned to them. "
            f"There are {stages} stages, and no layer is assigned to {shown}"
            f"{', and others' * more}."
        )
    return stages


def reset(graph: Graph) -> None:
    """Clears the stages of all calls."""
    for each in graph.flat():
        each.stage = None
