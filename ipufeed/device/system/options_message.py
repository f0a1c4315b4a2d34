"""The options message: a configuration as a protocol message, for get_ipu_config.

    IPUConfig --to_message--> IpuOptions --SerializeToString--> bytes
              <--from_message--           <--ParseFromString---

The message has the fields that programs read, and `configuration`, which has all options as
JSON, so that from_message is exact. A field that a program has changed overrides it.

Source: the names of the message and its fields are those of Graphcore's
tensorflow.compiler.plugin.poplar.driver.config_pb2. The field numbers differ: a serialised
message of Graphcore's cannot be parsed.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

from ipufeed.device.config.config import IPUConfig, as_tuple, tiles_per_ipu
from ipufeed.device.config.enums import (
    DeviceConnectionType,
    SelectionOrder,
    StochasticRoundingBehaviour,
)
from ipufeed.once import once

_PACKAGE = "xla.poplarplugin"
# In the order of their values in the message.
_CONNECTIONS = (
    DeviceConnectionType.ALWAYS,
    DeviceConnectionType.ON_DEMAND,
    DeviceConnectionType.NEVER,
    DeviceConnectionType.PRE_COMPILE,
)
_EVENTS = ("inv", "div0", "oflo", "nanoo")
USER = 1  # creator_id: the options were made by a user

# Message -> field -> its scalar type, or the name of a message; "*": repeated.
_FIELDS = {
    "DeviceConfig": {"auto_count": "int64", "cfg_index": "int64"},
    "IpuModelConfig": {
        "compile_ipu_code": "bool",
        "tiles_per_ipu": "int64",
        "ipu_model_version": "string",
    },
    "SpeedSizeConfig": {"allow_recompute": "bool", "merge_infeed_io_copies": "bool"},
    "PoplarOption": {"option": "string", "value": "string"},
    "FloatingPointBehaviour": dict.fromkeys(_EVENTS, "bool") | {"esr": "int64"},
    "IpuOptions": {
        "creator_id": "int64",
        "device_config": "*DeviceConfig",
        "ipu_model_config": "IpuModelConfig",
        "device_connection_type": "int64",
        "ipu_version": "string",
        "selection_order": "int64",
        "speed_size_config": "SpeedSizeConfig",
        "compilation_options": "*PoplarOption",
        "convolution_options": "*PoplarOption",
        "matmul_options": "*PoplarOption",
        "pooling_options": "*PoplarOption",
        "slice_options": "*PoplarOption",
        "gcl_options": "*PoplarOption",
        "floating_point_behaviour": "FloatingPointBehaviour",
        "num_io_tiles": "int64",
        "prefetch_data_streams": "bool",
        "configuration": "string",
    },
}
# Lists of options -> the attribute of the configuration.
_OPTION_LISTS = {
    "compilation_options": "compilation_poplar_options",
    "convolution_options": "convolutions.poplar_options",
    "matmul_options": "matmuls.poplar_options",
    "pooling_options": "pooling.poplar_options",
    "slice_options": "slices.poplar_options",
    "gcl_options": "gcl_poplar_options",
}


@once
def ipu_options() -> Any:
    """Returns the class of the message."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    kinds = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(
        name="ipufeed/options.proto", package=_PACKAGE, syntax="proto3"
    )
    for message, fields in _FIELDS.items():
        added = file.message_type.add(name=message)
        for number, (name, kind) in enumerate(fields.items(), 1):
            field = added.field.add(name=name, number=number)
            repeated, kind = kind.startswith("*"), kind.removeprefix("*")
            field.label = kinds.LABEL_REPEATED if repeated else kinds.LABEL_OPTIONAL
            if kind in _FIELDS:
                field.type = kinds.TYPE_MESSAGE
                field.type_name = f".{_PACKAGE}.{kind}"
            else:
                field.type = getattr(kinds, f"TYPE_{kind.upper()}")
    pool = descriptor_pool.DescriptorPool()  # a separate pool: no name conflicts
    pool.Add(file)
    found = pool.FindMessageTypeByName(f"{_PACKAGE}.IpuOptions")
    return message_factory.GetMessageClass(found)


def is_message(value: Any) -> bool:
    """Returns whether a value is an IpuOptions message."""
    return isinstance(value, ipu_options())


