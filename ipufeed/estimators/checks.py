"""Checks of what model functions return, and of the arguments of estimators."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import tensorflow as tf

from ipufeed.checks import as_int, as_numbers
from ipufeed.tf_types import Nest, Operation, SessionHook, Tensor

TRAIN, EVAL, PREDICT = MODES = ("train", "eval", "infer")


def check_mode(mode: str) -> None:
    """Raises ValueError unless it is one of ModeKeys."""
    if mode not in MODES:
        raise ValueError(
            f"`mode` must be a name of tf.estimator.ModeKeys, {', '.join(MODES)}, got "
            f"{mode!r}."
        )


def as_folder(path: object) -> str | None:
    """Returns the text of `model_dir`, a path of any type or None.

    Raises:
        TypeError: It is of another type.
    """
    if path is None:
        return None
    if not isinstance(path, (str, bytes, os.PathLike)):
        raise TypeError(
            f"`model_dir` must be a path or None, got {type(path).__name__} {path!r}."
        )
    return os.fsdecode(path)


def check_spec(
    kind: str,
    mode: str,
    predictions: Nest,
    loss: Tensor | None,
    train_op: Tensor | Operation | None,
) -> Tensor | None:
    """Checks what specs have in common.

    Args:
        kind: The name of the class of the spec, for errors.
        mode: The mode.
        predictions: None, a tensor or a dict of tensors.
        loss: None or a tensor of one element.
        train_op: None, an op or a tensor.

    Returns:
        The loss as a scalar, or None.

    Raises:
        ValueError: What the mode needs is missing, or the loss has several elements.
        TypeError: A value is of another type.
    """
    check_mode(mode)
    needs = {
        "predictions": (predictions, mode == PREDICT),
        "loss": (loss, mode in (TRAIN, EVAL)),
        "train_op": (train_op, mode == TRAIN),
    }
    for name, (value, needed) in needs.items():
        if needed and value is None:
            raise ValueError(f"Missing {name}: {kind} needs it in the mode {mode!r}.")
    # Also what a variable's assign_add returns, which is like the variable.
    if train_op is not None and not (
        isinstance(train_op, tf.Operation) or tf.is_tensor(train_op)
    ):
        raise TypeError(
            f"train_op must be Operation or Tensor, got {type(train_op).__name__}."
        )
    parts = predictions if isinstance(predictions, Mapping) else {"": predictions}
    for name, value in parts.items():
        if value is not None and not isinstance(value, tf.Tensor):
            of = f"predictions[{name!r}]" if name else "predictions"
            raise TypeError(f"{of} must be Tensor, got {type(value).__name__}.")
    return None if loss is None else _as_scalar(loss)


def _as_scalar(loss: Tensor) -> Tensor:
    loss = as_numbers("loss", loss)
    if loss.shape.is_fully_defined() and loss.shape.num_elements() != 1:
        raise ValueError(f"Loss must be scalar, got a tensor of shape {loss.shape}.")
    return loss if loss.shape.rank == 0 else tf.reshape(loss, [])


def check_hooks(
    name: str, hooks: Iterable[SessionHook] | None
) -> tuple[SessionHook, ...]:
    """Returns the hooks as a tuple.

    Raises:
        TypeError: It is not a list, or one of it is not a SessionRunHook.
    """
    if hooks is None:
        return ()
    if not isinstance(hooks, (list, tuple)):
        raise TypeError(
            f"`{name}` must be a list of hooks, got {type(hooks).__name__}."
        )
    for hook in hooks:
        if not isinstance(hook, tf.compat.v1.train.SessionRunHook):
            raise TypeError(
                "Hooks must be a SessionRunHook: one of "
                f"`{name}` is {type(hook).__name__}."
            )
    return tuple(hooks)


def check_listeners(listeners: Iterable[Any] | None) -> tuple[Any, ...]:
    """Returns listeners of checkpoints as a tuple.

    Raises:
        TypeError: It is not a list of CheckpointSaverListeners.
    """
    kind = tf.compat.v1.train.CheckpointSaverListener
    given = () if listeners is None else listeners
    if isinstance(given, (list, tuple)):
        wrong = [type(each).__name__ for each in given if not isinstance(each, kind)]
    else:
        wrong = [type(given).__name__]
    if wrong:
        raise TypeError(
            "`saving_listeners` must be a list of CheckpointSaverListener, got "
            f"{', '.join(wrong)}."
        )
    return tuple(given)


def check_metric_ops(metrics: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Returns `eval_metric_ops` as a dict, or None; the metrics are checked later.

    Raises:
        TypeError: It is neither, or a name is not a str.
    """
    if metrics is None:
        return None
    if not isinstance(metrics, Mapping):
        # TensorFlow's text, and how to give a metric.
        raise TypeError(
            f"eval_metric_ops must be a dict, given: {metrics!r}. A metric m with the name "
            "'mine' is {'mine': m}."
        )
    for name in metrics:
        if not isinstance(name, str):
            raise TypeError(
                "The names in `eval_metric_ops` must be str, got "
                f"{type(name).__name__} {name!r}."
            )
    return dict(metrics)


def check_call(name: str, value: Any) -> tuple[Callable[..., Any], Nest] | None:
    """Checks a pair of a function for the host and the tensors of the IPU it is given.

    Raises:
        TypeError: It is neither None nor such a pair.
    """
    if value is None:
        return None
    if not isinstance(value, (list, tuple)) or len(value) != 2:
        raise TypeError(
            f"`{name}` must be a pair of a function and its tensors, got "
            f"{type(value).__name__}."
        )
    function, tensors = value
    if not callable(function):
        raise TypeError(
            f"`{name}[0]` must be a function, got {type(function).__name__}."
        )
    if not isinstance(tensors, (list, tuple, dict)):
        raise TypeError(
            f"`{name}[1]` must be a list or a dict of tensors, got "
            f"{type(tensors).__name__}."
        )
    return function, tensors


def checked_steps(name: str, steps: int | None, iterations: int) -> int | None:
    """Returns a number of steps, which must be a multiple of a loop's.

    Raises:
        TypeError: It is not an int.
        ValueError: It is not positive, or not a multiple.
    """
    if steps is None:
        return None
    steps = as_int(name, steps, " or None")
    if steps <= 0:
        raise ValueError(f"Must specify {name} > 0, given: {steps}")
    if steps % iterations:
        raise ValueError(
            f"{name} ({steps}) must be a multiple of iterations_per_loop ({iterations})"
        )
    return steps
