"""Normalisation over groups of channels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from ipufeed.checks import as_epsilon, check_flags, is_int
from ipufeed.keras.layers.in_use import keras
from ipufeed.tf_types import Config, Nest, Shape, Tensor


def _shape(x: Tensor) -> list[int | Tensor]:
    """Returns the sizes of a tensor: ints, or tensors for unknown ones."""
    sizes = tf.shape(x)
    known = tf.TensorShape(x.shape).as_list()
    return [sizes[i] if size is None else size for i, size in enumerate(known)]


def _moved(x: Tensor, source: int, target: int) -> Tensor:
    """Moves an axis of a tensor to another position."""
    order = list(range(len(x.shape)))
    order.insert(target % len(order), order.pop(source))
    return tf.transpose(x, order)


@keras.saving.register_keras_serializable("ipufeed")
class GroupNormalization(keras.layers.Layer):  # type: ignore[misc]
    """Normalises the channels of each group, of each sample, to mean 0 and variance 1.

    Args:
        groups: Number of groups, a divisor of the number of channels.
        channels_axis: The axis of the channels: -1 or 1.
        center: Whether a learned beta is added.
        scale: Whether the result is multiplied by a learned gamma.
        epsilon: Added to the variance.
        beta_initializer: Default (None): zeros.
        gamma_initializer: Default (None): ones.
        strided_channel_grouping: True: channel c is in group c % groups. False: groups are
            consecutive channels, as in Keras.
        **kwargs: See keras.layers.Layer.

    Raises:
        TypeError: Epsilon is not a number.
        ValueError: The axis is not 1 or -1, or epsilon is negative or not finite; when it
            is built: the groups do not divide the channels.
    """

    def __init__(
        self,
        groups: int = 2,
        channels_axis: int = -1,
        center: bool = True,
        scale: bool = True,
        epsilon: float = 1e-3,
        beta_initializer: object = None,
        gamma_initializer: object = None,
        strided_channel_grouping: bool = True,
        **kwargs: object,
    ) -> None:
        check_flags(
            center=center,
            scale=scale,
            strided_channel_grouping=strided_channel_grouping,
        )
        super().__init__(**kwargs)
        if not is_int(channels_axis) or channels_axis not in (1, -1):
            raise ValueError(f"`channels_axis` must be 1 or -1, got {channels_axis!r}.")
        self.groups = groups
        self.channels_axis = channels_axis
        self.center = center
        self.scale = scale
        self.epsilon = as_epsilon(epsilon)
        self.beta_initializer = keras.initializers.get(beta_initializer or "zeros")
        self.gamma_initializer = keras.initializers.get(gamma_initializer or "ones")
        self.strided_channel_grouping = strided_channel_grouping

    def _group_count(self, channels: int) -> int:
        """Checks and returns the number of groups."""
        if not is_int(self.groups) or not 1 <= self.groups <= channels:
            raise ValueError(f"Invalid groups {self.groups} for {channels} channels.")
        if channels % self.groups:
            raise ValueError(
                f"{channels} channels is not commensurate with {self.groups} groups."
            )
        return self.groups

    def build(self, input_shape: Shape) -> None:
        """Creates gamma and beta, [channels], in Keras's order."""
        channels = input_shape[self.channels_axis]
        self._count = self._group_count(channels)
        if self.scale:
            self.gamma = self.add_weight(
                shape=(channels,), initializer=self.gamma_initializer, name="gamma"
            )
        if self.center:
            self.beta = self.add_weight(
                shape=(channels,), initializer=self.beta_initializer, name="beta"
            )

    def call(self, inputs: Nest) -> Nest:
        """Normalises the inputs."""
        last = self.channels_axis == -1
        x = inputs if last else _moved(inputs, 1, -1)
        shape = _shape(x)
        channels = shape[-1]
        size = channels // self._count
        parts = (size, self._count)
        if not self.strided_channel_grouping:
            parts = (self._count, size)
        grouped = tf.reshape(tf.cast(x, tf.float32), (*shape[:-1], *parts))
        group_axis = len(shape) - (not self.strided_channel_grouping)
        axes = [axis for axis in range(1, len(shape) + 1) if axis != group_axis]
        mean = tf.reduce_mean(grouped, axes, keepdims=True)
        variance = tf.reduce_mean(tf.square(grouped - mean), axes, keepdims=True)
        normal = (grouped - mean) * tf.math.rsqrt(variance + self.epsilon)
        x = tf.cast(tf.reshape(normal, (*shape[:-1], channels)), inputs.dtype)
        if self.scale:
            x = x * tf.cast(self.gamma, x.dtype)
        if self.center:
            x = x + tf.cast(self.beta, x.dtype)
        return x if last else _moved(x, -1, 1)

    def get_config(self) -> Config:
        """See keras.layers.Layer."""
        return {
            **super().get_config(),
            "groups": self.groups,
            "channels_axis": self.channels_axis,
            "center": self.center,
            "scale": self.scale,
            "epsilon": self.epsilon,
            "beta_initializer": keras.initializers.serialize(self.beta_initializer),
            "gamma_initializer": keras.initializers.serialize(self.gamma_initializer),
            "strided_channel_grouping": self.strided_channel_grouping,
        }


@keras.saving.register_keras_serializable("ipufeed")
class InstanceNormalization(GroupNormalization):
    """Normalises each channel of each sample: a group for each channel.

    Args:
        **kwargs: See GroupNormalization, but for the groups.
    """

    def __init__(self, **kwargs: Any) -> None:
        kwargs.pop("groups", None)
        super().__init__(groups=0, **kwargs)

    def _group_count(self, channels: int) -> int:
        return channels


@keras.saving.register_keras_serializable("ipufeed")
class LayerNormalization(keras.layers.LayerNormalization):  # type: ignore[misc]
    """keras.layers.LayerNormalization, with Graphcore's default epsilon of 0.001.

    Args:
        axis: The axes over which it normalises.
        epsilon: Added to the variance.
        **kwargs: See keras.layers.LayerNormalization.

    Raises:
        TypeError: Epsilon is not a number.
        ValueError: It is negative or not finite.
    """

    def __init__(
        self, axis: int | Sequence[int] = -1, epsilon: float = 1e-3, **kwargs: object
    ) -> None:
        super().__init__(axis=axis, epsilon=as_epsilon(epsilon), **kwargs)
