"""The system of this process: its configuration, and the attached devices.

    configure_ipu_system --> virtual devices --> attach, once each --> programs run

Every process has its own 16 simulated IPUs: unlike hardware, attaching never fails because
of another process. Within a process an IPU belongs to at most one device; configuring it
for two is an error.

Without a configuration, each of the ordinals 0 to 15 is a device of one IPU, which is
attached when a program first runs on it.

Threads: every function here may be called from any thread.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable
from typing import Any

from ipufeed.checks import flags_checked
from ipufeed.device.config import no_effect as config_no_effect
from ipufeed.device.config import options_create
from ipufeed.device.config.config import IPUConfig, as_tuple
from ipufeed.device.config.enums import DeviceConnectionType
from ipufeed.device.config.options_object import IpuOptions
from ipufeed.device.flags import flags as flags_module
from ipufeed.device.flags.flags import Flags
from ipufeed.device.log import LOGGER
from ipufeed.device.system import options_message
from ipufeed.device.system.device_names import check_host, ordinal_of
from ipufeed.device.system.state import SYSTEM
from ipufeed.device.system.topology import NUM_IPUS
from ipufeed.device.system.virtual_device import (
    VirtualDevice,
    single_device,
    virtual_devices,
)
from ipufeed.errors import DeviceOrdinalError
from ipufeed.process_state import STATE


def _as_config(config: Any) -> IPUConfig:
    """Returns a copy of the config, also of that in options of the older style."""
    if isinstance(config, IpuOptions):
        config = config.config
    elif options_message.is_message(config):
        flags = flags_module.read_flags()
        return options_message.from_message(
            config, lambda made: _connection_type(made, flags)
        )
    if not isinstance(config, IPUConfig):
        raise TypeError(
            "`config` must be an IPUConfig, or the options that create_ipu_config or "
            f"get_ipu_config returns, got {type(config).__name__}."
        )
    return copy.deepcopy(config)


def _is_same(config: IPUConfig, devices: tuple[VirtualDevice, ...]) -> bool:
    """Returns whether this is configured already; 2, [2] and (2,) are equal."""
    if SYSTEM.config is None or devices != SYSTEM.devices:
        return False
    one, other = copy.copy(config), copy.copy(SYSTEM.config)
    for each in (one, other):
        each.auto_select_ipus = as_tuple(each.auto_select_ipus)
        each.select_ipus = as_tuple(each.select_ipus)
    return one == other


@flags_checked
def configure_ipu_system(
    config: Any,
    device: str = "cpu",
    reset_configuration: bool = True,
) -> None:
    """Configures the system with a config, and reads TF_POPLAR_FLAGS again.

    With the connection type ALWAYS it also attaches to all devices, and logs a line for
    each. The system keeps its own copy of the config.

    Args:
        config: An IPUConfig, the options that `create_ipu_config` returns, or a message
            of `get_ipu_config`.
        device: The host of the IPUs. There is one, so another value has no effect, with a
            warning. Default: "cpu".
        reset_configuration: Whether a different configuration is replaced, with a warning;
            an equal one is kept. The first and a different one remove the seeds of
            `reset_ipu_seed`, with a warning. Default: True.

    Raises:
        TypeError: `config` is not a config, or a flag is not a bool.
        ConfigError, ValueError: See `IPUConfig.validate`.
        PoplarFlagsError: TF_POPLAR_FLAGS is invalid.
        ValueError: POPLAR_TARGET_OPTIONS or POPLAR_RUNTIME_OPTIONS is not a JSON object.
        tf.errors.FailedPreconditionError: The system is configured differently, and
            `reset_configuration` is False.
        tf.errors.ResourceExhaustedError: There are not enough IPUs.
        tf.errors.InvalidArgumentError: The hardware ID is unknown.

    An error leaves the system unchanged.
    """
    wanted = _as_config(config)
    defaults = (
        options_create.create_ipu_config().config
        if isinstance(config, IpuOptions)
        else IPUConfig()
    )
    check_host("configure_ipu_system", "device", device)
    with SYSTEM.lock:
        flags = flags_module.read_flags()
        config_no_effect.warn_of_environment()
        SYSTEM.add_processes(wanted)
        wanted.validate(flags.use_ipu_model)
        devices = virtual_devices(wanted, flags)
        if not _is_same(wanted, devices):
            _replace(wanted, devices, reset_configuration)
        SYSTEM.flags = flags
        flags_module.use_flags(flags)
        config_no_effect.warn_of_attributes(wanted, defaults)
        config_no_effect.warn_of_flags(flags)
        for listener in SYSTEM.listeners:
            listener()
        if _connection_type(wanted, flags) is DeviceConnectionType.ALWAYS:
            for each in SYSTEM.devices:
                attach(each.ordinal)


def _replace(
    config: IPUConfig, devices: tuple[VirtualDevice, ...], reset_configuration: bool
) -> None:
    if SYSTEM.config is not None:
        if not reset_configuration:
            from tensorflow.python.framework import errors

            raise errors.FailedPreconditionError(
                None,
                None,
                "The IPU system has been configured differently already: call "
                "reset_ipu_configuration() first, or leave `reset_configuration` True.",
            )
        LOGGER.warning(
            "Resetting existing IPU configuration before applying new configuration"
        )
    _warn_of_seeds()
    # The listeners are called when all is there: a program that begins during this must not
    # find a device without its IPUs.
    _clear()
    SYSTEM.config, SYSTEM.devices = config, devices


def _connection_type(config: IPUConfig, flags: Flags) -> DeviceConnectionType:
    connection = config.device_connection.type
    if flags.use_on_demand and connection is DeviceConnectionType.ALWAYS:
        return DeviceConnectionType.ON_DEMAND
    return connection


def reset_ipu_configuration() -> None:
    """Removes the configuration and the seeds, and detaches from all IPUs.

    It logs a warning if `reset_ipu_seed` had set a seed. The next program on a device
    attaches again. Running programs are not affected: their runner checks `generation()`.
    """
    with SYSTEM.lock:
        _warn_of_seeds()
        _reset()


def _warn_of_seeds() -> None:
    if SYSTEM.seeds:
        names = ", ".join(f"/device:IPU:{each}" for each in sorted(SYSTEM.seeds))
        LOGGER.warning(
            "The change of the IPU configuration has reset the seed that "
            "reset_ipu_seed had set for %s: call reset_ipu_seed after "
            "configure_ipu_system.",
            names,
        )


@STATE.part("system")
def _reset() -> None:
    with SYSTEM.lock:
        _clear()
        SYSTEM.processes = None
        for listener in SYSTEM.listeners:
            listener()


def _clear() -> None:
    SYSTEM.config = None
    SYSTEM.flags = None
    SYSTEM.devices = ()
    SYSTEM.attached = set()
    SYSTEM.seeds = {}
    SYSTEM.generation += 1


def on_change(listener: Callable[[], None]) -> None:
    """Calls `listener` whenever the system is configured or reset.

    It is called on that thread, and must not raise.
    """
    with SYSTEM.lock:
        SYSTEM.listeners.append(listener)


def generation() -> int:
    """Returns a number that changes whenever the devices change.

    Objects of a device, such as a loaded program, are valid for the number at their
    creation.
    """
    with SYSTEM.lock:
        return SYSTEM.generation


def ipu_counts() -> dict[int, int]:
    """Returns the number of IPUs of each configured device, by ordinal."""
    with SYSTEM.lock:
        return {device.ordinal: device.num_ipus for device in SYSTEM.devices}


def configured() -> IPUConfig:
    """Returns a copy of the current config; the defaults without a configuration."""
    with SYSTEM.lock:
        return copy.deepcopy(SYSTEM.config) if SYSTEM.config else IPUConfig()


def connection_type() -> DeviceConnectionType:
    """Returns when devices are attached; ON_DEMAND without a configuration.

    `--use_on_demand` replaces ALWAYS by ON_DEMAND.
    """
    with SYSTEM.lock:
        if SYSTEM.config is None or SYSTEM.flags is None:
            return DeviceConnectionType.ON_DEMAND
        return _connection_type(SYSTEM.config, SYSTEM.flags)


def has_remote_buffers() -> bool:
    """Returns whether IPUs can move tensors from and to the host inside a program.

    All devices that can be attached can, except the IPU Model; for the others
    `device_connection.enable_remote_buffers` is returned.
    """
    with SYSTEM.lock:
        if connection_type() in (
            DeviceConnectionType.ALWAYS,
            DeviceConnectionType.ON_DEMAND,
        ):
            return not (SYSTEM.flags or flags_module.get_flags()).use_ipu_model
        return configured().device_connection.enable_remote_buffers


def uses_ipu_model() -> bool:
    """Returns whether the devices are those of the IPU Model."""
    with SYSTEM.lock:
        return (SYSTEM.flags or flags_module.get_flags()).use_ipu_model


def precompiles() -> bool:
    """Returns whether programs are only compiled, for another machine."""
    return connection_type() is DeviceConnectionType.PRE_COMPILE


def get_ipu_config(session: Any = None) -> list[Any]:
    """Returns the options of each configured device, as protocol messages.

    Each contains the whole configuration, so they are equal. Their class is IpuOptions
    (of `tensorflow.compiler.plugin.poplar.driver.config_pb2` under `ipufeed.run`), whose
    fields are `device_config` (an entry for each device, with `auto_count` or
    `cfg_index`), `creator_id` (1), `ipu_model_config`, `device_connection_type` (0 to 3
    for ALWAYS, ON_DEMAND, NEVER, PRE_COMPILE, including the effect of flags),
    `ipu_version`, `selection_order`, `speed_size_config`, `compilation_options`,
    `convolution_options`, `matmul_options`, `pooling_options`, `slice_options`,
    `gcl_options`, `floating_point_behaviour`, `num_io_tiles`, `prefetch_data_streams`, and
    `configuration`: all of it as `IPUConfig.to_json` returns it. `configure_ipu_system`
    accepts such a message; changed fields override `configuration`.

    Args:
        session: A TensorFlow Session, optional: the configuration is the process's.
            Default: None.

    Raises:
        RuntimeError: No IPU devices are configured.
        TypeError: `session` is not a Session.
    """
    if session is not None:
        from tensorflow.python.client import session as sessions

        if not isinstance(session, sessions.BaseSession):
            raise TypeError(
                f"`session` must be a Session, got {type(session).__name__}."
            )
    with SYSTEM.lock:
        if SYSTEM.config is None:
            raise RuntimeError("No IPU devices configured.")
        return [
            options_message.to_message(configured(), connection_type())
            for _ in SYSTEM.devices
        ]


def require_usable(ordinal: int) -> VirtualDevice:
    """Returns the device of an ordinal.

    Raises:
        DeviceOrdinalError: The device does not exist, or has not been configured.
    """
    if not 0 <= ordinal < NUM_IPUS:
        raise DeviceOrdinalError(
            f"There is no /device:IPU:{ordinal}: the ordinal must be in "
            f"[0, {NUM_IPUS}), got {ordinal}."
        )
    with SYSTEM.lock:
        if SYSTEM.config is None:
            return single_device(ordinal)
        if ordinal >= len(SYSTEM.devices):
            names = ", ".join(device.name for device in SYSTEM.devices)
            raise DeviceOrdinalError(
                f"/device:IPU:{ordinal} has not been configured, only {names}: "
                "`auto_select_ipus` (or `select_ipus`) has one number for each device."
            )
        return SYSTEM.devices[ordinal]


def attach(ordinal: int) -> VirtualDevice:
    """Attaches to a device unless it is attached, and returns it.

    It must be called before a program runs. The first call logs the line that programs
    match; with PRE_COMPILE it does not attach.

    Raises:
        DeviceOrdinalError: The device does not exist, or has not been configured.
        tf.errors.InvalidArgumentError: The connection type is NEVER.
    """
    with SYSTEM.lock:
        device = require_usable(ordinal)
        connection = connection_type()
        # The program is compiled before (cc/xla/compile/compiler.cc logs this too).
        if connection is DeviceConnectionType.NEVER:
            from tensorflow.python.framework import errors

            raise errors.InvalidArgumentError(
                None,
                None,
                "Trying to run an executable on a device that was configured for "
                "compilation only.",
            )
        attaches = connection is not DeviceConnectionType.PRE_COMPILE
        if attaches and ordinal not in SYSTEM.attached:
            SYSTEM.attached.add(ordinal)
            # Graphcore logs nothing for the IPU Model, and programs count the lines.
            level = logging.DEBUG if device.hardware_id is None else logging.INFO
            LOGGER.log(level, "%s", device.attach_line())
        return device


def get_num_of_ipus_in_device(ipu_device: str, device: str = "cpu") -> int:
    """Returns the number of IPUs of a device such as "/device:IPU:0".

    Args:
        ipu_device: Its name.
        device: The host of the IPUs. Another value has no effect, with a warning.
            Default: "cpu".

    Raises:
        DeviceOrdinalError: The device does not exist, or has not been configured.
    """
    check_host("get_num_of_ipus_in_device", "device", device)
    ordinal = ordinal_of(ipu_device)
    with SYSTEM.lock:
        device_of_it = require_usable(ordinal)
        if SYSTEM.config is None:
            LOGGER.info(
                "No IPU device was configured for %s, creating a device with a single IPU.",
                device_of_it.name,
            )
        return device_of_it.num_ipus
