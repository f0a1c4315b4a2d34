"""Builds the gradients of traced stages that the optimizer function requests."""

from __future__ import annotations

import contextlib

import tensorflow as tf

from ipufeed.checks import own_signature
from ipufeed.parallel.optimizers.gradient_capture import flat_gradients
from ipufeed.parallel.optimizers.outside_variables import variables_outside
from ipufeed.parallel.pipeline.options import OptimizerFunctionOutput
from ipufeed.parallel.pipeline.stage_checks import (
    name_of,
)
from ipufeed.parallel.pipeline.traced import Model
from ipufeed.queues.autograph import as_user_function
from ipufeed.tf_types import FuncGraph, GradAndVar, NestFunction, Tensor, Variable


def call_optimizer_function(model: Model, optimizer_function: NestFunction) -> None:
    """Calls the optimizer function with the last stage's outputs.

    Raises:
        TypeError: It does not take them, or does not return an OptimizerFunctionOutput.
    """
    _check_takes_outputs(optimizer_function, model.outputs)
    with variables_outside():
        output = as_user_function(optimizer_function)(*model.outputs)
    if not isinstance(output, OptimizerFunctionOutput):
        raise TypeError(
            "The optimizer_function must return an OptimizerFunctionOutput object, got "
            f"{type(output).__name__}."
        )
    model.optimizer = output


def differentiate(model: Model, output: OptimizerFunctionOutput) -> None:
    """Builds the gradients that the optimizer function's output requests.

    Raises:
        TypeError: The loss has none.
        ValueError: No variable is trained, or no gradient captured for the queue.
    """
    if not output.loss.dtype.is_floating:
        raise TypeError(
            "OptimizerFunctionOutput.loss must be a floating-point tensor, which has "
            f"gradients, got {output.loss.name} of {output.loss.dtype.name}: use tf.cast "
            "where the stages compute it."
        )
    with output.captures or contextlib.nullcontext():
        model.gradients = _gradients_of(output, model.traced.graph)
    if output.captures is not None:
        model.captured = flat_gradients(output.captures.captured_gradients)
    if output.captured_gradient_outfeed is not None and not model.captured:
        raise ValueError(
            "OptimizerFunctionOutput.captured_gradient_outfeed is given, but no gradient "
            "has been captured: mark tensors in the stages with "
            "capture_upstream_gradients, and use what it returns."
        )


def _check_takes_outputs(function: NestFunction, outputs: list[Tensor]) -> None:
    """Raises TypeError if the optimizer function does not take the last outputs."""
    signature = own_signature(function)
    if signature is None:
        return
    try:
        signature.bind(*outputs)
    except TypeError as error:
        count = len(outputs)
        raise TypeError(
            f"The optimizer_function `{name_of(function)}` cannot be called with the "
            f"{count} tensor{'s' if count != 1 else ''} that the last stage of the "
            f"pipeline returns: {error}. It is `{name_of(function)}{signature}`."
        ) from error


def _gradients_of(
    output: OptimizerFunctionOutput, graph: FuncGraph
) -> list[GradAndVar]:
    """Builds the pairs of a gradient and a variable.

    A gradient is zeros if the loss does not depend on a variable that a stage reads, and
    None if no stage reads it.
    """
    if output.is_keras:
        watched = () if output.tape is None else output.tape.watched_variables()
        variables = list(output.variables or watched)
        if not variables:
            raise RuntimeError(
                "No variables to optimize. Either OptimizerFunctionOutput.variables or "
                "OptimizerFunctionOutput.tape must be given with a Keras optimizer."
            )
        sources = [as_variable(each) for each in variables]
        # A tape computes the gradients of host embeddings' variables, too: they update.
        known = {id(each.handle) for each in sources}
        sources += [
            each
            for each in _used_variables(graph)
            if hasattr(each, "_ipufeed_gradient_updates")
            and id(each.handle) not in known
        ]
        gradients = tf.gradients(output.loss, sources)
        pairs = list(zip(gradients, variables, strict=False))
    else:
        keywords = dict(output.compute_gradients_kwargs)
        known = tf.compat.v1.trainable_variables()
        if (
            not output.compute_gradients_args
            and "var_list" not in keywords
            and not known
        ):
            keywords["var_list"] = _used_variables(graph)
        pairs = output.opt.compute_gradients(
            output.loss, *output.compute_gradients_args, **keywords
        )
    read = {id(outside) for outside in graph.external_captures}
    found = []
    for gradient, variable in pairs:
        if gradient is not None:
            gradient = tf.convert_to_tensor(gradient)
        elif id(getattr(as_variable(variable), "handle", None)) in read:
            # A stage has a gradient for each variable that it reads.
            kept = as_variable(variable)
            gradient = tf.zeros_like(kept.read_value())
        found.append((gradient, variable))
    return found


def as_variable(variable: Variable) -> Variable:
    """Returns the tf.Variable, also of a Keras 3 variable."""
    return variable if isinstance(variable, tf.Variable) else variable.value


def _used_variables(graph: FuncGraph) -> list[Variable]:
    """Returns the trainable variables that a graph reads, in the order of first use.

    In TensorFlow 2 there is no collection of them.
    """
    handles = {id(each.handle): each for each in graph._watched_variables}
    found = [handles.get(id(outside)) for outside in graph.external_captures]
    return [each for each in found if each is not None and each.trainable]
