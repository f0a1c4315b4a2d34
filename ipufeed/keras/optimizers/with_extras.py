"""SGD and Adam with the additional arguments of Graphcore's addons."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import tensorflow as tf

from ipufeed.keras.layers.in_use import keras
from ipufeed.no_effect import no_effect
from ipufeed.parallel.optimizers.arguments import check_adaptive
from ipufeed.tf_patches.frozen_keras import is_legacy
from ipufeed.tf_types import GradAndVar, Tensor, Variable

Adam: Any = keras.optimizers.Adam

DTYPES = ("m_dtype", "v_dtype", "vhat_dtype", "momentum_accum_dtype")
PRECISIONS = "optimizer_compute_precisions"

Transformer = Callable[[list[GradAndVar]], Iterable[GradAndVar]]


class Extras:
    """The common part of all; the first base, before Keras's optimizer."""

    _transformers: list[Transformer]

    def _checked(
        self,
        kwargs: dict[str, object],
        epsilon: object = None,
        flags: dict[str, object] | None = None,
        numbers: dict[str, object] | None = None,
    ) -> dict[str, object]:
        """Warns of arguments without an effect; returns the others, for Keras."""
        dtypes = {name: kwargs[name] for name in DTYPES if name in kwargs}
        check_adaptive(epsilon, flags, numbers, dtypes)
        if kwargs.get(PRECISIONS) == (tf.float32, tf.float32):  # as without it
            del kwargs[PRECISIONS]
        for name in (*DTYPES, PRECISIONS):
            if kwargs.pop(name, None) is not None:
                no_effect(
                    f"{type(self).__name__}({name}=)",
                    "Keras keeps each state in the dtype of its weight",
                )
        return kwargs

    def apply_gradients(
        self, grads_and_vars: Iterable[GradAndVar], *args: object, **kwargs: object
    ) -> Any:
        """Updates the weights with the transformed gradients."""
        pairs = list(grads_and_vars)
        for transform in self._transformers:
            pairs = list(transform(pairs))
        return super().apply_gradients(pairs, *args, **kwargs)  # type: ignore[misc]


class Moments(Extras):
    """The common part of those with Adam's averages, of either Keras."""

    beta_1: float
    beta_2: float
    epsilon: float
    debiasing: bool

    def _place(self, variable: Variable) -> int:
        """Returns a weight's place among the optimizer's."""
        this: Any = self
        if is_legacy():
            return int(this._index_dict[this._var_key(variable)])
        return int(this._get_variable_index(variable))

    def _averages(self, gradient: Tensor, variable: Variable) -> tuple[Tensor, Tensor]:
        """Updates a weight's averages; returns the mean and the root of the mean square.

        Both are divided by what the first steps lack, if `debiasing`.
        """
        this: Any = self
        place, dtype = self._place(variable), variable.dtype
        found = []
        for averages, decay, value in (
            (this._momentums, self.beta_1, gradient),
            (this._velocities, self.beta_2, tf.square(gradient)),
        ):
            average = averages[place]
            old = tf.convert_to_tensor(average)
            new = old + (value - old) * (1.0 - decay)
            average.assign(new)
            if self.debiasing:
                step = tf.cast(this.iterations + 1, dtype)
                new /= 1.0 - tf.pow(tf.cast(decay, dtype), step)
            found.append(new)
        mean, square = found
        return mean, tf.sqrt(square)


@keras.utils.register_keras_serializable("ipufeed")
class SGDIpuOptimizer(Extras, keras.optimizers.SGD):  # type: ignore[misc]
    """keras.optimizers.SGD, with the arguments of Graphcore's addon.

    Args:
        learning_rate: A number or a schedule. Default: 0.01.
        momentum: Decay of the sum of the gradients. Default: 0.
        nesterov: Whether the momentum is Nesterov's. Default: no.
        name: Its name.
        gradient_transformers: See AdamIpuOptimizer.
        **kwargs: See keras.optimizers.SGD. `momentum_accum_dtype` and
            `optimizer_compute_precisions` have no effect, with a warning.

    Raises:
        TypeError: `momentum_accum_dtype` is not a dtype.

    Source: the class of this name of ipu_tensorflow_addons, whose source is not public.
    """

    def __init__(
        self,
        learning_rate: object = 0.01,
        momentum: float = 0.0,
        nesterov: bool = False,
        name: str = "SGD",
        gradient_transformers: Iterable[Transformer] | None = None,
        **kwargs: object,
    ) -> None:
        kwargs = self._checked(kwargs)
        super().__init__(learning_rate, momentum, nesterov, name=name, **kwargs)
        self._transformers = list(gradient_transformers or ())


@keras.utils.register_keras_serializable("ipufeed")
class AdamIpuOptimizer(Moments, Adam):  # type: ignore[misc]
    """keras.optimizers.Adam, with the arguments of Graphcore's addon.

    Args:
        learning_rate: A number or a schedule. Default: 0.001.
        beta_1: Decay of the mean. Default: 0.9.
        beta_2: Decay of the mean square. Default: 0.999.
        epsilon: Added to the root. Default: 1e-7.
        amsgrad: See keras.optimizers.Adam.
        name: Its name.
        gradient_transformers: Functions from a list of (gradient, variable) to such a list;
            `apply_gradients` calls them in order.
        debiasing: Whether the first steps are divided by what their averages lack, as
            Adam's are. Default: yes.
        **kwargs: See keras.optimizers.Adam. `m_dtype`, `v_dtype`, `vhat_dtype` and
            `optimizer_compute_precisions` have no effect, with a warning.

    Raises:
        TypeError: `epsilon` is not a number, `amsgrad` or `debiasing` not a bool, or one of
            the three dtypes not a dtype.
        ValueError: `amsgrad` without `debiasing`.

    Source: the class of this name of ipu_tensorflow_addons, whose source is not public.
    """

    def __init__(
        self,
        learning_rate: object = 0.001,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-7,
        amsgrad: bool = False,
        name: str = "Adam",
        gradient_transformers: Iterable[Transformer] | None = None,
        debiasing: bool = True,
        **kwargs: object,
    ) -> None:
        flags: dict[str, object] = {"amsgrad": amsgrad, "debiasing": debiasing}
        kwargs = self._checked(kwargs, epsilon, flags)
        if amsgrad and not debiasing:
            raise ValueError(
                "AdamIpuOptimizer has either `amsgrad` or debiasing=False, got both."
            )
        # By name: of tf_keras `adaptive_epsilon` stands before `amsgrad`.
        super().__init__(
            learning_rate,
            beta_1,
            beta_2,
            epsilon,
            amsgrad=amsgrad,
            name=name,
            **kwargs,
        )
        self._transformers = list(gradient_transformers or ())
        self.debiasing = debiasing

    def update_step(
        self, gradient: Tensor, variable: Variable, *learning_rate: Tensor
    ) -> None:
        """Updates one weight, by Keras's rule or without debiasing."""
        if self.debiasing:
            super().update_step(gradient, variable, *learning_rate)
            return
        rate = tf.cast(*(learning_rate or (self.learning_rate,)), variable.dtype)
        gradient = tf.cast(tf.convert_to_tensor(gradient), variable.dtype)
        mean, root = self._averages(gradient, variable)
        variable.assign_sub(rate * mean / (root + self.epsilon))

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments, without the transformers, which have no config."""
        return {**super().get_config(), "debiasing": self.debiasing}
