"""The system of this process: what has been configured, and what is attached.

    configure_ipu_system --> virtual devices --> attach, once each --> programs run

Every process has its own 16 simulated IPUs: attaching is never refused because another
process is attached, as it would be with hardware. Within a process no IPU belongs to two
devices, and asking for that fails when it is configured.

While nothing is configured, each of the ordinals 0 to 15 is a device of one IPU, which is
attached to when a program first runs on it.

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
from ipufeed.device.system.device_names import ordinal_of
from ipufeed.device.system.device_options import DeviceOptions
from ipufeed.device.system.state import SYSTEM, warn_of_host
from ipufeed.device.system.topology import NUM_IPUS
from ipufeed.device.system.virtual_device import (
    VirtualDevice,
    single_device,
    virtual_devices,
)
from ipufeed.errors import DeviceOrdinalError
from ipufeed.process_state import STATE


def _as_config(config: Any) -> IPUConfig:
    """A copy of the config, or of that in the options of the older style."""
    if isinstance(config, (IpuOptions, DeviceOptions)):
        config = config.config
    if not isinstance(config, IPUConfig):
        raise TypeError(
            "`config` must be an IPUConfig, or the options that create_ipu_config or "
            f"get_ipu_config returns, got {type(config).__name__}."
        )
    return copy.deepcopy(config)


def _is_same(config: IPUConfig, devices: tuple[VirtualDevice, ...]) -> bool:
    """Whether this has been configured; 2, [2] and (2,) select the same."""
    if SYSTEM.config is None or devices != SYSTEM.devices:
        return False
    one, other = copy.copy(config), copy.copy(SYSTEM.config)
    for each in (one, other):
        each.auto_select_ipus = as_tuple(each.auto_select_ipus)
        each.select_ipus = as_tuple(each.select_ipus)
    return one == other


@flags_checked
def configure_ipu_system(
    config: IPUConfig | IpuOptions | DeviceOptions,
    device: str = "cpu",
    reset_configuration: bool = True,
) -> None:
    """Makes the system of a config, and reads TF_POPLAR_FLAGS again.

    With the connection type ALWAYS it also attaches to all devices, and logs a line for
    each. The system has its own copy of the config afterwards.

    Args:
        config: An IPUConfig, or the options that `create_ipu_config` or `get_ipu_config`
            returns.
        device: The CPU that the IPUs belong to. There is one, so another value has no
            effect, with a warning. Default: "cpu".
        reset_configuration: Whether another configuration may be replaced, with a
            warning; the same one again does not replace it. Default: True.

    Raises:
        TypeError: `config` is not a config, or a flag is not a bool.
        ConfigError, ValueError: see `IPUConfig.validate`.
        PoplarFlagsError: TF_POPLAR_FLAGS cannot be understood.
        ValueError: POPLAR_TARGET_OPTIONS or POPLAR_RUNTIME_OPTIONS is not a JSON object.
        tf.errors.FailedPreconditionError: something else is configured, and
            `reset_configuration` is False.
        tf.errors.ResourceExhaustedError: there are fewer IPUs than that.
        tf.errors.InvalidArgumentError: there is no such hardware ID.

    After an error the system is what it was.
    """
    wanted = _as_config(config)
    defaults = (
        options_create.create_ipu_config().config
        if isinstance(config, IpuOptions)
        else IPUConfig()
    )
    if not isinstance(device, str):
        raise TypeError(f"`device` must be a str, got {type(device).__name__}.")
    warn_of_host("configure_ipu_system(device=)", device)
    with SYSTEM.lock:
        flags = flags_module.read_flags()
        config_no_effect.warn_of_environment()
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
    reset_ipu_configuration()
    SYSTEM.config, SYSTEM.devices = config, devices


def _connection_type(config: IPUConfig, flags: Flags) -> DeviceConnectionType:
    connection = config.device_connection.type
    if flags.use_on_demand and connection is DeviceConnectionType.ALWAYS:
        return DeviceConnectionType.ON_DEMAND
    return connection


@STATE.part("system")
def reset_ipu_configuration() -> None:
    """Forgets the configuration, detaches from all IPUs and forgets the seeds.

    The next program on a device attaches to it again. Nothing happens to programs that
    are running: their runner sees that `generation()` has changed.
    """
    with SYSTEM.lock:
        SYSTEM.config = None
        SYSTEM.flags = None
        SYSTEM.devices = ()
        SYSTEM.attached = set()
        SYSTEM.seeds = {}
        SYSTEM.generation += 1
        for listener in SYSTEM.listeners:
            listener()


def on_change(listener: Callable[[], None]) -> None:
    """Calls `listener` whenever the system is configured, or that is forgotten.

    It is called on the thread that does so, and must not raise.
    """
    with SYSTEM.lock:
        SYSTEM.listeners.append(listener)


def generation() -> int:
    """A number that changes whenever the devices are no longer what they were.

    What is kept for a device, such as a loaded program, belongs to the number that there
    was when it was made.
    """
    with SYSTEM.lock:
        return SYSTEM.generation


def ipu_counts() -> dict[int, int]:
    """How many IPUs each configured device is made of, by its ordinal."""
    with SYSTEM.lock:
        return {device.ordinal: device.num_ipus for device in SYSTEM.devices}


def is_configured() -> bool:
    """Whether `configure_ipu_system` has been called, and not been reset."""
    with SYSTEM.lock:
        return SYSTEM.config is not None


def configured() -> IPUConfig:
    """A copy of the config in force: the defaults if nothing is configured."""
    with SYSTEM.lock:
        return copy.deepcopy(SYSTEM.config) if SYSTEM.config else IPUConfig()


def connection_type() -> DeviceConnectionType:
    """When devices are attached to; ON_DEMAND if nothing is configured.

    `--use_on_demand` makes ON_DEMAND of ALWAYS.
    """
    with SYSTEM.lock:
        if SYSTEM.config is None or SYSTEM.flags is None:
            return DeviceConnectionType.ON_DEMAND
        return _connection_type(SYSTEM.config, SYSTEM.flags)


def has_remote_buffers() -> bool:
    """Whether IPUs can move tensors from and to the host's memory inside a program.

    All that can be attached to can, but the IPU Model; for what is compiled without being
    attached to, `device_connection.enable_remote_buffers` has it.
    """
    with SYSTEM.lock:
        if connection_type() in (
            DeviceConnectionType.ALWAYS,
            DeviceConnectionType.ON_DEMAND,
        ):
            return not (SYSTEM.flags or flags_module.get_flags()).use_ipu_model
        return configured().device_connection.enable_remote_buffers


def uses_ipu_model() -> bool:
    """Whether the devices are those of the IPU Model."""
    with SYSTEM.lock:
        return (SYSTEM.flags or flags_module.get_flags()).use_ipu_model


def precompiles() -> bool:
    """Whether programs are only compiled, for another machine."""
    return connection_type() is DeviceConnectionType.PRE_COMPILE


def get_ipu_config(session: Any = None) -> list[DeviceOptions]:
    """The options of each configured device.

    Args:
        session: A TensorFlow Session, which need not be given: the configuration is the
            process's. Default: None.

    Raises:
        RuntimeError: no IPU devices are configured.
        TypeError: `session` is none.
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
            DeviceOptions(device, configured(), connection_type())
            for device in SYSTEM.devices
        ]


