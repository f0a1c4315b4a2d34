"""The pipelining methods of an IPUStrategy's models, and the checks of stages."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from ipufeed.checks import check_flags, is_int
from ipufeed.device.log import LOGGER
from ipufeed.keras.pipeline import assignment, scope, stages
from ipufeed.keras.pipeline.calls import Graph
from ipufeed.keras.pipeline.summary import lines
from ipufeed.keras.pipeline_state import NEEDS_COUNT
from ipufeed.keras.refusals import (
    check_count,
    refuse_for_pipeline,
    refuse_keys,
    refuse_old_names,
)
from ipufeed.keras.state import ModelState
from ipufeed.parallel.optimizers.arguments import (
    GradientAccumulationReductionMethod,
)
from ipufeed.parallel.pipeline.arguments import NOT_YET, Given
from ipufeed.parallel.pipeline.pipeline import pipeline
from ipufeed.tf_types import FuncGraph, KerasModel, Nest

ALL_IPUS = -1  # in a device_mapping: the stage is on all IPUs


def resolve(model: KerasModel, state: ModelState, example: Nest) -> None:
    """Determines whether a built model is pipelined, and checks its stages.

    Args:
        model: The Keras model.
        state: Its ModelState.
        example: An element of the dataset, as tensors.

    Raises:
        ValueError, RuntimeError: The stages do not match the layers.
    """
    own = state.pipeline
    if own.is_on or own.is_reset:
        return
    if not state.kit.may_be_pipelined(model, own.given or own.saved):
        return
    entered = scope.times_entered()
    try:
        graph = _graph(model, state, example)
    except ValueError:
        # A subclass of another form, in a process that has pipelined models, too.
        is_given = own.given is not None or own.saved is not None
        made = [scope.stage_of(each) is not None for each in model._flatten_layers()]
        if is_given or any(made) or scope.times_entered() != entered:
            raise
        return
    if own.given is not None:
        _assign(graph, own.given, model, state)
    elif own.saved is not None:
        stages.take(graph, own.saved)
    elif not stages.take_from_scopes(graph):
        return
    stages.check(graph, state.kit.kind(model) == "sequential")
    for function in ("train_step", "test_step", "predict_step"):
        state.kit.check_step_not_overridden(model, function)
    own.stages = stages.count(graph)
    if own.stages < 2:
        raise RuntimeError(
            f"The pipelined model {model.name} has 1 stage. A pipeline has at least two: "
            "assign layers to stage 1, or call `reset_pipeline_stage_assignment`."
        )
    if own.device_mapping is not None and len(own.device_mapping) != own.stages:
        raise ValueError(
            f"`device_mapping` has {len(own.device_mapping)} values, and the model "
            f"{own.stages} pipeline stages: give the IPU of each stage."
        )
    if state.accumulation is not None and own.accumulation is None:
        refuse_for_pipeline(model, NEEDS_COUNT)
    state.kit.warn_of_averages(model, own.graph)


def _graph(model: KerasModel, state: ModelState, example: Nest = None) -> Graph:
    own = state.pipeline
    if own.graph is None:
        if not state.kit.is_taken_apart(model) and example is None:
            example = state.kit.example(model)
        x = None if example is None else state.kit.x(example)
        own.graph = state.kit.graph(model, x)
    graph: Graph = own.graph
    return graph


def _assign(graph: FuncGraph, given: Any, model: KerasModel, state: ModelState) -> None:
    kind = state.kit.kind
    assignment.assign(graph.calls, given, model, kind(model), kind)


# ---- The methods, as functions of the model's state


def set_pipelining_options(
    state: ModelState,
    gradient_accumulation_steps_per_replica: int | None = None,
    device_mapping: list[int] | None = None,
    accumulate_outfeed: bool | None = None,
    gradient_accumulation_reduction_method: object = "sum",
    **pipelining_kwargs: object,
) -> None:
    """Sets the options of the model's pipeline.

    Args:
        gradient_accumulation_steps_per_replica: Mini-batches of a weight update, which
            `fit` needs; must divide `steps_per_execution`.
        device_mapping: The IPU of each stage. Default: 0, 1, ...
        accumulate_outfeed: Whether metrics are averaged on the device over the mini-
            batches of an update (fit) or of an execution (evaluate), and enqueued once.
        gradient_accumulation_reduction_method: SUM, MEAN or RUNNING_MEAN.
        **pipelining_kwargs: Other arguments of pipelining_ops.pipeline.

    Raises:
        ValueError: An argument has another type, or is set by Keras.
    """
    for key, argument in (
        ("gradient_accumulation_count", "gradient_accumulation_steps_per_replica"),
    ):
        refuse_keys(
            *(pipelining_kwargs, "pipelining_kwargs", (key,)),
            f"Set the `{argument}` argument to `set_pipelining_options` instead.",
        )
    refuse_keys(
        *(pipelining_kwargs, "pipelining_kwargs", AUTOMATIC),
        "This argument is automatically set by Keras.",
    )
    refuse_keys(
        *(pipelining_kwargs, "pipelining_kwargs", NOT_WITH_KERAS),
        "This argument is not compatible with Keras.",
    )
    check_count(gradient_accumulation_steps_per_replica)
    if device_mapping is not None and not (
        isinstance(device_mapping, list)
        and all(is_int(each) and each >= ALL_IPUS for each in device_mapping)
    ):
        raise ValueError(
            "Expected `device_mapping` to be a list of integers: of the IPU of each "
            f"stage, from 0. Got {device_mapping!r}."
        )
    if accumulate_outfeed is not None:
        check_flags(accumulate_outfeed=accumulate_outfeed)
    reduction = GradientAccumulationReductionMethod.parse(
        gradient_accumulation_reduction_method
    )
    refuse_old_names("set_pipelining_options", pipelining_kwargs)
    known = {name: pipelining_kwargs[name] for name in pipelining_kwargs}
    _check_known(known)
    _check_values(known)
    own = state.pipeline
    if gradient_accumulation_steps_per_replica is not None:
        own.accumulation = gradient_accumulation_steps_per_replica
    if device_mapping is not None:
        own.device_mapping = list(device_mapping)
    if accumulate_outfeed is not None:
        own.accumulate_outfeed = bool(accumulate_outfeed)
    own.reduction = reduction
    own.options = {"gradient_accumulation_for_captured_grads": False, **known}


AUTOMATIC = (
    *(
        "computational_stages",
        "repeat_count",
        "inputs",
        "infeed_queue",
        "outfeed_queue",
    ),
    "optimizer_function",
)
NOT_WITH_KERAS = ("outfeed_loss", "outfeed_mask", "batch_serialization_iterations")


def _check_known(options: dict[str, Any]) -> None:
    """Raises TypeError for an unknown argument of `pipeline`."""
    known = set(inspect.signature(pipeline).parameters) - {
        *("reduction_method", "name", "gradient_accumulation_count"),
        *(*AUTOMATIC, *NOT_WITH_KERAS),
    }
    for name in options:
        if name not in known:
            raise TypeError(
                f"set_pipelining_options() got an unexpected keyword argument '{name}'. "
                f"It takes {', '.join(sorted(known))}, and "
                "gradient_accumulation_steps_per_replica and "
                "gradient_accumulation_reduction_method."
            )


def _check_values(options: dict[str, Any]) -> None:
    """Checks what `pipeline` would check when the program is built.

    Raises:
        TypeError, ValueError, NotImplementedError: See `pipeline`.
    """
    given = {name: value for name, value in options.items() if value is not None}
    Given(
        computational_stages=NOT_YET, gradient_accumulation_count=1, **given
    ).checked()


def get_pipeline_stage_assignment(state: ModelState, model: KerasModel) -> list[Any]:
    """Returns the stages of the model's layer calls, in the order of execution.

    Returns:
        A list of assignments, whose `pipeline_stage` may be set, for
        `set_pipeline_stage_assignment`.

    Raises:
        RuntimeError: The model has not been built.
    """
    _require_built(model, state, "get")
    graph = _graph(model, state)
    own = state.pipeline
    if not own.is_on:
        stages.reset(graph)
        if own.given is not None:
            _assign(graph, own.given, model, state)
        elif own.saved is not None:
            stages.take(graph, own.saved)
        elif not own.is_reset:
            stages.take_from_scopes(graph)
    kind = state.kit.kind
    return assignment.assignments_of(graph.calls, kind(model), kind)


def set_pipeline_stage_assignment(
    state: ModelState, model: KerasModel, pipeline_stage_assignment: Any
) -> None:
    """Assigns the model's layer calls to stages.

    Args:
        pipeline_stage_assignment: A list as of `get_pipeline_stage_assignment`; for a
            Sequential also of ints, one for each layer.

    Raises:
        ValueError: It does not match the model.
        RuntimeError: The model has not been built.
    """
    own = state.pipeline
    if not isinstance(pipeline_stage_assignment, list):
        raise ValueError("`pipeline_stage_assignment` needs to be a list.")
    _require_built(model, state, "set")
    graph = _graph(model, state)
    stages.reset(graph)
    own.stages = 0
    _assign(graph, pipeline_stage_assignment, model, state)
    stages.check(graph, state.kit.kind(model) == "sequential")
    own.given, own.is_reset = list(pipeline_stage_assignment), False
    own.saved = None


def saved_stages(model: KerasModel, state: ModelState) -> list[int | None] | None:
    """Returns the stages of all layer calls, for a file; None without a pipeline."""
    own = state.pipeline
    if own.is_reset or not (
        own.is_on or state.kit.may_be_pipelined(model, own.given or own.saved)
    ):
        return None
    try:
        get_pipeline_stage_assignment(state, model)
    except RuntimeError:  # it has not been built
        return own.saved
    assert own.graph is not None  # made above
    found = [each.stage for each in own.graph.flat() if each.is_layer]
    return found if any(each is not None for each in found) else None


def reset_pipeline_stage_assignment(state: ModelState, model: KerasModel) -> None:
    """Disables the model's pipeline, whatever scopes it was made in."""
    del model
    own = state.pipeline
    own.given, own.graph, own.stages, own.is_reset = None, None, 0, True
    own.saved = None


