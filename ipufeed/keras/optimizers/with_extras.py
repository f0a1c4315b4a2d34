"""Adam and LAMB with the additional arguments of Graphcore's addons."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ipufeed.keras.layers.in_use import keras
from ipufeed.no_effect import no_effect
from ipufeed.parallel.optimizers.arguments import check_adaptive
from ipufeed.tf_patches.frozen_keras import is_legacy
from ipufeed.tf_types import GradAndVar

Adam: Any = keras.optimizers.Adam
# tf_keras has no LAMB; the error is raised when one is made.
Lamb: Any = keras.optimizers.Adam if is_legacy() else keras.optimizers.Lamb

DTYPES = ("m_dtype", "v_dtype", "vhat_dtype")
IGNORED = (*DTYPES, "optimizer_compute_precisions")

Transformer = Callable[[list[GradAndVar]], Iterable[GradAndVar]]


class _Extras:
    """The common part of both; the first base, before Keras's optimizer."""

    _transformers: list[Transformer]

    def _checked(
        self, kwargs: dict[str, object], epsilon: object, amsgrad: object = False
    ) -> dict[str, object]:
        """Warns of arguments without an effect; returns the others, for Keras."""
        dtypes = {name: kwargs[name] for name in DTYPES if name in kwargs}
        check_adaptive(epsilon, amsgrad, **dtypes)
        for name in IGNORED:
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


@keras.utils.register_keras_serializable("ipufeed")
class AdamIpuOptimizer(_Extras, Adam):  # type: ignore[misc]
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
        **kwargs: See keras.optimizers.Adam. `m_dtype`, `v_dtype`, `vhat_dtype` and
            `optimizer_compute_precisions` have no effect, with a warning.

    Raises:
        TypeError: `epsilon` is not a number, `amsgrad` not a bool, or one of the three
            dtypes not a dtype.

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
        **kwargs: object,
    ) -> None:
        kwargs = self._checked(kwargs, epsilon, amsgrad)
        super().__init__(
            learning_rate, beta_1, beta_2, epsilon, amsgrad, name=name, **kwargs
        )
        self._transformers = list(gradient_transformers or ())


@keras.utils.register_keras_serializable("ipufeed")
class LAMBIpuOptimizer(_Extras, Lamb):  # type: ignore[misc]
    """keras.optimizers.Lamb, with the arguments of Graphcore's addon.

    Args:
        learning_rate: A number or a schedule. Default: 0.001.
        beta_1: Decay of the mean. Default: 0.9.
        beta_2: Decay of the mean square. Default: 0.999.
        epsilon: Added to the root. Default: 1e-6.
        weight_decay_rate: The decay of all weights that are not excluded. Default: 0.
        exclude_from_weight_decay: Patterns of names of weights.
        exclude_from_layer_adaptation: Must be None.
        name: Its name.
        gradient_transformers: See AdamIpuOptimizer.
        **kwargs: See keras.optimizers.Lamb; see AdamIpuOptimizer.

    Raises:
        TypeError: `epsilon` is not a number, or one of the three dtypes not a dtype.
        NotImplementedError: Under tf_keras, which has no LAMB; layers are excluded from the
            adaptation.

    Source: the class of this name of ipu_tensorflow_addons, whose source is not public.
    """

    def __init__(
        self,
        learning_rate: object = 0.001,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-6,
        weight_decay_rate: float = 0.0,
        exclude_from_weight_decay: Sequence[str] | None = None,
        exclude_from_layer_adaptation: Sequence[str] | None = None,
        name: str = "LAMB",
        gradient_transformers: Iterable[Transformer] | None = None,
        **kwargs: object,
    ) -> None:
        if is_legacy():
            raise NotImplementedError(
                "LAMBIpuOptimizer needs Keras 3: tf_keras has no LAMB. Use "
                "AdamIpuOptimizer, or unset TF_USE_LEGACY_KERAS."
            )
        if exclude_from_layer_adaptation:
            raise NotImplementedError(
                "LAMBIpuOptimizer(exclude_from_layer_adaptation=) is not supported: "
                "keras.optimizers.Lamb adapts all layers. Leave it out."
            )
        kwargs = self._checked(kwargs, epsilon)
        if weight_decay_rate:
            kwargs.setdefault("weight_decay", weight_decay_rate)
        super().__init__(learning_rate, beta_1, beta_2, epsilon, name=name, **kwargs)
        self._transformers = list(gradient_transformers or ())
        if exclude_from_weight_decay:
            self.exclude_from_weight_decay(var_names=list(exclude_from_weight_decay))
