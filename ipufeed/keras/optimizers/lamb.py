"""LAMB: Adam whose steps are as large as the weights of a layer allow."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

import tensorflow as tf

from ipufeed.keras.layers.in_use import keras
from ipufeed.keras.optimizers.with_extras import Adam, Moments, Transformer
from ipufeed.tf_types import Tensor, Variable

# Of Adam's config, but not of this one.
_OF_ADAM = ("amsgrad", "adaptive_epsilon")


@keras.utils.register_keras_serializable("ipufeed")
class LAMBIpuOptimizer(Moments, Adam):  # type: ignore[misc]
    """LAMB, with the arguments of Graphcore's addon.

    A weight w moves by -rate |w| / |u| u, where u is Adam's step plus the decayed weight.

    Args:
        learning_rate: A number or a schedule. Default: 0.001.
        beta_1: Decay of the mean. Default: 0.9.
        beta_2: Decay of the mean square. Default: 0.999.
        epsilon: Added to the root. Default: 1e-6.
        weight_decay_rate: The fraction of each weight that is added to its step, for all
            that are not excluded. Default: 0.
        exclude_from_weight_decay: Regular expressions; weights in whose path or name one is
            found have no decay.
        exclude_from_layer_adaptation: Likewise; such weights move by Adam's step, with the
            factor 1 for |w| / |u|. Default: as `exclude_from_weight_decay`.
        name: Its name.
        gradient_transformers: See AdamIpuOptimizer.
        debiasing: See AdamIpuOptimizer.
        weight_norm_clip: The largest |w| that is used. Default: None, no bound.
        **kwargs: See keras.optimizers.Adam; see AdamIpuOptimizer.

    Raises:
        TypeError: `epsilon`, `weight_decay_rate` or `weight_norm_clip` is not a number,
            `debiasing` not a bool, or one of the three dtypes not a dtype.

    Source: You et al., "Large Batch Optimization for Deep Learning: Training BERT in 76
    minutes", 2019, and the class of this name of ipu_tensorflow_addons, whose source is not
    public.
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
        debiasing: bool = True,
        weight_norm_clip: float | None = None,
        **kwargs: object,
    ) -> None:
        numbers: dict[str, object] = {
            "weight_decay_rate": weight_decay_rate,
            "weight_norm_clip": weight_norm_clip,
        }
        kwargs = self._checked(kwargs, epsilon, {"debiasing": debiasing}, numbers)
        super().__init__(learning_rate, beta_1, beta_2, epsilon, name=name, **kwargs)
        self._transformers = list(gradient_transformers or ())
        self.debiasing = debiasing
        self.weight_decay_rate = weight_decay_rate
        self.weight_norm_clip = weight_norm_clip
        self._undecayed = list(exclude_from_weight_decay or ())
        self._unscaled = list(exclude_from_layer_adaptation or self._undecayed)

    def update_step(
        self, gradient: Tensor, variable: Variable, *learning_rate: Tensor
    ) -> None:
        """Updates one weight."""
        rate = tf.cast(*(learning_rate or (self.learning_rate,)), variable.dtype)
        gradient = tf.cast(tf.convert_to_tensor(gradient), variable.dtype)
        mean, root = self._averages(gradient, variable)
        weight = tf.convert_to_tensor(variable)
        step = mean / (root + self.epsilon)
        if self.weight_decay_rate and not self._is_one_of(self._undecayed, variable):
            step += self.weight_decay_rate * weight
        if not self._is_one_of(self._unscaled, variable):
            size, length = tf.norm(weight), tf.norm(step)
            if self.weight_norm_clip is not None:
                size = tf.minimum(size, tf.cast(self.weight_norm_clip, size.dtype))
            both = (size > 0) & (length > 0)
            rate = rate * tf.where(both, tf.math.divide_no_nan(size, length), 1)
        variable.assign_sub(rate * step)

    def _is_one_of(self, patterns: list[str], variable: Variable) -> bool:
        if not patterns:
            return False
        known = getattr(self, "_trainable_variables", None)
        found = variable if known is None else known[self._place(variable)]
        names = (getattr(found, "path", ""), found.name)
        return any(re.search(each, name) for each in patterns for name in names)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments, without the transformers, which have no config."""
        config = super().get_config()
        return {
            **{name: config[name] for name in config if name not in _OF_ADAM},
            "weight_decay_rate": self.weight_decay_rate,
            "exclude_from_weight_decay": self._undecayed,
            "exclude_from_layer_adaptation": self._unscaled,
            "debiasing": self.debiasing,
            "weight_norm_clip": self.weight_norm_clip,
        }