def to_message(config: IPUConfig, connection: DeviceConnectionType) -> Any:
    """Returns the message of a configuration.

    Args:
        config: The configuration.
        connection: When its devices attach, including the effect of flags.
    """
    message = ipu_options()(
        creator_id=USER,
        device_connection_type=_CONNECTIONS.index(connection),
        ipu_version=config.device_connection.version,
        selection_order=int(config.selection_order.value),
        num_io_tiles=config.io_tiles.num_io_tiles,
        prefetch_data_streams=config.optimizations.prefetch_data_streams,
        configuration=config.to_json(),
    )
    selected = as_tuple(config.select_ipus)
    for index in selected:
        message.device_config.add(cfg_index=index)
    for count in () if selected else as_tuple(config.auto_select_ipus) or (1,):
        message.device_config.add(auto_count=count)
    model = message.ipu_model_config
    model.compile_ipu_code = config.ipu_model.compile_ipu_code
    model.tiles_per_ipu = tiles_per_ipu(config, use_ipu_model=True)
    model.ipu_model_version = config.ipu_model.version
    speed = message.speed_size_config
    speed.allow_recompute = config.allow_recompute
    speed.merge_infeed_io_copies = config.optimizations.merge_infeed_io_copies
    for name, attribute in _OPTION_LISTS.items():
        for option, value in operator.attrgetter(attribute)(config).items():
            getattr(message, name).add(option=option, value=str(value))
    behaviour = config.floating_point_behaviour
    for event in _EVENTS:
        stops = behaviour.set_all or getattr(behaviour, event)
        setattr(message.floating_point_behaviour, event, stops)
    rounding = StochasticRoundingBehaviour.ON if behaviour.set_all else behaviour.esr
    message.floating_point_behaviour.esr = int(rounding.value)
    return message


def from_message(message: Any, connection: Callable[[IPUConfig], Any]) -> IPUConfig:
    """Returns the configuration of a message.

    Args:
        message: An IpuOptions. Without the field `configuration`, the fields that are set
            override a new IPUConfig.
        connection: Returns when the devices of a configuration attach, including the
            effect of flags.

    Raises:
        ValueError: It is not a message of this version of ipufeed, or a field has an
            invalid value.
    """
    config = IPUConfig()
    if message.configuration:
        config.from_json(message.configuration)
    made = to_message(config, connection(config))
    given = {field.name for field, _ in message.ListFields()}
    for name in _FIELDS["IpuOptions"]:
        if name in ("creator_id", "configuration"):
            continue
        if not message.configuration and name not in given:
            continue
        if getattr(message, name) != getattr(made, name):
            _set_from_field(config, name, getattr(message, name))
    return config


def _set_from_field(config: IPUConfig, name: str, value: Any) -> None:
    if name == "device_config":
        config.auto_select_ipus = [each.auto_count for each in value if each.auto_count]
        config.select_ipus = (
            [] if config.auto_select_ipus else [each.cfg_index for each in value]
        )
    elif name in _OPTION_LISTS:
        options = {each.option: each.value for each in value}
        _set_attribute(config, _OPTION_LISTS[name], options)
    elif name == "device_connection_type":
        if not 0 <= value < len(_CONNECTIONS):
            raise ValueError(
                f"`device_connection_type` must be in [0, {len(_CONNECTIONS)}), got "
                f"{value}."
            )
        config.device_connection.type = _CONNECTIONS[value]
    elif name == "ipu_model_config":
        config.ipu_model.compile_ipu_code = value.compile_ipu_code
        config.ipu_model.tiles_per_ipu = value.tiles_per_ipu
        config.ipu_model.version = value.ipu_model_version
    elif name == "ipu_version":
        config.device_connection.version = value
    elif name == "selection_order":
        config.selection_order = SelectionOrder(value)
    elif name == "speed_size_config":
        config.allow_recompute = value.allow_recompute
        config.optimizations.merge_infeed_io_copies = value.merge_infeed_io_copies
    elif name == "floating_point_behaviour":
        behaviour = config.floating_point_behaviour
        behaviour.set_all = False
        for event in _EVENTS:
            setattr(behaviour, event, getattr(value, event))
        behaviour.esr = StochasticRoundingBehaviour(value.esr)
    elif name == "num_io_tiles":
        config.io_tiles.num_io_tiles = value
    else:
        config.optimizations.prefetch_data_streams = value


def _set_attribute(config: IPUConfig, name: str, value: Any) -> None:
    *path, last = name.split(".")
    setattr(functools.reduce(getattr, path, config), last, value)
