"""gen_ipu_ops: functions that build the system's raw operations.

Source: names and arguments are those of Graphcore's module
tensorflow.compiler.plugin.poplar.ops.gen_ipu_ops.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from ipufeed import _native
from ipufeed.device.flags import flags
from ipufeed.device.system import options_message, seeds, system
from ipufeed.tf_types import DType, Operation, Tensor


def _on_host(
    function: Callable[[], None], name: str | None, default_name: str
) -> Operation | None:
    """Calls a function now in eager mode; in a graph returns the op that calls it."""
    if tf.executing_eagerly():
        function()
        return None

    def call() -> None:
        function()

    with tf.device("/device:CPU:0"):
        return tf.py_function(call, [], [], name=name or default_name)


def _from_host(
    function: Callable[[], object],
    dtype: DType,
    shape: Sequence[int | None],
    name: str | None,
) -> Tensor:
    """Returns a function's result: of a call now in eager mode, in a graph at the run."""
    with tf.device("/device:CPU:0"):
        if tf.executing_eagerly():
            return tf.constant(function(), dtype, name=name)
        value = tf.py_function(lambda: tf.constant(function(), dtype), [], dtype, name)
        value.set_shape(shape)
        return value


def ipu_clear_all_xla_compilation_caches(name: str | None = None) -> Operation | None:
    """Drops all programs that this process has compiled: the next run compiles.

    Returns:
        The operation; None in eager mode, where the call does it.
    """
    clear = _native.entry().ipufeed_forget_programs
    return _on_host(clear, name, "ipu_clear_all_xla_compilation_caches")


def ipu_event_trace(name: str | None = None) -> Tensor:
    """Returns no events, string [0]: `ipufeed.executable.trace` records them."""
    with tf.device("/device:CPU:0"):
        return tf.zeros([0], tf.string, name=name)


def ipu_get_configuration(name: str | None = None) -> Tensor:
    """Returns the options of each device as serialised IpuOptions messages, [devices].

    Raises:
        RuntimeError: Nothing is configured. In a graph at the run, as TensorFlow's
            UnknownError.
    """

    def texts() -> list[bytes]:
        messages = system.get_ipu_config()
        return [each.SerializeToString(deterministic=True) for each in messages]

    return _from_host(texts, tf.string, [None], name)


def ipu_configure_hardware(config: Any, name: str | None = None) -> Operation | None:
    """Configures the system like `utils.configure_ipu_system`.

    Args:
        config: The same argument, or a serialised message of ipu_get_configuration.
        name: The operation's name.

    Raises:
        ValueError: Bytes that are not such a message.
    """
    if isinstance(config, bytes):
        config = _parsed(config)

    def configure() -> None:
        system.configure_ipu_system(config)

    return _on_host(configure, name, "ipu_configure_hardware")


def _parsed(text: bytes) -> Any:
    from google.protobuf.message import DecodeError

    try:
        return options_message.ipu_options().FromString(text)
    except DecodeError as error:
        raise ValueError(
            f"`config` must be a serialised IpuOptions message, got {len(text)} bytes "
            "that are not one. `ipu_get_configuration` gives such messages."
        ) from error


def ipu_reset_devices(name: str | None = None) -> Operation | None:
    """Removes the configuration like `utils.reset_ipu_configuration`."""
    return _on_host(system.reset_ipu_configuration, name, "ipu_reset_devices")


def ipu_reset_seed(
    device: str, seed: int, identical_replicas: bool = False, name: str | None = None
) -> Operation | None:
    """Resets a device's random numbers like `utils.reset_ipu_seed`."""

    def reset() -> None:
        seeds.reset_ipu_seed(
            seed, device, experimental_identical_replicas=identical_replicas
        )

    return _on_host(reset, name, "ipu_reset_seed")


def ipu_model_used(name: str | None = None) -> Tensor:
    """Returns whether programs run on the IPU Model: a bool scalar."""
    return _from_host(flags.running_on_ipu_model, tf.bool, [], name)


def ipu_get_num_devices(device: str, name: str | None = None) -> Tensor:
    """Returns the number of IPUs of a device such as "/device:IPU:0": an int64 scalar."""
    return _from_host(
        lambda: system.get_num_of_ipus_in_device(device), tf.int64, [], name
    )


def ipu_use_synthetic_data_for(
    synthetic_data_category: Any, name: str | None = None
) -> Tensor:
    """Returns whether data of a category are synthetic: a bool tensor of shape [1]."""

    def used() -> list[bool]:
        return [bool(flags.use_synthetic_data_for(synthetic_data_category))]

    return _from_host(used, tf.bool, [1], name)