def print_pipeline_stage_assignment_summary(
    state: ModelState,
    model: KerasModel,
    line_length: int | None = None,
    print_fn: Callable[[str], None] | None = None,
) -> None:
    """Prints a table of the model's layers and their stages.

    Args:
        line_length: Characters of a line. Default: 89, for a Sequential 60.
        print_fn: Called with each line. Default: print.
    """
    rows = get_pipeline_stage_assignment(state, model)
    show = print_fn or print
    for line in lines(model, rows, line_length):
        show(line)


def _require_built(model: KerasModel, state: ModelState, verb: str) -> None:
    if state.kit.is_taken_apart(model):
        return
    if not model.built or state.kit.example(model) is None:
        raise RuntimeError(
            f"Cannot {verb} pipeline stage assignments for model `{model.name}` which has "
            "not been built yet. Please call `model.build()` first, with the shape of the "
            "inputs, or fit it once."
        )


def forget_graph(state: ModelState, model: KerasModel) -> None:
    """Resets the stages of a Sequential whose layers have changed."""
    own = state.pipeline
    if own.given is not None or own.is_on:
        LOGGER.info(
            "The layers of the model `%s` have changed: its pipeline stage assignment is "
            "no longer valid.",
            model.name,
        )
    own.given, own.saved, own.graph, own.stages = None, None, None, 0


METHODS = (
    get_pipeline_stage_assignment,
    set_pipeline_stage_assignment,
    reset_pipeline_stage_assignment,
    print_pipeline_stage_assignment_summary,
)
