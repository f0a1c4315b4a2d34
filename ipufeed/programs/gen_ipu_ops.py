"""gen_ipu_ops: the system's raw operations, as functions of their names.

Source: names and arguments are those of Graphcore's module
tensorflow.compiler.plugin.poplar.ops.gen_ipu_ops.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ipufeed import _native
from ipufeed.device.flags import flags
from ipufeed.device.system import seeds, system


def _on_host(function: Callable[[], None], name: str | None, what: str) -> Any:
    """Does it now in eager mode; in a graph gives the operation that does."""
    import tensorflow as tf

    if tf.executing_eagerly():
        function()
        return None

    def call() -> None:
        function()

    with tf.device("/device:CPU:0"):
        return tf.py_function(call, [], [], name=name or what)


def ipu_clear_all_xla_compilation_caches(name: str | None = None) -> Any:
    """Forgets all programs that this process has compiled: the next run compiles.

    Returns:
        The operation that does it; None in eager mode, where it is done at once.
    """

    def forget() -> None:
        _native.entry().ipufeed_forget_programs()

    return _on_host(forget, name, "ipu_clear_all_xla_compilation_caches")


def ipu_event_trace(name: str | None = None) -> Any:
    """No events: a string tensor of shape [0]. `ipufeed.executable.trace` records them."""
    import tensorflow as tf

    with tf.device("/device:CPU:0"):
        return tf.zeros([0], tf.string, name=name)


def ipu_get_configuration(name: str | None = None) -> Any:
    """The options of each configured device when it is called: strings of JSON, [devices].

    Raises:
        RuntimeError: Nothing is configured.
    """
    import tensorflow as tf

    with tf.device("/device:CPU:0"):
        texts = [each.SerializeToString() for each in system.get_ipu_config()]
        return tf.constant(texts, tf.string, name=name)


def ipu_configure_hardware(config: Any, name: str | None = None) -> Any:
    """Configures the system, as `utils.configure_ipu_system` does.

    Args:
        config: What that takes.
        name: Of the operation.
    """

    def configure() -> None:
        system.configure_ipu_system(config)

    return _on_host(configure, name, "ipu_configure_hardware")


def ipu_reset_devices(name: str | None = None) -> Any:
    """Forgets the configuration, as `utils.reset_ipu_configuration` does."""
    return _on_host(system.reset_ipu_configuration, name, "ipu_reset_devices")


def ipu_reset_seed(
    device: str, seed: int, identical_replicas: bool = False, name: str | None = None
) -> Any:
    """Starts a device's random numbers again, as `utils.reset_ipu_seed` does."""

    def reset() -> None:
        seeds.reset_ipu_seed(
            seed, device, experimental_identical_replicas=identical_replicas
        )

    return _on_host(reset, name, "ipu_reset_seed")


def ipu_model_used(name: str | None = None) -> Any:
    """Whether programs run on the IPU Model: a bool scalar."""
    import tensorflow as tf

    with tf.device("/device:CPU:0"):
        return tf.constant(flags.running_on_ipu_model(), tf.bool, name=name)


def ipu_get_num_devices(device: str, name: str | None = None) -> Any:
    """IPUs of a device such as "/device:IPU:0": an int64 scalar."""
    import tensorflow as tf

    with tf.device("/device:CPU:0"):
        number = system.get_num_of_ipus_in_device(device)
        return tf.constant(number, tf.int64, name=name)


def ipu_use_synthetic_data_for(
    synthetic_data_category: Any, name: str | None = None
) -> Any:
    """Whether data of a category are synthetic: a bool tensor of shape [1]."""
    import tensorflow as tf

    with tf.device("/device:CPU:0"):
        used = flags.use_synthetic_data_for(synthetic_data_category)
        return tf.constant([bool(used)], tf.bool, name=name)
