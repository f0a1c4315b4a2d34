"""What programs can read of the configured devices."""

import pytest

from ipufeed.device.config.config import IPUConfig
from ipufeed.device.config.enums import DeviceConnectionType, SelectionOrder
from ipufeed.device.flags import flags
from ipufeed.device.flags.synthetic import SyntheticDataCategory
from ipufeed.device.system import options_message, system

pytestmark = pytest.mark.usefixtures("clean_system")


def test_a_device_that_is_not_configured_has_one_ipu(caplog):
    """And the log says so."""
    assert system.get_num_of_ipus_in_device("/device:IPU:0") == 1
    assert caplog.messages == [
        "No IPU device was configured for /device:IPU:0, creating a device with a single "
        "IPU."
    ]


def test_get_ipu_config_has_the_fields_of_the_original_s_message():
    """One object for each device, each of the whole configuration."""
    config = IPUConfig()
    config.auto_select_ipus = [1, 2]
    config.compilation_poplar_options = {"debug.verify": "true"}
    config.floating_point_behaviour.set_all = True
    config.configure_ipu_system()
    one, other = system.get_ipu_config()

    assert one == other
    assert [each.auto_count for each in one.device_config] == [1, 2]
    assert (one.creator_id, one.device_connection_type) == (1, 0)
    assert one.ipu_model_config.compile_ipu_code is True
    assert one.ipu_model_config.tiles_per_ipu == 1472
    assert one.compilation_options[0].option == "debug.verify"
    behaviour = one.floating_point_behaviour
    assert (behaviour.inv, behaviour.div0, behaviour.oflo, behaviour.nanoo) == (
        True,
    ) * 4
    assert behaviour.esr == 1
    assert one.SerializeToString() == other.SerializeToString()
    assert options_message.ipu_options().FromString(one.SerializeToString()) == one
    generation = system.generation()
    system.configure_ipu_system(one)  # the same: nothing is reset
    assert system.generation() == generation


def test_categories_of_synthetic_data_have_numbers(monkeypatch):
    """Those of the original's members."""
    monkeypatch.setenv("TF_POPLAR_FLAGS", "--synthetic_data_categories=infeed,seed")
    system.configure_ipu_system(IPUConfig())

    assert [flags.use_synthetic_data_for(each) for each in range(5)] == [
        *(True, True, False, False, False)
    ]
    assert flags.use_synthetic_data_for(SyntheticDataCategory.Infeed)
    with pytest.raises(ValueError, match=r"must be a SyntheticDataCategory.*got 5"):
        flags.use_synthetic_data_for(5)


def configured_message(**changes):
    """The message of a configuration with these attributes."""
    config = IPUConfig()
    for name, value in changes.items():
        setattr(config, name, value)
    config.configure_ipu_system()
    return system.get_ipu_config()[0]


def test_a_message_configures_what_it_was_made_of():
    """Also what has no field of its own."""
    message = configured_message(auto_select_ipus=[2, 1], allow_recompute=True)
    config = system.configured()
    config.io_tiles.num_io_tiles = 32
    config.slices.poplar_options = {"a": "b"}
    config.configure_ipu_system()
    other = system.get_ipu_config()[0]
    assert other != message
    system.configure_ipu_system(message)
    assert system.get_ipu_config() == [message, message]
    system.configure_ipu_system(other)

    assert system.configured() == config
    assert [(each.option, each.value) for each in other.slice_options] == [("a", "b")]


def test_a_field_that_a_program_has_changed_counts():
    """The rest stays."""
    message = configured_message(auto_select_ipus=1, allow_recompute=True)
    message.device_config[0].auto_count = 4
    message.device_connection_type = 1
    message.ipu_model_config.compile_ipu_code = False
    message.selection_order = SelectionOrder.HOOF.value
    message.floating_point_behaviour.div0 = True
    message.compilation_options.add(option="debug.verify", value="true")
    message.prefetch_data_streams = False
    system.configure_ipu_system(message)
    config = system.configured()

    assert config.auto_select_ipus == [4]
    assert config.device_connection.type is DeviceConnectionType.ON_DEMAND
    assert not config.ipu_model.compile_ipu_code
    assert config.selection_order is SelectionOrder.HOOF
    assert config.floating_point_behaviour.div0
    assert not config.floating_point_behaviour.inv
    assert config.compilation_poplar_options == {"debug.verify": "true"}
    assert not config.optimizations.prefetch_data_streams
    assert config.allow_recompute


def test_a_message_of_a_program_s_own_has_the_defaults_elsewhere():
    """A field that is not set is as in a new IPUConfig."""
    message = options_message.ipu_options()()
    message.device_config.add(auto_count=2)
    system.configure_ipu_system(message)
    wanted = IPUConfig()
    wanted.auto_select_ipus = [2]
    assert system.configured() == wanted

    message.device_connection_type = 9
    with pytest.raises(ValueError, match=r"must be in \[0, 4\), got 9"):
        system.configure_ipu_system(message)


def test_a_flag_is_in_the_message_and_not_in_the_configuration(monkeypatch):
    """--use_on_demand makes 1 of it; the message configures ALWAYS again without it."""
    monkeypatch.setenv("TF_POPLAR_FLAGS", "--use_on_demand")
    message = configured_message(auto_select_ipus=1)
    assert message.device_connection_type == 1
    system.configure_ipu_system(message)

    assert system.configured().device_connection.type is DeviceConnectionType.ALWAYS
