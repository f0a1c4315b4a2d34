"""The weight update of a pipeline: the optimizer applies accumulated gradients.

It is built in a graph inside that of the stages, since an optimizer may use their tensors,
such as a learning rate that is an input of the first stage. Then it is copied into the
program, after the pipeline's op.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass

import tensorflow as tf
from tensorflow.python.framework import auto_control_deps

from ipufeed import _native
from ipufeed.parallel.optimizers.arguments import names_the_cast
from ipufeed.parallel.optimizers.gradient_capture import by_tag
from ipufeed.parallel.optimizers.offloading import is_offloaded, with_remote
from ipufeed.parallel.optimizers.outside_variables import keep, variables_outside
from ipufeed.parallel.pipeline import gradients, partition, stages, traced
from ipufeed.parallel.pipeline.copying import Copier
from ipufeed.parallel.pipeline.options import OptimizerFunctionOutput
from ipufeed.parallel.pipeline.plan import Accumulation
from ipufeed.parallel.pipeline.schedules import Position
from ipufeed.queues.chain import put_token, take_token
from ipufeed.tf_types import DType, FuncGraph, GradAndVar, Operation, Tensor, Variable


@dataclass
class WeightUpdate:
    """A weight update that has been traced.

    Attributes:
        graph: Its FuncGraph.
        gradients: Its placeholders of variables' gradients and of captured ones.
        from_stages: Tensors of the stages that it uses and that depend on a mini-batch:
            it gets the last one's values.
        elsewhere: Tensors of the stages' graph that depend on no mini-batch.
    """

    graph: FuncGraph
    gradients: list[Tensor]
    from_stages: list[Tensor]
    elsewhere: list[Tensor]


def trace(
    model: traced.Model,
    dtype_of: Callable[[Variable, Tensor], DType],
    last: Position,
    captured: dict[tuple[str, int], tuple[Tensor, Accumulation]],
) -> WeightUpdate:
    """Traces the optimizer's update.

    Args:
        model: The stages, with an optimizer.
        dtype_of: Returns the dtype of a gradient's sum, from the variable and the gradient.
        last: The last forward position.
        captured: Captured gradients that the pipeline returns, by tag, with their
            accumulation.
    """
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
                stages.call(lambda: _apply(output, pairs, by_tag(given)), [], {})
    owners = partition.assign(model.traced, last)
    used = [outside for outside in graph.external_captures if _is_in(outside, outer)]
    from_stages = [tensor for tensor in used if tensor.op in owners]
    elsewhere = [tensor for tensor in used if tensor.op not in owners]
    return WeightUpdate(graph, placeholders, from_stages, elsewhere)


def takes_captured(output: OptimizerFunctionOutput) -> bool:
    """Whether the optimizer takes captured gradients."""
    if output.captures is None:
        return False
    if getattr(output.opt, "supports_captured_grads", False) is True:
        return True
    return "captured_grads" in inspect.signature(output.opt.apply_gradients).parameters


def _apply(
    output: OptimizerFunctionOutput,
    pairs: list[GradAndVar],
    captured: dict[str, list[Tensor]],
) -> Operation:
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
    # Keras reads variables that it has just assigned, in the order of its source; in
    # version 1 programs `stages.call` adds no control dependencies for that.
    with (
        names_the_cast(trained, "gradient_accumulation_dtype"),
        auto_control_deps.AutomaticControlDependencies(),
    ):
        return output.opt.apply_gradients(
            trained, *output.apply_gradients_args, **keywords
        )


def _is_in(tensor: Tensor, graph: FuncGraph) -> bool:
    """Whether a tensor, possibly an eager one, belongs to the graph."""
    return getattr(tensor, "graph", None) is graph


def put(
    update: WeightUpdate, model: traced.Model, results: list[Tensor], offload: bool
) -> Operation:
    """Copies the update into the current graph.

    Args:
        update: The update.
        model: The stages.
        results: The accumulated value of each of its gradients, then the last value of
            each of `from_stages`.
        offload: Whether the optimizer's state is in the host's memory.

    Returns:
        The operation.
    """
    inner = dict(
        zip(map(id, update.from_stages), results[len(update.gradients) :], strict=True)
    )
    around = Copier(model.traced.graph, inner, None, keep_device=True)
    wanted = [tensor.op for tensor in update.elsewhere]
    for op in traced.in_order(wanted, _inputs_of):
        around.copy(op)
    values = dict(zip(map(id, update.gradients), results, strict=False))
    for outside, inside in update.graph.captures:
        is_own = _is_in(outside, model.traced.graph)
        values[id(inside)] = around.value(outside) if is_own else outside

    def copied() -> Operation:
        # Collectives of the update come after those of the stages.
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
    return with_remote(_states(update, model, values), copied)


def _states(
    update: WeightUpdate, model: traced.Model, values: dict[int, Tensor]
) -> list[Tensor]:
    """Returns the handles, in the update's graph, of the optimizer's own variables."""
    trained = {id(gradients.as_variable(each).handle) for _, each in model.gradients}
    outermost = {id(inside): outside for outside, inside in model.traced.graph.captures}
    found = []
    for outside, inside in update.graph.captures:
        root = outermost.get(id(outside), outside)
        if id(root) not in trained and is_offloaded(root):
            found.append(values[id(inside)])
    return found


def _inputs_of(op: Operation) -> list[Operation]:
    """Returns the ops of an op's inputs."""
    return [tensor.op for tensor in op.inputs]
