"""Checks of the arguments of compile, fit, evaluate and predict, of both Keras.

An argument of None has its default, and is not checked.
"""

from __future__ import annotations

import math
import numbers
from typing import NoReturn

import tensorflow as tf

from ipufeed.checks import as_int, as_number
from ipufeed.tf_types import KerasModel, Nest


def check_execution(steps_per_execution: object) -> int:
    """Returns the `steps_per_execution` of `compile`; None is 1, as in tf_keras.

    Raises:
        TypeError: It is not an int; "auto" is not one.
        ValueError: It is below 1.
    """
    name = "steps_per_execution"
    if steps_per_execution is None:
        return 1
    if isinstance(steps_per_execution, str):
        raise TypeError(
            f"`{name}` must be an int, got {steps_per_execution!r}. Give the steps of an "
            "execution to `compile`: a number that divides the steps of an epoch."
        )
    steps = as_int(name, steps_per_execution)
    if steps < 1:
        raise ValueError(
            f"`{name}` must be at least 1, got {steps}: it is the number of steps of one "
            "run of the compiled program. Give it to `compile`."
        )
    return steps


def check_training(
    fewest_epochs: int,
    epochs: object,
    initial_epoch: object,
    validation_split: object,
    validation_freq: object,
    class_weight: object,
) -> None:
    """Checks arguments that only `fit` has.

    Args:
        fewest_epochs: The least value of `epochs` in this Keras.
        epochs: An int.
        initial_epoch: An int of at least 0.
        validation_split: A number of at least 0 and below 1.
        validation_freq: An int of at least 1; a list is Keras's to check.
        class_weight: A dict.

    Raises:
        TypeError, ValueError: With the argument and the remedy.
    """
    _check_least("epochs", epochs, fewest_epochs, "the number of passes over the data")
    _check_least("initial_epoch", initial_epoch, 0, "epochs are numbered from 0")
    if validation_split is not None:
        fraction = as_number("validation_split", validation_split)
        if not 0 <= fraction < 1:
            raise ValueError(
                "`validation_split` must be at least 0 and below 1, got "
                f"{validation_split}: it is the fraction of the arrays that is validated."
            )
    if isinstance(validation_freq, int):
        why = "the number of epochs from one validation to the next"
        _check_least("validation_freq", validation_freq, 1, why)
    if class_weight is not None and not isinstance(class_weight, dict):
        raise TypeError(
            "`class_weight` must be a dict of a weight for each class, such as "
            f"{{0: 1.0, 1: 2.0}}, got {type(class_weight).__name__}."
        )


def check_callbacks(callbacks: object) -> None:
    """Checks `callbacks`, which are nested; a callback list has been checked by Keras.

    Raises:
        TypeError: With the number of the first that is none, and what it must be.
    """
    for number, each in enumerate(tf.nest.flatten(callbacks)):
        must = f"`callbacks` must be instances of keras.callbacks.Callback, number {number}"
        if isinstance(each, type):
            raise TypeError(f"{must} is the class {each.__name__}: call it.")
        if each is not None and not callable(getattr(each, "set_model", None)):
            raise TypeError(f"{must} is {type(each).__name__} {each!r}.")


def check_data(
    x: Nest, batch_sizes: dict[str, object], steps: dict[str, object]
) -> None:
    """Checks the data, batch sizes and steps of a call, by their names.

    Raises:
        TypeError, ValueError: With the argument and the remedy.
    """
    if x is None:
        raise TypeError("`x` must be the data to read, got None.")
    if isinstance(x, (bool, numbers.Number, str, bytes)):
        raise TypeError(
            "`x` must be the data to read: arrays or tensors, a tf.data.Dataset or a "
            f"generator, got {type(x).__name__} {x!r}."
        )
    if isinstance(x, (list, tuple, dict)) and not x:
        raise ValueError(
            f"`x` must be the data to read, got an empty {type(x).__name__}: give an array "
            "for each input of the model."
        )
    for name, value in batch_sizes.items():
        if value is not None:
            _check_least(name, value, 1, "the rows of a batch. None is Keras's default")
    for name, value in steps.items():
        if value is not None:
            check_steps(name, value)


def check_target(model: KerasModel, y: Nest, mode: str) -> None:
    """Raises ValueError if a model of Keras 3 has a loss, and the data no target.

    Args:
        model: A model whose `train_step` and `compute_loss` are Keras's own.
        y: The target of an element of the data; None if it has none.
        mode: "fit" or "evaluate".
    """
    if y is None and model._compile_loss is not None:
        raise ValueError(
            f"Target data is missing. Your model was compiled with loss={model.loss}, and "
            f"therefore expects target data to be provided in `{mode}()`: give it `y`, or "
            "a dataset whose elements are pairs of x and y."
        )


def check_compiled(model: KerasModel, mode: str) -> None:
    """Raises ValueError if `compile` of Keras 3 got nothing to train or evaluate with.

    Args:
        model: A model whose `train_step` and `compute_loss` are Keras's own.
        mode: "fit" or "evaluate".
    """
    if mode == "fit" and model.optimizer is None:
        raise ValueError(
            f"The model {model.name} was compiled with optimizer=None, and `fit` needs one "
            'to update the weights: give `compile` an optimizer, such as "sgd".'
        )
    given = model.loss
    for plain in (list, tuple, dict):  # of which Keras keeps wrappers
        given = plain(given) if isinstance(given, plain) else given
    if given is not None and all(each is None for each in tf.nest.flatten(given)):
        raise ValueError(
            f"The model {model.name} was compiled with loss={given!r}, without "
            f"any function, and `{mode}` needs one: give `compile` a loss for each output, "
            "or leave `loss` out if layers add theirs with `add_loss`."
        )


def check_steps(name: str, steps: object) -> int:
    """Returns the steps of an epoch; a float without a fraction is accepted.

    Raises:
        TypeError: It is not a number.
        ValueError: It is not positive, or has a fraction.
    """
    number = steps if isinstance(steps, float) else as_int(name, steps, " or None")
    if not math.isfinite(number) or number <= 0 or int(number) != number:
        raise ValueError(
            f"`{name}` must be a positive int, got {steps!r}. Without it all of the data "
            "are used."
        )
    return int(number)


def refuse_unknown_size(argument: str, endless: bool = False) -> NoReturn:
    """Raises ValueError for data without a known end and without steps.

    Args:
        argument: The name of the caller's argument for the steps.
        endless: Whether the data are known to have no end.
    """
    take = ", or end the dataset with `take`" if endless else ""
    raise ValueError(
        "Could not infer the size of the data"
        f"{', which have no end' if endless else ''}. You must specify the number of "
        f"steps to run: give `{argument}`{take}."
    )


def _check_least(name: str, value: object, least: int, why: str) -> None:
    if as_int(name, value) < least:
        raise ValueError(f"`{name}` must be at least {least}, got {value}: {why}.")
