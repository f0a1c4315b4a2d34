"""Errors and warnings on unsupported models and options, in Graphcore's words."""

from __future__ import annotations

from typing import Any, NoReturn

import tensorflow as tf

from ipufeed.checks import is_int
from ipufeed.device.log import LOGGER
from ipufeed.tf_types import KerasLayer, KerasModel, Nest


def refuse_without_shapes(data: Nest) -> NoReturn:
    """Raises ValueError for data whose shapes are unknown before they are read."""
    raise ValueError(
        f"The provided set of data is of type `{type(data).__name__}` which is not "
        "compatible with the IPU's requirement to know the data shape ahead of time. "
        "Please use tf.data.Dataset.from_generator() to specify the shape of your data."
    )


def refuse_without_call(model: KerasModel, base: type, step: str) -> None:
    """Raises NotImplementedError if a subclass overrides neither `call` nor its step.

    Args:
        model: The model.
        base: Keras's class of models.
        step: The function of a step, such as "train_step".
    """
    own = getattr(type(model), step) is not getattr(base, step)
    stock = base.call  # type: ignore[attr-defined]
    if getattr(model.call, "__func__", None) is stock and not own:
        raise NotImplementedError(
            f"The function `call` for the model {model.name} has not been implemented. "
            "When subclassing the `Model` class you must implement the `call` function, "
            f"or override `{step}`."
        )


def check_not_overridden(model: KerasModel, base: type, function: str) -> None:
    """Raises RuntimeError if the model overrides a function that our calls replace."""
    if getattr(type(model), function) is not getattr(base, function):
        refuse_override(model, function)


def refuse_for_pipeline(model: KerasModel, why: str) -> NoReturn:
    """Raises ValueError for options that a pipelined model does not have."""
    raise ValueError(
        f"The model {model.name} is pipelined: `set_gradient_accumulation_options` has no "
        f"effect on it. {why}"
    )


def warn_of_average(model: KerasModel, layer: KerasLayer) -> None:
    """Warns that a pipeline does not update a layer's moving averages properly."""
    LOGGER.warning(
        "The model `%s` has the BatchNormalization layer `%s` with momentum %s: its "
        "moving statistics in pipelined models are not properly updated when training.",
        *(model.name, layer.name, layer.momentum),
    )


def refuse_override(
    model: KerasModel,
    function: str,
    when: str = "when using Keras within an IPUStrategy",
) -> NoReturn:
    """Raises RuntimeError for a function that the model has overridden."""
    raise RuntimeError(
        f"The function `{function}` for the model {model.name} has been overridden. This "
        f"is not supported {when}. Either remove the "
        "override from your model definition or set `enable_keras_extensions=False` when "
        "creating the IPUStrategy."
    )


def refuse_to_accumulate(model: KerasModel, count: int, base: type) -> None:
    """Raises RuntimeError if the model accumulates gradients and has its own train_step.

    Its step applies gradients itself. Repeated without its updates it would be another
    one: moving averages of weights, clipped weights and second optimizers see each step.

    Args:
        model: The model.
        count: The mini-batches of a weight update.
        base: Keras's class with `train_step`.
    """
    stock = base.train_step  # type: ignore[attr-defined]
    if count <= 1 or getattr(model.train_step, "__func__", None) is stock:
        return
    raise RuntimeError(
        f"The function `train_step` for the model {model.name} has been overridden. This "
        "is not supported with gradient accumulation "
        f"(`gradient_accumulation_steps_per_replica` is {count}), which runs Keras's own "
        "step without its weight update. Either override `compute_loss` and "
        "`compute_metrics` in place of `train_step`, or call "
        "`set_gradient_accumulation_options(1)` and accumulate in your own step: "
        "optimizers of Keras 3 have `gradient_accumulation_steps`."
    )


def check_count(steps: object) -> None:
    """Raises ValueError unless the mini-batches of an update are None or positive."""
    if steps is None:
        return
    if not is_int(steps) or steps <= 0:
        raise ValueError(
            "Expected `gradient_accumulation_steps_per_replica` to be a positive integer, "
            f"but got {steps!r} instead."
        )


def refuse_keys(
    kwargs: dict[str, Any], name: str, keys: tuple[str, ...], why: str
) -> None:
    """Raises ValueError for arguments that Keras sets itself."""
    for key in keys:
        if key in kwargs:
            raise ValueError(f"Found `{key}` key in `{name}`. {why}")


