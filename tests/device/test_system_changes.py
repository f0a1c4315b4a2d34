"""Configuring the system again, asking it, and its seeds."""

import numpy as np
import pytest
import tensorflow as tf
from configured import attach_lines, configured

from ipufeed.device.config.config import DeviceConnectionType, IPUConfig
from ipufeed.device.config.options import auto_select_ipus
from ipufeed.device.config.options_create import create_ipu_config
from ipufeed.device.flags import flags as flags_module
from ipufeed.device.system import seeds, state, system
from ipufeed.device.system.state import SYSTEM
from ipufeed.errors import DeviceOrdinalError, PoplarFlagsError

pytestmark = pytest.mark.usefixtures("clean_system")


# ---- Configuring again


def test_the_same_config_again_changes_nothing(caplog):
    """However its selection is written; nothing is reset, nothing attached again."""
    configured(auto_select_ipus=2)
    generation = system.generation()
    configured(auto_select_ipus=[2])
    system.configure_ipu_system(
        IPUConfig.from_dict({"auto_select_ipus": (2,)}), reset_configuration=False
    )

    assert system.generation() == generation
    assert len(attach_lines(caplog)) == 1
    assert "Resetting" not in caplog.text


def test_another_config_replaces_the_first_with_a_warning(caplog):
    """And attaches again."""
    configured(auto_select_ipus=2)
    generation = system.generation()
    configured(auto_select_ipus=1)

    assert system.generation() > generation
    assert system.get_num_of_ipus_in_device("/device:IPU:0") == 1
    assert len(attach_lines(caplog)) == 2
    warned = [each for each in caplog.records if each.levelname == "WARNING"]
    assert [each.getMessage() for each in warned] == [
        "Resetting existing IPU configuration before applying new configuration"
    ]


def test_a_change_is_seen_as_a_whole(monkeypatch):
    """A program that begins during it does not find a device without its IPUs."""
    configured(auto_select_ipus=2)
    seen = []
    listeners = [*state.SYSTEM.listeners, lambda: seen.append(system.ipu_counts())]
    monkeypatch.setattr(state.SYSTEM, "listeners", listeners)
    configured(auto_select_ipus=4)

    assert seen == [{0: 4}]


def test_another_config_can_be_forbidden_to_replace_the_first():
    """The first stays then."""
    configured(auto_select_ipus=2)

    with pytest.raises(
        tf.errors.FailedPreconditionError, match="configured differently"
    ):
        system.configure_ipu_system(IPUConfig(), reset_configuration=False)

    assert system.get_num_of_ipus_in_device("/device:IPU:0") == 2


def test_a_first_config_needs_no_permission(caplog):
    """There is nothing to replace, so nothing is logged either."""
    system.configure_ipu_system(IPUConfig(), reset_configuration=False)

    assert SYSTEM.config is not None
    assert "Resetting" not in caplog.text


@pytest.mark.parametrize(
    ("flags", "config", "error"),
    [
        ("--nonsense", IPUConfig(), PoplarFlagsError),
        (
            "--allow_nans",
            IPUConfig.from_dict({"auto_select_ipus": 3}),
            tf.errors.OpError,
        ),
        ("--allow_nans", IPUConfig.from_dict({"auto_select_ipus": 0}), ValueError),
        ("--allow_nans", "config", TypeError),
    ],
)
def test_a_failure_leaves_the_system_as_it_was(monkeypatch, flags, config, error):
    """Devices, attachments and flags."""
    configured(auto_select_ipus=2)
    generation = system.generation()
    monkeypatch.setenv("TF_POPLAR_FLAGS", flags)

    with pytest.raises(error):
        system.configure_ipu_system(config)

    assert system.generation() == generation
    assert 0 in SYSTEM.attached
    assert system.get_num_of_ipus_in_device("/device:IPU:0") == 2
    assert not flags_module.get_flags().allow_nans


def test_configuring_reads_the_flags_again(monkeypatch):
    """Also if the config is the same."""
    configured()
    monkeypatch.setenv("TF_POPLAR_FLAGS", "--null_data_feed")
    assert not flags_module.get_flags().null_data_feed
    configured()

    assert flags_module.get_flags().null_data_feed


