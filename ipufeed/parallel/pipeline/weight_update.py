"""The weight update of a pipeline: what the optimizer does with accumulated gradients.

It is built in a graph inside the stages' own, since an optimizer may use tensors of these:
the learning rate is an input of the first stage that all hand on. Then it is copied into
the program, after the pipeline's op.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ipufeed import _native
from ipufeed.parallel.optimizers.captured import by_tag
from ipufeed.parallel.optimizers.dtypes import names_the_cast
from ipufeed.parallel.optimizers.lifting import keep, variables_outside
from ipufeed.parallel.optimizers.offloading import is_offloaded, with_remote
from ipufeed.parallel.pipeline import gradients, partition, stages, traced
from ipufeed.parallel.pipeline.copying import Copier
from ipufeed.parallel.pipeline.schedules import Position
from ipufeed.queues.chain import put_token, take_token


@dataclass
class WeightUpdate:
    """A weight update that has been traced.

    Attributes:
        graph: Its FuncGraph.
        gradients: Placeholders in it, for those of variables and those captured.
        from_stages: Tensors of the stages that it uses and that depend on a mini-batch:
            the last one's values are meant.
        elsewhere: Tensors of the stages' graph that depend on none.
    """

    graph: Any
    gradients: list[Any]
    from_stages: list[Any]
    elsewhere: list[Any]


def trace(
    model: traced.Model,
    dtype_of: Callable[[Any, Any], Any],
    last: Position,
    captured: dict[tuple[str, int], tuple[Any, Any]],
) -> WeightUpdate:
    """Builds what the optimizer does.

    Args:
        model: The stages, with an optimizer.
        dtype_of: Of the sum of a gradient, for the variable and the gradient.
        last: The last forward position.
        captured: Gradients in the middle of the stages that are results of the pipeline:
            by tag, each with how it is accumulated.
    """
    import tensorflow as tf

    assert model.optimizer is not None
    output = model.optimizer
    outer = model.traced.graph
    placeholders = []
    with outer.as_default():
        graph = stages.new_graph("weight_update")
        with graph.as_default():
            pairs = []
            for gradient, variable in model.gradients:
                if gradient is None:
                    pairs.append((None, variable))
                    continue
                dtype = dtype_of(variable, gradient)
                placeholders.append(tf.compat.v1.placeholder(dtype, gradient.shape))
                pairs.append((placeholders[-1], variable))
            given = {
                tag: tf.compat.v1.placeholder(how.dtype, gradient.shape)
                for tag, (gradient, how) in captured.items()
            }
            placeholders += given.values()
            with variables_outside():
                stages.call(lambda: apply(output, pairs, by_tag(given)), [], {})
    owners = partition.assign(model.traced, last)
    used = [outside for outside in graph.external_captures if is_in(outside, outer)]
    from_stages = [tensor for tensor in used if tensor.op in owners]
    elsewhere = [tensor for tensor in used if tensor.op not in owners]
    return WeightUpdate(graph, placeholders, from_stages, elsewhere)


def takes_captured(output: Any) -> bool:
    """Whether the optimizer wants to see captured gradients."""
    if output.captures is None:
        return False
    if getattr(output.opt, "supports_captured_grads", False) is True:
        return True
    return "captured_grads" in inspect.signature(output.opt.apply_gradients).parameters


def apply(
    output: Any, pairs: list[tuple[Any, Any]], captured: dict[str, list[Any]]
) -> Any:
    """Calls the optimizer."""
    import tensorflow as tf
    from tensorflow.python.framework import auto_control_deps

    keywords = dict(output.apply_gradients_kwargs)
    if takes_captured(output):
        keywords["captured_grads"] = captured
    if not output.is_keras:
        with names_the_cast(pairs, "gradient_accumulation_dtype"):
            return output.opt.apply_gradients(
                pairs, *output.apply_gradients_args, **keywords
            )
    trained = [
        (gradient, variable) for gradient, variable in pairs if gradient is not None
    ]
    if not getattr(output.opt, "built", True):
        with tf.init_scope():
            output.opt.build([variable for _, variable in trained])
    if hasattr(output.opt, "_create_all_weights"):  # Keras 2's
        with tf.init_scope():
            output.opt._create_all_weights([variable for _, variable in trained])
    state = output.opt.variables
    for variable in state() if callable(state) else state:
        keep(gradients.as_variable(variable))
    # Keras reads what it has just assigned, in the order of its source; version 1
    # programs, which `stages.call` leaves as they are, would read it before.
    with auto_control_deps.AutomaticControlDependencies():
        return output.opt.apply_gradients(
            trained, *output.apply_gradients_args, **keywords
        )


def is_in(tensor: Any, graph: Any) -> bool:
    """Whether a tensor, which may be an eager one, belongs to the graph."""
    return getattr(tensor, "graph", None) is graph


def put(
    update: WeightUpdate, model: traced.Model, results: list[Any], offload: bool
) -> Any:
    """Copies the update into the current graph.

    Args:
        update: The update.
        model: The stages.
        results: For each of its gradients what has been accumulated, and then for each of
            `from_stages` the last value.
        offload: Whether what only the optimizer uses is in the host's memory.

    Returns:
        The operation.
    """
    import tensorflow as tf

    inner = dict(
        zip(map(id, update.from_stages), results[len(update.gradients) :], strict=True)
    )
    around = Copier(model.traced.graph, inner, None, keep_device=True)
    wanted = [tensor.op for tensor in update.elsewhere]
    for op in traced.in_order(wanted, inputs_of):
        around.copy(op)
    values = dict(zip(map(id, update.gradients), results, strict=False))
    for outside, inside in update.graph.captures:
        is_own = is_in(outside, model.traced.graph)
        values[id(inside)] = around.value(outside) if is_own else outside

    def copied() -> Any:
        # Collectives of the program's copies come after those of the stages.
        sums = [id(each) for each in update.gradients]
        same, started, token = _native.load().ipufeed_stage_begins(
            [values[each] for each in sums], take_token()
        )
        copier = Copier(
            update.graph,
            values | dict(zip(sums, same, strict=True)),
            token,
            keep_device=True,
        )
        for op in update.graph.get_operations():
            copier.copy(op)
        effects = [made for op, made in copier.ops.items() if op.op_def.is_stateful]
        with tf.control_dependencies(effects):
            after = [
                gradients.as_variable(variable).read_value()
                for gradient, variable in model.gradients
                if gradient is not None
            ]
        token = _native.load().ipufeed_stage_ends(
            -1, started, after, copier.token, label="update"
        )
        put_token(token)
        return tf.group(*effects, token.op)

    if not offload:
        return copied()
    return with_remote(states(update, model, values), copied)


def states(
    update: WeightUpdate, model: traced.Model, values: dict[int, Any]
) -> list[Any]:
    """The handles of the variables that only the optimizer uses, where the update is."""
    trained = {id(gradients.as_variable(each).handle) for _, each in model.gradients}
    outermost = {id(inside): outside for outside, inside in model.traced.graph.captures}
    found = []
    for outside, inside in update.graph.captures:
        root = outermost.get(id(outside), outside)
        if id(root) not in trained and is_offloaded(root):
            found.append(values[id(inside)])
    return found


def inputs_of(op: Any) -> list[Any]:
    """The ops whose results an op takes."""
    return [tensor.op for tensor in op.inputs]