def require_usable(ordinal: int) -> VirtualDevice:
    """Gives the device of an ordinal.

    Raises:
        DeviceOrdinalError: there is no such device, or it has not been configured.
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
    """Attaches to a device if that has not been done, and gives it.

    To be called before a program runs. The first call logs the line that programs look
    for; with PRE_COMPILE it gives the device and attaches to nothing.

    Raises:
        DeviceOrdinalError: there is no such device, or it has not been configured.
        tf.errors.InvalidArgumentError: the connection type is NEVER.
    """
    with SYSTEM.lock:
        device = require_usable(ordinal)
        connection = connection_type()
        # A program is compiled all the same (cc/xla/compile/compiler.cc logs this, too).
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
            # The original logs nothing for the IPU Model, and programs count the lines.
            level = logging.DEBUG if device.hardware_id is None else logging.INFO
            LOGGER.log(level, "%s", device.attach_line())
        return device


def is_attached(ordinal: int) -> bool:
    """Whether a device has been attached to."""
    with SYSTEM.lock:
        return ordinal in SYSTEM.attached


def get_num_of_ipus_in_device(ipu_device: str, device: str = "cpu") -> int:
    """IPUs of a device such as "/device:IPU:0".

    Args:
        ipu_device: Its name.
        device: The CPU that the IPUs belong to. Another value has no effect,
            with a warning. Default: "cpu".

    Raises:
        DeviceOrdinalError: it names no device, or one that has not been configured.
    """
    warn_of_host("get_num_of_ipus_in_device(device=)", device)
    ordinal = ordinal_of(ipu_device)
    with SYSTEM.lock:
        device_of_it = require_usable(ordinal)
        if SYSTEM.config is None:
            LOGGER.info(
                "No IPU device was configured for %s, creating a device with a single IPU.",
                device_of_it.name,
            )
        return device_of_it.num_ipus