def test_other_flags_can_make_other_devices(caplog, monkeypatch):
    """The same config with the IPU Model is another system."""
    configured()
    monkeypatch.setenv("TF_POPLAR_FLAGS", "--use_ipu_model")
    configured()

    assert system.require_usable(0).hardware_id is None
    assert "Resetting existing IPU configuration" in caplog.text


def test_a_change_of_the_config_has_no_effect_until_it_is_configured():
    """The system has its own copy."""
    config = configured(auto_select_ipus=2)
    config.auto_select_ipus = 1
    config.compilation_poplar_options["a"] = "b"

    assert system.get_num_of_ipus_in_device("/device:IPU:0") == 2
    assert system.configured().auto_select_ipus == 2
    assert system.configured().compilation_poplar_options == {}
    system.get_ipu_config()[0].speed_size_config.allow_recompute = True
    assert not system.configured().allow_recompute


def test_a_reset_forgets_everything():
    """Also where nothing is configured."""
    configured(auto_select_ipus=[1, 1])
    seeds.reset_ipu_seed(3)
    generation = system.generation()
    system.reset_ipu_configuration()
    system.reset_ipu_configuration()

    assert SYSTEM.config is None
    assert 0 not in SYSTEM.attached
    assert 0 not in SYSTEM.seeds
    assert system.generation() > generation
    assert system.configured() == IPUConfig()
    assert system.connection_type() is DeviceConnectionType.ON_DEMAND


# ---- Asking


def test_get_ipu_config_has_the_options_of_each_device():
    """Through every spelling, and with a session or without."""
    configured(auto_select_ipus=[1, 2], allow_recompute=True)
    with tf.compat.v1.Session(graph=tf.Graph()) as session:
        found = system.get_ipu_config(session)

    assert [each.auto_count for each in found[1].device_config] == [1, 2]
    assert all(each.speed_size_config.allow_recompute for each in found)
    assert found[0].device_connection_type == 0
    assert system.get_ipu_config() == found
    with pytest.raises(TypeError, match="`session` must be a Session, got str"):
        system.get_ipu_config("session")


def test_get_ipu_config_needs_a_configuration():
    """With the original's words."""
    with pytest.raises(RuntimeError, match=r"^No IPU devices configured\.$"):
        system.get_ipu_config()


@pytest.mark.parametrize(
    "config", [None, {}, "config", IPUConfig, IPUConfig().io_tiles]
)
def test_what_is_not_a_config_is_refused(config):
    """With what it is."""
    with pytest.raises(
        TypeError, match="`config` must be an IPUConfig, or the options"
    ):
        system.configure_ipu_system(config)


def test_a_device_is_named_by_a_text():
    """A caller that passes reset_configuration second gets an error."""
    with pytest.raises(TypeError, match="`device` must be a str, got bool"):
        system.configure_ipu_system(IPUConfig(), False)


def test_both_styles_configure_the_same_system():
    """The options of the older style are a config."""
    system.configure_ipu_system(auto_select_ipus(create_ipu_config(), [2, 1]))

    assert [each.num_ipus for each in state.SYSTEM.devices] == [2, 1]
    system.configure_ipu_system(IPUConfig(), "/cpu:0")
    assert len(system.get_ipu_config()) == 1


# ---- Seeds


def test_a_seed_is_kept_for_its_device():
    """With a number that distinguishes one reset from the next."""
    seeds.reset_ipu_seed(7)
    seeds.reset_ipu_seed(np.int64(8), "/device:IPU:1", "cpu", True)
    seeds.reset_ipu_seed(7)

    assert SYSTEM.seeds[0] == state.DeviceSeed(7, False, 2)
    assert SYSTEM.seeds[1] == state.DeviceSeed(8, True, 1)
    assert 2 not in SYSTEM.seeds


@pytest.mark.parametrize(
    ("seed", "error"),
    [(1.5, TypeError), ("1", TypeError), (True, TypeError), (2**63, ValueError)],
)
def test_a_seed_is_an_integer_of_64_bits(seed, error):
    """The error names it."""
    with pytest.raises(error, match="`seed` must be"):
        seeds.reset_ipu_seed(seed)


def test_a_seed_is_for_a_device_that_there_is():
    """As programs are."""
    configured()

    with pytest.raises(DeviceOrdinalError, match="IPU:1 has not been configured"):
        seeds.reset_ipu_seed(1, device="/device:IPU:1")
