"""The gradients of traced stages, as the optimizer function asks for them."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable
from typing import Any

from ipufeed.parallel.optimizers.captured import flat_gradients
from ipufeed.parallel.optimizers.lifting import variables_outside
from ipufeed.parallel.pipeline.options import OptimizerFunctionOutput
from ipufeed.parallel.pipeline.stage_checks import (
    name_of,
)
from ipufeed.parallel.pipeline.traced import Model
from ipufeed.queues.autograph import as_user_function


def differentiate(model: Model, optimizer_function: Callable[..., Any]) -> None:
    """Calls the optimizer function, and builds the gradients that it asks for.

    Raises:
        TypeError: It does not take the last stage's outputs, or returns no
            OptimizerFunctionOutput.
        ValueError: There is nothing to train, or to capture.
    """
    check_takes_outputs(optimizer_function, model.outputs)
    with variables_outside():
        output = as_user_function(optimizer_function)(*model.outputs)
    if not isinstance(output, OptimizerFunctionOutput):
        raise TypeError(
            "The optimizer_function must return an OptimizerFunctionOutput object, got "
            f"{type(output).__name__}."
        )
    if not output.loss.dtype.is_floating:
        raise TypeError(
            "OptimizerFunctionOutput.loss must be a floating-point tensor, which has "
            f"gradients, got {output.loss.name} of {output.loss.dtype.name}: use tf.cast "
            "where the stages compute it."
        )
    model.optimizer = output
    with output.captures or contextlib.nullcontext():
        model.gradients = gradients_of(output, model.traced.graph)
    if output.captures is not None:
        model.captured = flat_gradients(output.captures.captured_gradients)
    if output.captured_gradient_outfeed is not None and not model.captured:
        raise ValueError(
            "OptimizerFunctionOutput.captured_gradient_outfeed is given, but no gradient "
            "has been captured: mark tensors in the stages with "
            "capture_upstream_gradients, and use what it returns."
        )


def check_takes_outputs(function: Callable[..., Any], outputs: list[Any]) -> None:
    """Finds out before it is called whether the optimizer function takes the outputs.

    Raises:
        TypeError: It does not.
    """
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # built-in functions have none
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


def gradients_of(output: OptimizerFunctionOutput, graph: Any) -> list[tuple[Any, Any]]:
    """Gradients and variables.

    A gradient is zeros where the loss does not depend on a variable that a stage reads,
    and None for one that no stage reads.
    """
    import tensorflow as tf

    if output.is_keras:
        watched = () if output.tape is None else output.tape.watched_variables()
        variables = list(output.variables or watched)
        if not variables:
            raise RuntimeError(
                "No variables to optimize. Either OptimizerFunctionOutput.variables or "
                "OptimizerFunctionOutput.tape must be given with a Keras optimizer."
            )
        sources = [as_variable(each) for each in variables]
        gradients = tf.gradients(output.loss, sources)
        pairs = list(zip(gradients, variables, strict=True))
    else:
        keywords = dict(output.compute_gradients_kwargs)
        known = tf.compat.v1.trainable_variables()
        if (
            not output.compute_gradients_args
            and "var_list" not in keywords
            and not known
        ):
            keywords["var_list"] = used_variables(graph)
        pairs = output.opt.compute_gradients(
            output.loss, *output.compute_gradients_args, **keywords
        )
    read = {id(outside) for outside in graph.external_captures}
    found = []
    for gradient, variable in pairs:
        if gradient is not None:
            gradient = tf.convert_to_tensor(gradient)
        elif id(getattr(as_variable(variable), "handle", None)) in read:
            # A stage is one function with a gradient for all that it reads.
            kept = as_variable(variable)
            gradient = tf.zeros_like(kept.read_value())
        found.append((gradient, variable))
    return found


def as_variable(variable: Any) -> Any:
    """The tf.Variable, also of what Keras 3 has around it."""
    import tensorflow as tf

    return variable if isinstance(variable, tf.Variable) else variable.value


def used_variables(graph: Any) -> list[Any]:
    """The trainable variables that a traced graph reads, in the order of first use.

    In TensorFlow 2 no collection has them.
    """
    handles = {id(each.handle): each for each in graph._watched_variables}
    found = [handles.get(id(outside)) for outside in graph.external_captures]
    return [each for each in found if each is not None and each.trainable]
