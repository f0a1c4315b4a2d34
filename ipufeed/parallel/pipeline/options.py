"""What a pipeline can be told: what is recomputed, the optimizer, ..."""

from __future__ import annotations

import enum
from typing import Any


class RecomputationMode(enum.Enum):
    """How forward stages are computed again for the backward ones.

    It has an effect with `allow_recompute` of the configuration only.

    Auto: As the schedule allows.
    RecomputeThenBackpropagate: First all of the forward stage, then the backward stage;
        for Grouped and Interleaved.
    RecomputeAndBackpropagateInterleaved: Each part of the forward stage when it is needed;
        for Grouped and Sequential.
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

    The simulated device has no such options; they are kept, and part of nothing else.
    """

    def __init__(
        self,
        convolution_options: dict[str, Any] | None = None,
        matmul_options: dict[str, Any] | None = None,
        slice_options: dict[str, Any] | None = None,
    ) -> None:
        self.convolution_options = dict(convolution_options or {})
        self.matmul_options = dict(matmul_options or {})
        self.slice_options = dict(slice_options or {})


class OptimizerFunctionOutput:
    """What a pipeline's `optimizer_function` returns.

    Args:
        opt: The optimizer: one of TensorFlow 1 (`tf.compat.v1.train.Optimizer`) or of
            Keras.
        loss: The loss, a tensor of any shape: its elements are summed in gradients, as
            `tf.gradients` does.
        compute_gradients_args: For `opt.compute_gradients`, after the loss: a tuple.
            Default: None.
        compute_gradients_kwargs: Likewise, a dict. Default: None.
        apply_gradients_args: For `opt.apply_gradients`, after gradients and variables: a
            tuple. Default: None.
        apply_gradients_kwargs: Likewise, a dict. Default: None.
        variables: What a Keras optimizer trains. Default: None.
        tape: A GradientTape that has watched it, in place of `variables`. Default: None.
        gradient_capture_context: A GradientCaptureContext that gets the gradients that
            `capture_upstream_gradients` has marked in the stages. A GradientCaptureTape is
            one, too. Default: None.
        captured_gradient_outfeed: An IPUOutfeedQueue that gets them, as a dict from tag to
            gradient: accumulated, once in each execution, or each mini-batch's without
            `gradient_accumulation_for_captured_grads`. No context is needed with it.
            Default: None.

    If `opt.apply_gradients` has a parameter `captured_grads`, it gets the same dict by that
    name; without accumulation the last mini-batch's.

    Raises:
        TypeError: An argument has another type.
        ValueError: Arguments that exclude each other; an optimizer that accumulates.
        RuntimeError: A Keras optimizer without variables.

    Source: Graphcore's class of this name.
    """

    def __init__(
        self,
        opt: Any,
        loss: Any,
        compute_gradients_args: tuple[Any, ...] | None = None,
        compute_gradients_kwargs: dict[str, Any] | None = None,
        apply_gradients_args: tuple[Any, ...] | None = None,
        apply_gradients_kwargs: dict[str, Any] | None = None,
        variables: Any = None,
        tape: Any = None,
        gradient_capture_context: Any = None,
        captured_gradient_outfeed: Any = None,
    ) -> None:
        import tensorflow as tf

        self.is_keras = is_keras_optimizer(opt)
        if not self.is_keras and not isinstance(opt, tf.compat.v1.train.Optimizer):
            raise TypeError(
                "OptimizerFunctionOutput.opt must be a TensorFlow Optimizer or Keras "
                f"optimizer object, got {type(opt).__name__}."
            )
        if not tf.is_tensor(loss):
            raise TypeError(
                "OptimizerFunctionOutput.loss must be a TensorFlow Tensor object, got "
                f"{type(loss).__name__}."
            )
        if not loss.dtype.is_floating:
            raise TypeError(
                "OptimizerFunctionOutput.loss must be a floating-point tensor, which has "
                f"gradients, got {getattr(loss, 'name', 'a tensor')} of {loss.dtype.name}: "
                "use tf.cast where the stages compute it."
            )
        for name, value, kind in (
            ("compute_gradients_args", compute_gradients_args, tuple),
            ("compute_gradients_kwargs", compute_gradients_kwargs, dict),
            ("apply_gradients_args", apply_gradients_args, tuple),
            ("apply_gradients_kwargs", apply_gradients_kwargs, dict),
        ):
            if value is not None and not isinstance(value, kind):
                raise TypeError(
                    f"OptimizerFunctionOutput.{name} must be a {kind.__name__}, got "
                    f"{type(value).__name__}."
                )
        check_accumulates_nothing(opt)
        if self.is_keras:
            check_keras(
                compute_gradients_args, compute_gradients_kwargs, variables, tape
            )
        elif tape is not None or variables is not None:
            which = "tape" if tape is not None else "variables"
            raise ValueError(
                f"OptimizerFunctionOutput.{which} may only be used with a Keras "
                "optimizer: one of TensorFlow 1 takes `var_list` in "
                "compute_gradients_kwargs."
            )
        self.captures = captures_of(
            tape, gradient_capture_context, captured_gradient_outfeed
        )
        self.captured_gradient_outfeed = captured_gradient_outfeed
        self.opt = opt
        self.loss = loss
        self.compute_gradients_args = compute_gradients_args or ()
        self.compute_gradients_kwargs = compute_gradients_kwargs or {}
        self.apply_gradients_args = apply_gradients_args or ()
        self.apply_gradients_kwargs = apply_gradients_kwargs or {}
        self.variables = list(variables or ())
        self.tape = tape


