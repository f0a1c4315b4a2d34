"""A pipeline's options: recomputation, stages' compiler options, optimizer."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from ipufeed.parallel.optimizers.gradient_capture import (
    GradientCaptureContext,
    GradientCaptureTape,
)
from ipufeed.parallel.optimizers.wrapper import accumulator_in
from ipufeed.queues.outfeed import IPUOutfeedQueue
from ipufeed.tf_types import Optimizer, Tensor, Variable


class RecomputationMode(enum.Enum):
    """How forward stages are recomputed for the backward ones.

    It needs `allow_recompute` of the configuration.

    Auto: As the schedule allows.
    RecomputeThenBackpropagate: First all of the forward stage, then the backward stage;
        for Grouped and Interleaved.
    RecomputeAndBackpropagateInterleaved: Each part of the forward stage when its result
        is needed; for Grouped and Sequential.
    """

    Auto = 0
    RecomputeThenBackpropagate = 1
    RecomputeAndBackpropagateInterleaved = 2


class PipelineStageOptions:
    """Options of the compiler for one stage.

    Args:
        convolution_options: For convolutions: names and values. Default: None.
        matmul_options: For matrix products: names and values. Default: None.
        slice_options: For embedding look-ups: names and values. Default: None.

    Raises:
        TypeError: One is not a dict, or has a name that is not a str.

    The simulated device has no such options: they are stored, without an effect.
    """

    def __init__(
        self,
        convolution_options: dict[str, object] | None = None,
        matmul_options: dict[str, object] | None = None,
        slice_options: dict[str, object] | None = None,
    ) -> None:
        self.convolution_options = _copied("convolution_options", convolution_options)
        self.matmul_options = _copied("matmul_options", matmul_options)
        self.slice_options = _copied("slice_options", slice_options)


def _copied(name: str, options: dict[str, object] | None) -> dict[str, object]:
    """Returns a copy of options.

    Raises:
        TypeError: They are not a dict, or a name of one is not a str.
    """
    if options is None:
        return {}
    if not isinstance(options, dict) or not all(
        isinstance(key, str) for key in options
    ):
        raise TypeError(
            f"`{name}` must be a dict from the names of options to their values, got "
            f"{options!r}."
        )
    return dict(options)


class OptimizerFunctionOutput:
    """What a pipeline's `optimizer_function` returns.

    Args:
        opt: The optimizer: one of TensorFlow 1 (`tf.compat.v1.train.Optimizer`) or of
            Keras.
        loss: The loss, a tensor of any shape; gradients are those of the sum of its
            elements, as of `tf.gradients`.
        compute_gradients_args: For `opt.compute_gradients`, after the loss: a tuple.
            Default: None.
        compute_gradients_kwargs: Likewise, a dict. Default: None.
        apply_gradients_args: For `opt.apply_gradients`, after gradients and variables: a
            tuple. Default: None.
        apply_gradients_kwargs: Likewise, a dict. Default: None.
        variables: The variables that a Keras optimizer trains. Default: None.
        tape: A GradientTape that has watched them, in place of `variables`. Default: None.
        gradient_capture_context: A GradientCaptureContext that gets the gradients of
            tensors that `capture_upstream_gradients` has marked in the stages. A
            GradientCaptureTape as `tape` does the same. Default: None.
        captured_gradient_outfeed: An IPUOutfeedQueue that gets them, as a dict from tag to
            gradient: accumulated, once in each execution; or of each mini-batch, without
            `gradient_accumulation_for_captured_grads`. It needs a
            `gradient_capture_context`, or a GradientCaptureTape as `tape`. Default: None.

    If `opt.apply_gradients` has a parameter `captured_grads`, it gets the same dict by that
    name; without accumulation that of the last mini-batch.

    Later assignments to the attributes are checked as well.

    Raises:
        TypeError: An argument has another type.
        ValueError: Arguments exclude each other, or one needs another; the optimizer
            accumulates gradients.

    Source: Graphcore's class of this name.
    """

    def __init__(
        self,
        opt: Optimizer,
        loss: Tensor,
        compute_gradients_args: tuple[object, ...] | None = None,
        compute_gradients_kwargs: dict[str, object] | None = None,
        apply_gradients_args: tuple[object, ...] | None = None,
        apply_gradients_kwargs: dict[str, object] | None = None,
        variables: Sequence[Variable] | None = None,
        tape: tf.GradientTape | None = None,
        gradient_capture_context: GradientCaptureContext | None = None,
        captured_gradient_outfeed: IPUOutfeedQueue | None = None,
    ) -> None:
        self._values: dict[str, Any] = {}
        self.opt = opt
        self.loss = loss
        self.compute_gradients_args = compute_gradients_args or ()
        self.compute_gradients_kwargs = compute_gradients_kwargs or {}
        self.apply_gradients_args = apply_gradients_args or ()
        self.apply_gradients_kwargs = apply_gradients_kwargs or {}
        self.variables = () if variables is None else variables
        self.tape = tape
        self.gradient_capture_context = gradient_capture_context
        self.captured_gradient_outfeed = captured_gradient_outfeed

    @property
    def is_keras(self) -> bool:
        """Whether the optimizer is a Keras optimizer."""
        return is_keras_optimizer(self.opt)

    @property
    def captures(self) -> GradientCaptureContext | None:
        """The context that gets captured gradients; None if none are captured."""
        if isinstance(self.tape, GradientCaptureTape):
            return self.tape.context
        context: GradientCaptureContext | None = self.gradient_capture_context
        return context

    def _has(self, name: str) -> bool:
        return self._values.get(name) not in (None, (), [])

    def _refuse(self, name: str, what: str) -> None:
        raise ValueError(f"OptimizerFunctionOutput.{name} {what}")


def _checked(
    name: str, kinds: type | tuple[type, ...], what: str, optional: bool
) -> property:
    """Makes an attribute of OptimizerFunctionOutput that checks assigned values."""

    def get(output: OptimizerFunctionOutput) -> Any:
        return output._values[name]

    def put(output: OptimizerFunctionOutput, value: object) -> None:
        if not (optional and value is None) and not isinstance(value, kinds):
            raise TypeError(
                f"OptimizerFunctionOutput.{name} must be {what}, got "
                f"{type(value).__name__}."
            )
        output._values[name] = value
        _check_together(output, name)

    return property(get, put, doc=f"`{name}`: {what}.")


def _check_together(output: OptimizerFunctionOutput, name: str) -> None:
    """Raises ValueError if a just assigned attribute excludes another one."""
    if name == "opt":
        check_accumulates_nothing(output.opt)
        return
    value = output._values[name]
    if name == "loss" or value is None or value in ((), [], {}):
        return
    if name.startswith("compute_gradients") and output.is_keras:
        output._refuse(name, "may not be used with OptimizerV2 instances.")
    if name in ("variables", "tape") and not output.is_keras:
        output._refuse(
            name,
            "may only be used with OptimizerV2. One of TensorFlow 1 takes `var_list` in "
            "compute_gradients_kwargs.",
        )
    if name == "tape" and output._has("variables"):
        output._refuse(
            name,
            "may not be used when OptimizerFunctionOutput.variables is nonempty.",
        )
    if name == "variables" and output._has("tape"):
        output._refuse(name, "must be empty when OptimizerFunctionOutput.tape is used.")
    if name == "gradient_capture_context" and isinstance(
        output._values.get("tape"), GradientCaptureTape
    ):
        output._refuse(
            name,
            "may not be used when OptimizerFunctionOutput.tape is a GradientCaptureTape, "
            "which is one.",
        )
    if (
        name == "tape"
        and isinstance(output.tape, GradientCaptureTape)
        and output._values.get("gradient_capture_context") is not None
    ):
        output._refuse(
            name,
            "may not be used when OptimizerFunctionOutput.gradient_capture_context is "
            "nonempty.",
        )
    if name == "captured_gradient_outfeed" and output.captures is None:
        output._refuse(
            name,
            "needs a gradient_capture_context, such as GradientCaptureContext(), or a "
            "GradientCaptureTape as the tape: they get the gradients.",
        )


class _IsKeras(type):
    def __instancecheck__(cls, instance: object) -> bool:
        return is_keras_optimizer(instance)


class _KerasOptimizer(metaclass=_IsKeras):
    """The type of all Keras optimizers, without an import of Keras."""


_OPTIMIZERS = (tf.compat.v1.train.Optimizer, _KerasOptimizer)
for _name, _kinds, _what, _optional in (
    ("opt", _OPTIMIZERS, "a TensorFlow Optimizer or Keras OptimizerV2 object", False),
    ("loss", tf.Tensor, "a TensorFlow Tensor object", False),
    ("compute_gradients_args", tuple, "a tuple", False),
    ("compute_gradients_kwargs", dict, "a dict", False),
    ("apply_gradients_args", tuple, "a tuple", False),
    ("apply_gradients_kwargs", dict, "a dict", False),
    ("variables", (tuple, list), "a tuple or list", False),
    ("tape", tf.GradientTape, "a GradientTape", True),
    (
        "gradient_capture_context",
        GradientCaptureContext,
        "an instance of GradientCaptureContext",
        True,
    ),
    (
        "captured_gradient_outfeed",
        IPUOutfeedQueue,
        "an instance of IPUOutfeedQueue",
        True,
    ),
):
    setattr(OptimizerFunctionOutput, _name, _checked(_name, _kinds, _what, _optional))


def check_accumulates_nothing(opt: Optimizer) -> None:
    """Raises ValueError if an optimizer, or one that it wraps, accumulates gradients."""
    inner = accumulator_in(opt)
    if inner is not None:
        raise ValueError(
            f"OptimizerFunctionOutput.opt must not be a {type(inner).__name__}: a "
            "pipeline accumulates the gradients of its gradient_accumulation_count "
            "mini-batches itself. Give the optimizer that it wraps, and multiply "
            f"gradient_accumulation_count by {inner._num_mini_batches} for as few updates."
        )


def is_keras_optimizer(opt: Optimizer) -> bool:
    """Whether an optimizer is one of Keras 2 or 3, without importing either."""
    names = {"BaseOptimizer", "Optimizer"}
    return any(
        each.__name__ == "OptimizerV2"  # of Keras 2, whatever package it is in
        or (
            each.__name__ in names
            and each.__module__.split(".")[0] in ("keras", "tf_keras")
        )
        for each in type(opt).__mro__
    )
