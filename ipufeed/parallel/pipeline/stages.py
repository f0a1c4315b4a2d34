"""Traces the stages of a pipeline into one graph, with their gradients."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Callable, Iterator

import tensorflow as tf
from tensorflow.python.framework import auto_control_deps, func_graph
from tensorflow.python.ops import variable_scope

from ipufeed.parallel.pipeline.gradients import (
    call_optimizer_function,
    differentiate,
)
from ipufeed.parallel.pipeline.schedules import Position, Schedule
from ipufeed.parallel.pipeline.stage_checks import (
    check_arity,
    check_captures,
    check_host_ops,
    check_sources,
    is_value,
    named,
    tensors_of,
)
from ipufeed.parallel.pipeline.traced import Model, Traced
from ipufeed.queues.autograph import as_user_function
from ipufeed.queues.infeed import IPUInfeedQueue
from ipufeed.queues.structure import body_arguments
from ipufeed.tf_types import FuncGraph, Nest, NestFunction, Shape, Tensor

_accumulation_count: contextvars.ContextVar[int | Tensor | None] = (
    contextvars.ContextVar("ipufeed_accumulation_count", default=None)
)


@contextlib.contextmanager
def accumulating(count: int | Tensor) -> Iterator[None]:
    """Sets, within it, the mini-batches of the pipeline whose stages are built."""
    token = _accumulation_count.set(count)
    try:
        yield
    finally:
        _accumulation_count.reset(token)


def current_accumulation_count() -> int | Tensor | None:
    """Returns the mini-batches of an execution of the pipeline whose stages are built.

    None outside of a pipeline; a tensor if the number is an input of the program.
    """
    return _accumulation_count.get()


def trace(
    stages: list[list[NestFunction]],
    schedule: Schedule,
    inputs: list[Tensor],
    infeed_queue: IPUInfeedQueue | None,
    optimizer_function: NestFunction | None,
    check: Callable[[Model], object],
) -> Model:
    """Builds all stages and their gradients in a separate graph.

    Args:
        stages: The functions.
        schedule: Their positions.
        inputs: Tensors of the current graph, for the first stage.
        infeed_queue: The queue of the first stage's further inputs, or None.
        optimizer_function: See `pipeline`.
        check: Is called before the gradients are built, and may raise an error.

    Raises:
        TypeError, ValueError: A stage returns invalid results, or uses other tensors than
            its arguments.
    """
    graph = new_graph("pipeline")
    traced = Traced(graph)
    places = {(each.index, each.branch): each for each in schedule.positions}
    if schedule.training:
        for stage, devices in enumerate(schedule.devices):
            for branch in range(len(devices)):
                back = schedule.length - 1 - stage
                traced.backward[places[stage, branch]] = places[back, branch]
    with graph.as_default():
        arguments: list[Tensor] = [graph.capture(tensor) for tensor in inputs]
        keywords: dict[str, Tensor] = {}
        if infeed_queue is not None:
            with owned(traced, places[0, 0]):
                element = infeed_queue._dequeue()
            more, keywords = body_arguments(element)
            arguments = [*arguments, *more]
        allowed = {id(inside) for _, inside in graph.captures}
        embed_values(graph)
        structure: Nest = None
        for number, concurrent in enumerate(stages):
            outputs: list[Tensor] = []
            for branch, function in enumerate(concurrent):
                position = places[number, branch]
                check_arity(function, position, stages, arguments, keywords)
                with owned(traced, position), named(function, position):
                    first = len(graph.get_operations())
                    structure = call(function, arguments, keywords)
                    check_host_ops(graph.get_operations()[first:], number)
                    outputs += tensors_of(structure, number, number == len(stages) - 1)
                check_captures(graph, allowed)
                check_sources(traced, position, arguments, keywords)
            arguments, keywords = outputs, {}
        if len(stages[-1]) > 1 or not isinstance(structure, dict):
            bare = len(outputs) == 1 and not isinstance(structure, (list, tuple))
            structure = outputs[0] if bare else outputs
        model = Model(traced, outputs, structure)
        if optimizer_function is not None:
            call_optimizer_function(model, optimizer_function)
        check(model)
        if model.optimizer is not None:
            differentiate(model, model.optimizer)
    return model


def embed_values(graph: FuncGraph) -> None:
    """Makes constants of the eager tensors that stages use from now on.

    Such as a positional encoding that a layer holds: each program has its own. The numbers
    of queues stay arguments.
    """
    capture = graph.capture
    # Holds the tensors, too, so that an identity is not used again.
    constants: dict[int, tuple[Tensor, Tensor]] = {}

    def embedded(
        tensor: Tensor, name: str | None = None, shape: Shape | None = None
    ) -> Tensor:
        if not is_value(tensor):
            return capture(tensor, name, shape)
        if id(tensor) not in constants:
            with graph.as_default(), tf.control_dependencies(None):
                constant = tf.constant(tensor.numpy(), tensor.dtype)
            constants[id(tensor)] = (tensor, constant)
        return constants[id(tensor)][1]

    graph.capture = embedded


def new_graph(name: str) -> FuncGraph:
    """Makes the graph of a function, inside the current one.

    In a version 1 graph `get_variable` finds the same variables in both.
    """
    share_variables()
    return func_graph.FuncGraph(name)


def share_variables() -> None:
    """Makes `get_variable` find the current graph's variables in the graphs inside it."""
    if not tf.executing_eagerly():
        variable_scope._get_default_variable_store()
        variable_scope.get_variable_scope()


@contextlib.contextmanager
def resource_variables() -> Iterator[None]:
    """Makes `get_variable` create resource variables, as in a compiled program."""
    scope = tf.compat.v1.get_variable_scope()
    before = scope.use_resource
    scope.set_use_resource(True)
    try:
        yield
    finally:
        scope.set_use_resource(before)


@contextlib.contextmanager
def owned(traced: Traced, position: Position) -> Iterator[None]:
    """Assigns the ops that are built within it to the position."""
    first = len(traced.graph.get_operations())
    yield
    for op in traced.graph.get_operations()[first:]:
        traced.owners[op] = position


def call(
    function: NestFunction, arguments: list[Tensor], keywords: dict[str, Tensor]
) -> Nest:
    """Builds one stage, whose side effects are in the order of the source.

    A version 1 program has its own control dependencies instead.
    """
    runs = as_user_function(function)
    if not tf.compat.v1.executing_eagerly_outside_functions():
        return runs(*arguments, **keywords)
    with auto_control_deps.AutomaticControlDependencies():
        return runs(*arguments, **keywords)
