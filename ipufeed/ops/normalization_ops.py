"""Group, layer and instance normalisation of version 1 style, with their variables.

    x [N, rest.., C] -> [N, rest, C / groups, groups] -> mean and variance over all
    axes except N and the group, in float32
    -> gamma * (x - mean) / sqrt(variance + epsilon) + beta

Statistics are those of the input, in training and in inference; there are no moving
averages.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tensorflow as tf
from tensorflow.python.eager.polymorphic_function import polymorphic_function
from tensorflow.python.framework import ops

from ipufeed.checks import as_epsilon, as_floats, as_int, flags_checked
from ipufeed.tf_types import DType, Tensor, TensorLike, Variable

LOGGER = logging.getLogger("ipufeed")
Collections = list[str] | dict[str, list[str]] | None
SMALLEST_EPSILON = 1.53e-5  # not zero in float16


@flags_checked
def group_norm(
    inputs: TensorLike,
    groups: int = 2,
    channels_axis: int = -1,
    center: bool = True,
    scale: bool = True,
    epsilon: float = 1.53e-5,
    param_initializers: dict[str, Any] | None = None,
    reuse: object = None,
    variables_collections: Collections = None,
    training: bool = True,
    trainable: bool = True,
    scope: Any = None,
    strided_channel_grouping: bool = True,
) -> Tensor:
    """Normalises each row by groups of channels.

    Args:
        inputs: [N, ..., C] or [N, C, ...], floats; the channels' number must be known.
        groups: The number of groups, a divisor of the number of channels.
        channels_axis: 1, or the last.
        center: Whether to add the variable `beta`, of the shape [C].
        scale: Whether to multiply by the variable `gamma`, of the shape [C].
        epsilon: A constant added to the variance: a Python number, at least 0.
        param_initializers: A dict of initializers by "beta" and "gamma". Default: zeros
            and ones.
        reuse: The variable scope's option.
        variables_collections: Collections of the variables: a list, or a dict of lists by
            "beta" and "gamma".
        training: Either value gives the same results: statistics are always those of the
            inputs.
        trainable: Whether the variables are in the collection of trainable ones.
        scope: The variable scope. Default: a new one, "GroupNorm". In a tf.function give
            one, whose variables each trace uses, or neither center nor scale.
        strided_channel_grouping: Whether channel c is in group c modulo `groups`. Else the
            channels of a group are consecutive.

    Returns:
        A tensor like inputs.

    Raises:
        TypeError: The inputs are not floats, the number of groups or the axis is not an
            integer, epsilon is not a number, or the initializers are not a dict.
        ValueError: The shape, the axis, the number of groups or epsilon is invalid; or a
            variable without a scope is created in a tf.function.
    """
    del training
    return _normalised(
        inputs,
        as_int("groups", groups),
        channels_axis,
        _Parameters(
            {"beta": center, "gamma": scale},
            param_initializers,
            reuse,
            variables_collections,
            trainable,
            scope,
            "GroupNorm",
        ),
        epsilon,
        strided_channel_grouping,
    )


@flags_checked
def layer_norm(
    inputs: TensorLike,
    channels_axis: int = -1,
    center: bool = True,
    scale: bool = True,
    epsilon: float = 1.53e-5,
    param_initializers: dict[str, Any] | None = None,
    reuse: object = None,
    variables_collections: Collections = None,
    training: bool = True,
    trainable: bool = True,
    scope: Any = None,
) -> Tensor:
    """Normalises each row of axis 0 over all of its elements: group_norm with one group.

    For [batch, time, channels] the mean is over time too, unlike Keras.

    Args, Returns, Raises: See group_norm; the default scope is "LayerNorm".
    """
    del training
    return _normalised(
        inputs,
        1,
        channels_axis,
        _Parameters(
            {"beta": center, "gamma": scale},
            param_initializers,
            reuse,
            variables_collections,
            trainable,
            scope,
            "LayerNorm",
        ),
        epsilon,
    )


@flags_checked
def instance_norm(
    inputs: TensorLike,
    channels_axis: int = -1,
    center: bool = True,
    scale: bool = True,
    epsilon: float = 1.53e-5,
    param_initializers: dict[str, Any] | None = None,
    reuse: object = None,
    variables_collections: Collections = None,
    training: bool = True,
    trainable: bool = True,
    scope: Any = None,
) -> Tensor:
    """Normalises each channel of each row: group_norm with a group for each channel.

    Args, Returns, Raises: See group_norm; the default scope is "InstanceNorm".
    """
    del training
    return _normalised(
        inputs,
        None,
        channels_axis,
        _Parameters(
            {"beta": center, "gamma": scale},
            param_initializers,
            reuse,
            variables_collections,
            trainable,
            scope,
            "InstanceNorm",
        ),
        epsilon,
    )


@dataclass(frozen=True)
class _Parameters:
    """Creates gamma and beta.

    Attributes:
        wanted: "beta" and "gamma" -> whether it is a variable, or else a constant.
        default_scope: The name of a new variable scope.
        The others: See group_norm.
    """

    wanted: dict[str, bool]
    initializers: dict[str, Any] | None
    reuse: object
    collections: Collections
    trainable: bool
    scope: Any
    default_scope: str

    def __post_init__(self) -> None:
        if self.initializers is not None and not isinstance(self.initializers, dict):
            raise TypeError(
                '`param_initializers` must be a dict of initializers by "beta" and '
                f'"gamma", got {self.initializers!r}.'
            )

    def get(self, name: str, channels: int, dtype: DType) -> Tensor:
        """Returns the variable, or a constant without it."""
        usual = tf.zeros if name == "beta" else tf.ones
        if not self.wanted[name]:
            return usual([channels], dtype)
        given = (self.initializers or {}).get(name)
        v1 = tf.compat.v1
        default = v1.zeros_initializer() if name == "beta" else v1.ones_initializer()
        collections = self.collections
        if isinstance(collections, dict):
            collections = collections.get(name)
        around = v1.get_variable_scope()
        # At the root, the number in a default name differs from trace to trace.
        is_named = around.reuse and (self.scope is not None or "/" in around.name)
        is_created = False

        def note(create: Callable[..., Variable], **keywords: Any) -> Variable:
            nonlocal is_created
            is_created = True
            # TensorFlow calls a function whose first trace has created a variable and
            # failed as if it had no results: the error comes before.
            if not is_named and _in_function():
                raise self._retraced(name)
            return create(**keywords)

        try:
            with tf.variable_creator_scope(note):
                variable = v1.get_variable(
                    name,
                    [channels],
                    dtype,
                    default if given is None else given,
                    collections=collections,
                    trainable=self.trainable,
                    use_resource=True if tf.executing_eagerly() else None,
                )
        except AttributeError as error:
            # Of the text of TensorFlow's error, in a function: the variable exists.
            if _in_function() and "Tensor.op" in str(error):
                raise self._retraced(name) from error
            raise
        if not is_named and not is_created and _in_function():
            raise self._retraced(name)  # it is the variable of another function
        return variable

    def _retraced(self, name: str) -> ValueError:
        """Returns the error of a norm whose variables a next trace would not find."""
        return ValueError(
            f"The variable {name!r} of {self.default_scope} cannot be created in a "
            "tf.function, which is traced more than once: each trace would have another "
            'one. Name it, `scope="norm1"`, with a name that no other norm has; or use '
            "the layer of ipufeed.keras.layers, created outside of the function; or no "
            "variables, `center=False, scale=False`."
        )


def _in_function() -> bool:
    """Whether this is the trace of a tf.function, which creates variables its way."""
    creators = ops.get_default_graph()._variable_creator_stack
    return any(
        creator.__module__ == polymorphic_function.__name__ for _, creator in creators
    )


def _normalised(
    inputs: Tensor,
    groups: int | None,
    channels_axis: int,
    parameters: _Parameters,
    epsilon: float,
    strided: bool = True,
) -> Tensor:
    epsilon = as_epsilon(epsilon)
    inputs = as_floats("inputs", inputs)
    axis, channels = _channels(inputs, channels_axis)
    groups = _checked_groups(channels if groups is None else groups, channels)
    if epsilon < SMALLEST_EPSILON:
        LOGGER.warning(
            "The epsilon %g of %s is below %g: it can lead to NaN in float16.",
            epsilon,
            parameters.default_scope,
            SMALLEST_EPSILON,
        )
    reuse = parameters.reuse
    if reuse is None and parameters.scope is not None and _in_function():
        reuse = tf.compat.v1.AUTO_REUSE  # by a next trace; as in eager mode
    with tf.compat.v1.variable_scope(
        parameters.scope, parameters.default_scope, [inputs], reuse=reuse
    ):
        beta = parameters.get("beta", channels, inputs.dtype)
        gamma = parameters.get("gamma", channels, inputs.dtype)
        return _grouped(inputs, axis, groups, strided, gamma, beta, epsilon)


def _channels(inputs: Tensor, channels_axis: int) -> tuple[int, int]:
    """Returns the axis of the channels, from 0, and their number."""
    name = getattr(inputs, "name", None) if not _is_eager(inputs) else "tensor"
    rank = inputs.shape.rank
    if rank is None:
        raise ValueError(f"Inputs {name} has undefined rank.")
    channels_axis = as_int("channels_axis", channels_axis)
    axis = channels_axis + rank if channels_axis < 0 else channels_axis
    if not 0 <= axis < rank:
        raise ValueError(
            f"Axis is out of bounds. Got {channels_axis} for the rank {rank}."
        )
    if axis not in (1, rank - 1) or axis == 0:
        raise ValueError(
            "Unsupported data format, group norm only supports NCHW(channel axis 1) and "
            f"NHWC (channel axis -1). Got {channels_axis} for the rank {rank}."
        )
    channels = inputs.shape.as_list()[axis]
    if channels is None:
        raise ValueError(f"Inputs {name} has undefined channel dimension: {axis}.")
    return axis, int(channels)


def _is_eager(tensor: Tensor) -> bool:
    return hasattr(tensor, "numpy")


def _checked_groups(groups: int, channels: int) -> int:
    if not 0 < groups <= channels:
        raise ValueError(f"Invalid groups {groups} for {channels} channels.")
    if channels % groups:
        raise ValueError(
            f"{channels} channels is not commensurate with {groups} groups."
        )
    return groups


def _grouped(
    inputs: Tensor,
    axis: int,
    groups: int,
    strided: bool,
    gamma: Tensor,
    beta: Tensor,
    epsilon: float,
) -> Tensor:
    """Computes the formula, with the axis of channels split into two."""
    channels = gamma.shape.as_list()[0]
    cut = [channels // groups, groups] if strided else [groups, channels // groups]
    sizes, known = tf.shape(inputs), inputs.shape.as_list()
    rest = known[1:axis] + known[axis + 1 :]
    count = -1 if None in rest else math.prod(rest)
    before_channels = axis == 1 and inputs.shape.rank > 2
    rows = sizes[0] if known[0] is None else known[0]
    layout = [rows, *cut, count] if before_channels else [rows, count, *cut]
    if known[0] is None and count != -1:
        layout[0] = -1
    first = 1 if before_channels else 2  # the first of the two axes of channels
    within = first if strided else first + 1
    others = 3 if before_channels else 1
    x = tf.reshape(tf.cast(inputs, _wide(inputs.dtype)), layout)
    mean = tf.reduce_mean(x, [within, others], keepdims=True)
    centred = x - mean
    variance = tf.reduce_mean(tf.square(centred), [within, others], keepdims=True)
    normal = tf.reshape(centred * tf.math.rsqrt(variance + epsilon), sizes)
    normal.set_shape(inputs.shape)
    broadcast = [1] * inputs.shape.rank
    broadcast[axis] = channels
    gamma, beta = (
        tf.cast(tf.reshape(each, broadcast), normal.dtype) for each in (gamma, beta)
    )
    return tf.cast(normal * gamma + beta, inputs.dtype)


def _wide(dtype: DType) -> Tensor:
    """Returns the dtype of the statistics."""
    return tf.float32 if dtype.size < 4 else dtype