def check_accumulates_nothing(opt: Any) -> None:
    """Refuses an optimizer that accumulates gradients, itself or in one that it wraps.

    Raises:
        ValueError: It does.
    """
    from ipufeed.parallel.optimizers.wrapper import accumulator_in

    inner = accumulator_in(opt)
    if inner is not None:
        raise ValueError(
            f"OptimizerFunctionOutput.opt must not be a {type(inner).__name__}: a "
            "pipeline accumulates the gradients of its gradient_accumulation_count "
            "mini-batches itself. Give the optimizer that it wraps, and multiply "
            f"gradient_accumulation_count by {inner._num_mini_batches} for as few updates."
        )


def captures_of(tape: Any, context: Any, outfeed: Any) -> Any:
    """The context that gets captured gradients; None if they are not wanted.

    Raises:
        TypeError: The context or the queue is none.
        ValueError: There are two contexts.
    """
    from ipufeed.parallel.optimizers.captured import (
        GradientCaptureContext,
        GradientCaptureTape,
    )
    from ipufeed.queues.outfeed import IPUOutfeedQueue

    for name, value, kind in (
        ("gradient_capture_context", context, GradientCaptureContext),
        ("captured_gradient_outfeed", outfeed, IPUOutfeedQueue),
    ):
        if value is not None and not isinstance(value, kind):
            raise TypeError(
                f"OptimizerFunctionOutput.{name} must be an instance of {kind.__name__}, "
                f"got {type(value).__name__}."
            )
    if isinstance(tape, GradientCaptureTape):
        if context is not None:
            raise ValueError(
                "OptimizerFunctionOutput.gradient_capture_context may not be used when "
                "OptimizerFunctionOutput.tape is a GradientCaptureTape, which is one."
            )
        return tape.context
    if context is None and outfeed is not None:
        return GradientCaptureContext()
    return context


def check_keras(args: Any, kwargs: Any, variables: Any, tape: Any) -> None:
    """What only a Keras optimizer must, and must not have."""
    if args is not None or kwargs is not None:
        which = (
            "compute_gradients_args" if args is not None else "compute_gradients_kwargs"
        )
        raise ValueError(
            f"OptimizerFunctionOutput.{which} may not be used with a Keras optimizer, "
            "which has no compute_gradients."
        )
    if tape is not None:
        import tensorflow as tf

        if not isinstance(tape, tf.GradientTape):
            raise TypeError(
                "OptimizerFunctionOutput.tape must be a TensorFlow GradientTape, got "
                f"{type(tape).__name__}."
            )
        if variables:
            raise ValueError(
                "OptimizerFunctionOutput.tape may not be used when "
                "OptimizerFunctionOutput.variables is used."
            )
    elif not variables:
        raise RuntimeError(
            "No variables to optimize. Either OptimizerFunctionOutput.variables or "
            "OptimizerFunctionOutput.tape must be given with a Keras optimizer."
        )


def is_keras_optimizer(opt: Any) -> bool:
    """Whether it is an optimizer of Keras 2 or 3, without importing either."""
    names = {"BaseOptimizer", "OptimizerV2", "Optimizer"}
    return any(
        each.__name__ in names
        and each.__module__.split(".")[0] in ("keras", "tf_keras")
        for each in type(opt).__mro__
    )
