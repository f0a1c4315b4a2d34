"""Layers with the results of Keras's layers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import tensorflow as tf

from ipufeed.checks import as_count, as_int, as_number, check_flags, is_int
from ipufeed.keras.layers.in_use import keras
from ipufeed.no_effect import no_effect
from ipufeed.tf_types import Config, Nest, Shape

Seed = int | Sequence[int] | None


@keras.saving.register_keras_serializable("ipufeed")
class Dropout(keras.layers.Dropout):  # type: ignore[misc]
    """Sets a fraction of its inputs to zero when training, and scales the others.

    Args:
        rate: The fraction, in [0, 1).
        noise_shape: Shape of the mask, whose dimensions of size 1 are broadcast.
        seed: An int, or a pair of ints as Graphcore's. Default: Keras's.
        **kwargs: See keras.layers.Layer.

    Raises:
        TypeError: The rate is not a number, or the seed not of ints.
        ValueError: The rate is not in [0, 1], or the seed has another length.
    """

    def __init__(
        self,
        rate: float,
        noise_shape: Shape = None,
        seed: Seed = None,
        **kwargs: object,
    ) -> None:
        self._given_seed = seed
        rate = as_number("rate", rate)
        super().__init__(rate, noise_shape=noise_shape, seed=one_seed(seed), **kwargs)

    def get_config(self) -> Config:
        """See keras.layers.Layer."""
        return {**super().get_config(), "seed": self._given_seed}


def one_seed(seed: Seed) -> int | None:
    """Returns Keras's seed: None or an int as given, and 31 bits of a pair.

    Raises:
        TypeError: The seed is neither None, an int nor a list of ints.
        ValueError: The seed is a list that is not a pair.
    """
    if seed is None or is_int(seed):
        return seed
    if not isinstance(seed, Iterable) or isinstance(seed, (str, bytes)):
        raise TypeError(
            f"`seed` must be an int or a pair of ints, got {type(seed).__name__} {seed!r}."
        )
    numbers = [as_int("seed", each) for each in seed]
    if len(numbers) != 2:
        raise ValueError(f"`seed` must be an int or a pair of ints, got {seed!r}.")
    return (numbers[0] * 1_000_003 + numbers[1]) % 2**31


@keras.saving.register_keras_serializable("ipufeed")
class Embedding(keras.layers.Embedding):  # type: ignore[misc]
    """Looks up rows of a table: [batch, length] -> [batch, length, output_dim].

    Args:
        input_dim: Rows of the table.
        output_dim: Elements of a row.
        embeddings_initializer: The initializer of the table. Default: "uniform".
        embeddings_regularizer: Must be None.
        activity_regularizer: Must be None.
        embeddings_constraint: Must be None.
        mask_zero: Must be False.
        input_length: Must be None.
        serialization_factor: A divisor of `input_dim`; no effect, with a warning: parts
            save no memory here.
        **kwargs: See keras.layers.Layer.

    Raises:
        NotImplementedError: An argument is set that Graphcore's layer does not support.
        TypeError: The factor is not an int.
        ValueError: The factor is less than 1, or does not divide `input_dim`; when the
            layer is called: inputs have another rank.
    """

    def __init__(
        self,
        input_dim: int,
        output_dim: int,
        embeddings_initializer: object = "uniform",
        embeddings_regularizer: object = None,
        activity_regularizer: object = None,
        embeddings_constraint: object = None,
        mask_zero: bool = False,
        input_length: object = None,
        serialization_factor: int = 1,
        **kwargs: object,
    ) -> None:
        check_flags(mask_zero=mask_zero)
        for name, value in (
            ("embeddings_regularizer", embeddings_regularizer),
            ("activity_regularizer", activity_regularizer),
            ("embeddings_constraint", embeddings_constraint),
            ("mask_zero", mask_zero),
            ("input_length", input_length),
        ):
            if value:
                raise NotImplementedError(
                    f"ipu.keras.Embedding does not support __init__ argument {name}. It is "
                    "included for API consistency with keras.Embedding."
                )
        serialization_factor = as_count("serialization_factor", serialization_factor)
        if is_int(input_dim) and input_dim % serialization_factor:
            raise ValueError(
                f"The serialization_factor ({serialization_factor}) must divide the size "
                f"of the 0th dimension of params, which is `input_dim` ({input_dim})."
            )
        if serialization_factor != 1:
            no_effect(
                "Embedding(serialization_factor=)", "the table is in the host's memory"
            )
        self.serialization_factor = serialization_factor
        super().__init__(
            input_dim,
            output_dim,
            embeddings_initializer=embeddings_initializer,
            **kwargs,
        )

    def call(self, inputs: Nest) -> Nest:
        """Returns the rows."""
        if len(inputs.shape) != 2:
            raise ValueError(
                "The input shape should be a tensor of shape [batch, input_length], got "
                f"{tuple(inputs.shape)}."
            )
        return super().call(inputs)

    def get_config(self) -> Config:
        """See keras.layers.Layer."""
        config = super().get_config()
        for name in ("weights", "lora_rank", "lora_alpha", "quantization_config"):
            config.pop(name, None)
        return {**config, "serialization_factor": self.serialization_factor}


DIMENSIONS = ("input_columns", "input_rows_kernel_columns", "kernel_rows")


@keras.saving.register_keras_serializable("ipufeed")
class SerialDense(keras.layers.Dense):  # type: ignore[misc]
    """A dense layer; the serialization of the product has no effect.

    Args:
        units: Elements of its outputs.
        serialization_factor: Parts of the product, at least 1; more than 1 warns.
        serialization_dimension: "input_columns", "input_rows_kernel_columns" or
            "kernel_rows".
        activation: The activation of the outputs. Default: none.
        **kwargs: See keras.layers.Dense.

    Raises:
        ValueError: The factor or the dimension is invalid; when the layer is called: the
            factor does not divide the size of the dimension.
    """

    def __init__(
        self,
        units: int,
        serialization_factor: int,
        serialization_dimension: str,
        activation: object = None,
        **kwargs: object,
    ) -> None:
        if not is_int(serialization_factor) or serialization_factor < 1:
            raise ValueError(
                "`serialization_factor` has to be at least 1, but was "
                f"{serialization_factor}."
            )
        if serialization_dimension not in DIMENSIONS:
            raise ValueError(
                f"`serialization_dimension` must be one of {', '.join(DIMENSIONS)}, got "
                f"{serialization_dimension!r}."
            )
        if serialization_factor > 1:
            no_effect(
                "SerialDense(serialization_factor=)", "the product needs no less memory"
            )
        self.serialization_factor = serialization_factor
        self.serialization_dimension = serialization_dimension
        super().__init__(units, activation=activation, **kwargs)

    def call(self, inputs: Nest) -> Nest:
        """Returns the product, with bias and activation."""
        *batch, columns = inputs.shape
        size = {
            "input_columns": None if None in batch else math.prod(batch),
            "input_rows_kernel_columns": columns,
            "kernel_rows": self.units,
        }[self.serialization_dimension]
        if size is not None and size % self.serialization_factor:
            raise ValueError(
                f"`serialization_factor` ({self.serialization_factor}) must divide the "
                f"size of {self.serialization_dimension} ({size}): the inputs are "
                f"{tuple(inputs.shape)}, `units` is {self.units}."
            )
        return super().call(inputs)

    def get_config(self) -> Config:
        """See keras.layers.Layer."""
        return {
            **super().get_config(),
            "serialization_factor": self.serialization_factor,
            "serialization_dimension": self.serialization_dimension,
        }


@keras.saving.register_keras_serializable("ipufeed")
class RecomputationCheckpoint(keras.layers.Layer):  # type: ignore[misc]
    """Returns its inputs, of any nest: TensorFlow decides on recomputation here."""

    def call(self, inputs: Nest) -> Nest:
        """Returns the inputs."""
        return tf.nest.map_structure(tf.identity, inputs)


@keras.saving.register_keras_serializable("ipufeed")
class AssumeEqualAcrossReplicas(keras.layers.Layer):  # type: ignore[misc]
    """Returns its inputs: the assertion that replicas agree is not used here.

    Args:
        inplace: Whether an IPU would omit a copy; no effect, with a warning.
        **kwargs: See keras.layers.Layer.
    """

    def __init__(self, inplace: bool = False, **kwargs: object) -> None:
        check_flags(inplace=inplace)
        if inplace:
            no_effect("AssumeEqualAcrossReplicas(inplace=)", "values are never changed")
        self.inplace = inplace
        super().__init__(**kwargs)

    def call(self, inputs: Nest) -> Nest:
        """Returns the inputs."""
        return tf.nest.map_structure(tf.identity, inputs)

    def get_config(self) -> Config:
        """See keras.layers.Layer."""
        return {**super().get_config(), "inplace": self.inplace}
