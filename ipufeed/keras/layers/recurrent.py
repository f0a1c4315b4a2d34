"""LSTM and GRU with the arguments of the original's."""

from __future__ import annotations

from typing import Any

import keras

from ipufeed.no_effect import no_effect

RECURRENT = ("tanh", "softmax", "sigmoid", "hard_sigmoid")
ACTIVATIONS = (*RECURRENT, "relu")


class _Popnn:
    """What both layers have in common; stands before Keras's layer in a class."""

    def __init__(
        self,
        units: int,
        activation: Any = "tanh",
        recurrent_activation: Any = "sigmoid",
        partials_dtype: Any = None,
        time_major: bool = False,
        dropout_seed: Any = None,
        **kwargs: Any,
    ) -> None:
        for name, value, known in (
            ("activation", activation, ACTIVATIONS),
            ("recurrent_activation", recurrent_activation, RECURRENT),
        ):
            if _name_of(value) not in known:
                raise ValueError(
                    f"`{name}` must be one of {', '.join(known)}, got {value!r}."
                )
        if partials_dtype is not None:
            no_effect(
                f"{type(self).__name__}(partials_dtype=)", "XLA chooses what it sums in"
            )
        kwargs.pop("implementation", None)  # the original ignores it, too
        if dropout_seed is not None:
            kwargs["seed"] = sum(map(int, dropout_seed)) % 2**31
        self.time_major = time_major
        super().__init__(  # type: ignore[call-arg]
            units,
            activation=activation,
            recurrent_activation=recurrent_activation,
            **kwargs,
        )

    def call(
        self,
        sequences: Any,
        initial_state: Any = None,
        mask: Any = None,
        training: bool = False,
    ) -> Any:
        """See Keras's layer; with time_major inputs and outputs are [time, batch, ...]."""
        if self.time_major:
            sequences = keras.ops.swapaxes(sequences, 0, 1)
            mask = None if mask is None else keras.ops.swapaxes(mask, 0, 1)
        results = super().call(  # type: ignore[misc]
            sequences, initial_state=initial_state, mask=mask, training=training
        )
        own: Any = self
        if not self.time_major or not own.return_sequences:
            return results
        if not own.return_state:
            return keras.ops.swapaxes(results, 0, 1)
        return [keras.ops.swapaxes(results[0], 0, 1), *results[1:]]

    def get_config(self) -> dict[str, Any]:
        """See keras.layers.Layer."""
        config = super().get_config()  # type: ignore[misc]
        return {**config, "time_major": self.time_major}


def _name_of(activation: Any) -> Any:
    return getattr(activation, "__name__", activation)


@keras.saving.register_keras_serializable("ipufeed")
class LSTM(_Popnn, keras.layers.LSTM):  # type: ignore[misc]
    """keras.layers.LSTM, with the original's options.

    Args:
        units: Elements of its outputs.
        activation: tanh, relu, softmax, sigmoid or hard_sigmoid.
        recurrent_activation: The same without relu.
        partials_dtype: No effect, with a warning.
        time_major: Whether inputs and sequences of outputs are [time, batch, features].
        dropout_seed: A pair of ints.
        **kwargs: See keras.layers.LSTM.

    Raises:
        ValueError: Another activation.
    """


@keras.saving.register_keras_serializable("ipufeed")
class GRU(_Popnn, keras.layers.GRU):  # type: ignore[misc]
    """keras.layers.GRU, with the original's options.

    Args:
        units: Elements of its outputs.
        activation: tanh, relu, softmax, sigmoid or hard_sigmoid.
        recurrent_activation: The same without relu.
        partials_dtype: No effect, with a warning.
        time_major: Whether inputs and sequences of outputs are [time, batch, features].
        dropout_seed: A pair of ints.
        **kwargs: See keras.layers.GRU.

    Raises:
        ValueError: Another activation.
    """
