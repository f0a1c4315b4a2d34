"""What programs can read of the configured devices."""

import pytest

from ipufeed.device.config.config import IPUConfig
from ipufeed.device.flags import flags
from ipufeed.device.flags.synthetic import SyntheticDataCategory
from ipufeed.device.system import system

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
    with pytest.raises(ValueError, match="5 is not a valid"):
        flags.use_synthetic_data_for(5)
