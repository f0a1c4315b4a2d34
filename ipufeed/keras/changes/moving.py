"""Moves the variables of an optimizer to the IPU of the scope that it is used in.

    made outside of the scope --> its first use in a program --> moved, then built

TensorFlow 2.6's optimizers made all of their variables at the first use; Keras 3 and
tf_keras make the learning rate and the count in the constructor. One that was built on the
host stays there: functions may have been traced with its variables.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from ipufeed.device.program.strategy import current_strategy
from ipufeed.tf_patches.changes import replace
from ipufeed.tf_types import Nest, Optimizer, Variable


def move_variables(variables: list[Variable]) -> None:
    """Moves Keras 3's variables that were made outside of the scope to its IPU."""
    for each in variables:
        old = each._value
        if _is_elsewhere(old):
            each._value = _moved(old)


def move_optimizer(optimizer: Optimizer) -> None:
    """Moves the variables of an unbuilt optimizer of Keras 3 to the IPU of this scope."""
    optimizer._distribution_strategy = tf.distribute.get_strategy()
    move_variables(optimizer.variables)


def move_legacy_optimizer(optimizer: Optimizer) -> None:
    """Moves the variables of an unbuilt optimizer of tf_keras to the IPU of this scope."""
    new: dict[int, Variable] = {}
    for name in ("_iterations", "_learning_rate", "_current_learning_rate"):
        old = getattr(optimizer, name, None)
        if isinstance(old, tf.Variable) and _is_elsewhere(old):
            new[id(old)] = _moved(old)
            setattr(optimizer, name, new[id(old)])
    if new:
        optimizer._variables = [
            new.get(id(each), each) for each in optimizer._variables
        ]
    optimizer._distribution_strategy = tf.distribute.get_strategy()


def move_at_first_use(
    kind: Any,
    methods: tuple[str, ...],
    is_built: Callable[[Any], bool],
    move: Callable[[Any], None],
) -> None:
    """Makes optimizers of a class move before they are built or applied.

    Args:
        kind: The base class of a Keras's optimizers.
        methods: Those that use the variables first.
        is_built: Whether an optimizer has its state.
        move: Moves the variables that it has.
    """

    def moving(stock: Callable[..., Nest]) -> Callable[..., Nest]:
        @functools.wraps(stock)
        def method(self: Optimizer, *arguments: object, **keywords: object) -> Nest:
            if current_strategy() is not None and not is_built(self):
                with tf.init_scope():
                    eager = tf.executing_eagerly()
                if eager:  # in a version 1 graph the values are not known
                    move(self)
            return stock(self, *arguments, **keywords)

        return method

    for name in methods:
        replace(kind, name, moving(getattr(kind, name)))


def _here() -> str:
    device: str = tf.distribute.get_strategy().extended._default_device
    return device


def _is_elsewhere(variable: Variable) -> bool:
    return not variable.device.endswith(_here())


def _moved(old: Variable) -> Variable:
    name, here = old.name.partition(":")[0], _here()
    with tf.init_scope(), tf.device(here):
        return tf.Variable(
            old.numpy(),
            trainable=old.trainable,
            name=name,
            dtype=old.dtype,
            # A tf.function that is being traced would count it as a variable of its own.
            experimental_enable_variable_lifting=False,
        )
