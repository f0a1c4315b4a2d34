"""LSTM and GRU with the arguments of Graphcore's layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from ipufeed.checks import as_count, as_number, as_partials_dtype, check_flags
from ipufeed.keras.layers.basic import one_seed
from ipufeed.keras.layers.in_use import keras
from ipufeed.no_effect import no_effect, without_options
from ipufeed.tf_patches.frozen_keras import is_legacy
from ipufeed.tf_types import Config, Nest, Tensor

Options = dict[str, Any] | None
RECURRENT = ("tanh", "softmax", "sigmoid", "hard_sigmoid")
ACTIVATIONS = (*RECURRENT, "relu")


class _Popnn:
    """The common part of both layers; the first base, before Keras's layer."""

    def __init__(
        self,
        units: int,
        activation: object = "tanh",
        recurrent_activation: object = "sigmoid",
        partials_dtype: object = None,
        time_major: bool = False,
        dropout_seed: Sequence[int] | None = None,
        options: Options = None,
        options_bwd: Options = None,
        **kwargs: object,
    ) -> None:
        check_flags(time_major=time_major)
        for name in ("dropout", "recurrent_dropout"):
            as_number(name, kwargs.get(name, 0.0))
        without_options(type(self).__name__, options=options, options_bwd=options_bwd)
        for name, value, known in (
            ("activation", activation, ACTIVATIONS),
            ("recurrent_activation", recurrent_activation, RECURRENT),
        ):
            if _name_of(value) not in known:
                raise ValueError(
                    f"`{name}` must be one of {', '.join(known)}, got {value!r}."
                )
        if partials_dtype is not None:
            as_partials_dtype(partials_dtype, " or None")
            no_effect(
                f"{type(self).__name__}(partials_dtype=)", "XLA chooses what it sums in"
            )
        kwargs.pop("implementation", None)  # Graphcore's ignores it, too
        if dropout_seed is not None:
            if is_legacy():  # its dropout draws from the device's generator
                no_effect(f"{type(self).__name__}(dropout_seed=)", "see reset_ipu_seed")
            else:
                kwargs["seed"] = one_seed(dropout_seed)
        super().__init__(  # type: ignore[call-arg]
            as_count("units", units),
            activation=activation,
            recurrent_activation=recurrent_activation,
            **kwargs,
        )
        # Not `time_major`: tf_keras's layers have an attribute of this name.
        self.has_time_first = time_major
        self.partials_dtype = partials_dtype
        self.dropout_seed = dropout_seed
        self.options = options
        self.options_bwd = options_bwd

    def call(
        self,
        sequences: Nest,
        initial_state: Nest = None,
        mask: Nest = None,
        training: bool = False,
    ) -> Nest:
        """See Keras's layer; with time_major inputs and outputs are [time, batch, ...]."""
        if self.has_time_first:
            sequences = _swapped(sequences)
            mask = None if mask is None else _swapped(mask)
        results = super().call(  # type: ignore[misc]
            sequences, initial_state=initial_state, mask=mask, training=training
        )
        layer: Any = self  # the attributes are those of Keras's class, the second base
        if not self.has_time_first or not layer.return_sequences:
            return results
        if not layer.return_state:
            return _swapped(results)
        return [_swapped(results[0]), *results[1:]]

    def get_config(self) -> Config:
        """See keras.layers.Layer."""
        config = super().get_config()  # type: ignore[misc]
        if self.dropout_seed is not None:
            config.pop("seed", None)  # made of it
        return {
            **config,
            "time_major": self.has_time_first,
            "partials_dtype": self.partials_dtype,
            "dropout_seed": self.dropout_seed,
            # Plain dicts: Keras has wrapped those that are attributes.
            "options": self.options and dict(self.options),
            "options_bwd": self.options_bwd and dict(self.options_bwd),
        }


def _swapped(x: Tensor) -> Tensor:
    """Exchanges the first two axes of a tensor."""
    return tf.transpose(x, [1, 0, *range(2, len(x.shape))])


def _name_of(activation: object) -> object:
    return getattr(activation, "__name__", activation)


@keras.saving.register_keras_serializable("ipufeed")
class LSTM(_Popnn, keras.layers.LSTM):  # type: ignore[misc]
    """keras.layers.LSTM, with Graphcore's options.

    Args:
        units: Elements of its outputs.
        activation: tanh, relu, softmax, sigmoid or hard_sigmoid.
        recurrent_activation: The same without relu.
        partials_dtype: No effect, with a warning.
        time_major: Whether inputs and sequences of outputs are [time, batch, features].
        dropout_seed: A pair of ints.
        options: A dict; no effect, with a warning.
        options_bwd: A dict; no effect, with a warning.
        **kwargs: See keras.layers.LSTM.

    Raises:
        TypeError: `units` is not an int, `partials_dtype` not a dtype, a rate of dropout
            not a number, or options not a dict.
        ValueError: The activation is another one, or `units` is less than 1.
    """


@keras.saving.register_keras_serializable("ipufeed")
class GRU(_Popnn, keras.layers.GRU):  # type: ignore[misc]
    """keras.layers.GRU, with Graphcore's options.

    Args:
        units: Elements of its outputs.
        activation: tanh, relu, softmax, sigmoid or hard_sigmoid.
        recurrent_activation: The same without relu.
        partials_dtype: No effect, with a warning.
        time_major: Whether inputs and sequences of outputs are [time, batch, features].
        dropout_seed: A pair of ints.
        options: A dict; no effect, with a warning.
        options_bwd: A dict; no effect, with a warning.
        **kwargs: See keras.layers.GRU.

    Raises:
        TypeError: `units` is not an int, `partials_dtype` not a dtype, a rate of dropout
            not a number, or options not a dict.
        ValueError: The activation is another one, or `units` is less than 1.
    """
