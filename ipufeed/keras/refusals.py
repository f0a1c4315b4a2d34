"""What a model of an IPUStrategy cannot do, in the words of the original."""

from __future__ import annotations

from typing import Any, NoReturn


def refuse_without_shapes(data: Any) -> NoReturn:
    """Data whose shapes are known only when they are read.

    Raises:
        ValueError: Always.
    """
    raise ValueError(
        f"The provided set of data is of type `{type(data).__name__}` which is not "
        "compatible with the IPU's requirement to know the data shape ahead of time. "
        "Please use tf.data.Dataset.from_generator() to specify the shape of your data."
    )


def refuse_without_call(model: Any, base: type) -> None:
    """A subclass must define what it computes.

    Raises:
        NotImplementedError: It has not overridden `call`.
    """
    if type(model).call is base.call:  # type: ignore[attr-defined]
        raise NotImplementedError(
            f"The function `call` for the model {model.name} has not been implemented. "
            "When subclassing the `Model` class you must implement the `call` function."
        )


def check_not_overridden(model: Any, base: type, function: str) -> None:
    """A function of Keras that the calls do not use, or replace.

    Raises:
        RuntimeError: The model has its own.
    """
    if getattr(type(model), function) is not getattr(base, function):
        refuse_override(model, function)


def refuse_for_pipeline(model: Any, why: str) -> NoReturn:
    """Refuses options of models that are not pipelined.

    Raises:
        ValueError: Always.
    """
    raise ValueError(
        f"The model {model.name} is pipelined: `set_gradient_accumulation_options` has no "
        f"effect on it. {why}"
    )


def refuse_legacy_pipeline() -> NoReturn:
    """The stages of a pipeline are made of layers of Keras 3.

    Raises:
        NotImplementedError: Always.
    """
    raise NotImplementedError(
        "A model of tf_keras (TF_USE_LEGACY_KERAS=1) cannot run as a pipeline on the "
        "simulated IPU. Make it of Keras 3, or without stages: "
        "`set_gradient_accumulation_options` gives the same weight updates."
    )


def refuse_override(
    model: Any, function: str, when: str = "when using Keras within an IPUStrategy"
) -> NoReturn:
    """Refuses a function that the model has overridden.

    Raises:
        RuntimeError: Always.
    """
    raise RuntimeError(
        f"The function `{function}` for the model {model.name} has been overridden. This "
        f"is not supported {when}. Either remove the "
        "override from your model definition or set `enable_keras_extensions=False` when "
        "creating the IPUStrategy."
    )


def check_count(steps: Any) -> None:
    """Checks the number of mini-batches of a weight update.

    Raises:
        ValueError: It is neither None nor a positive int.
    """
    if steps is None:
        return
    if isinstance(steps, bool) or not isinstance(steps, int) or steps <= 0:
        raise ValueError(
            "Expected `gradient_accumulation_steps_per_replica` to be a positive integer, "
            f"but got {steps} instead."
        )


def refuse_keys(
    kwargs: dict[str, Any], name: str, keys: tuple[str, ...], why: str
) -> None:
    """Raises ValueError for arguments that are not the caller's to set."""
    for key in keys:
        if key in kwargs:
            raise ValueError(f"Found `{key}` key in `{name}`. {why}")