# Arguments of older releases, and what they are called now.
OLD_NAMES = {
    "gradient_accumulation_steps": "gradient_accumulation_steps_per_replica",
    "experimental_normalize_gradients": "gradient_accumulation_reduction_method",
}


def refuse_old_names(method: str, kwargs: dict[str, Any]) -> None:
    """Raises TypeError for arguments of older releases, with their names of today."""
    for old, new in OLD_NAMES.items():
        if old in kwargs:
            raise TypeError(
                f"{method}() got an unexpected keyword argument '{old}': `{old}` has now "
                f"been removed, use `{new}` instead."
            )


# Optimizers of TensorFlow 1 by the names of their classes, and those of Keras 3.
REPLACEMENTS = {
    "AdadeltaOptimizer": "Adadelta",
    "AdagradOptimizer": "Adagrad",
    "AdamOptimizer": "Adam",
    "FtrlOptimizer": "Ftrl",
    "GradientDescentOptimizer": "SGD",
    "MomentumOptimizer": "SGD",
    "RMSPropOptimizer": "RMSprop",
}


def refuse_version_1(optimizer: object) -> None:
    """Raises TypeError for an optimizer of TensorFlow 1, which Keras 3 does not take."""
    if not isinstance(optimizer, tf.compat.v1.train.Optimizer):
        return
    kind = type(optimizer).__name__
    new = REPLACEMENTS.get(kind)
    way = f"Use `keras.optimizers.{new}`"
    if kind == "MomentumOptimizer":
        way += " with `momentum`"
    if new is None:
        way = "Use one of `keras.optimizers`"
        if type(optimizer).__module__.startswith("ipufeed."):
            way += (
                ", or around it the wrapper of this name in `ipufeed.keras.optimizers`; "
                "accumulation is `model.set_gradient_accumulation_options`"
            )
    raise TypeError(
        f"`optimizer` is a {kind}, which is of TensorFlow 1 (tf.compat.v1.train): Keras 3 "
        f"does not take it. {way}, or the Keras that takes it, tf_keras."
    )


MAKE_INSIDE = "Make the model in the scope: `with strategy.scope(): model = ...`"


def do_not_compile_for_host(model: KerasModel) -> None:
    """Sets `jit_compile` to False in a model of the host with weights on an IPU.

    Such a model was made outside of the scope from layers that were made in it. XLA would
    compile its steps for the host, where they cannot read the weights.
    """
    if not getattr(model, "jit_compile", False):
        return
    found = _layer_on_ipu(model)
    if found is not None:
        LOGGER.warning(
            "The model `%s` was made outside of the IPUStrategy's scope, and its layer "
            "`%s` has weights on %s: it runs op by op. %s, so that it is compiled.",
            *(model.name, *found, MAKE_INSIDE),
        )
        model.jit_compile = False


def _layer_on_ipu(model: KerasModel) -> tuple[str, str] | None:
    """Returns the first layer of a built model with weights on an IPU, and the IPU."""
    for layer in model.layers if model.built else ():
        for weight in layer.weights:
            device = getattr(getattr(weight, "_value", weight), "device", "") or ""
            if "device:IPU" in device:
                return layer.name, device.rpartition("/")[2]
    return None


def refuse_to_compile(model: KerasModel) -> None:
    """Raises ValueError for `compile` in the scope of a model that was made outside.

    Its metrics and its optimizer would be on the IPU, and its weights on the host.
    """
    if _layer_on_ipu(model) is None:
        raise ValueError(
            f"The model {model.name} was made outside of the IPUStrategy's scope, and "
            f"`compile` is called in it. {MAKE_INSIDE}, or call `compile` outside of the "
            "scope, with an optimizer that was made there, to run the model on the host."
        )


_WARNED = "_ipufeed_warned"


def warn_that_host_runs(model: KerasModel, call: str) -> None:
    """Warns once that a call in the scope of an IPUStrategy runs on the host."""
    if not model.__dict__.setdefault(_WARNED, False) and _layer_on_ipu(model) is None:
        model.__dict__[_WARNED] = True
        LOGGER.warning(
            "The model `%s` was made outside of the IPUStrategy's scope: `%s` runs on "
            "the host. %s, so that it runs on the IPU.",
            *(model.name, call, MAKE_INSIDE),
        )
