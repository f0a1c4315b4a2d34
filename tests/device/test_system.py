"""The configured system: which devices there are, when they attach, what replaces what."""

import logging
import sys
import threading

import numpy as np
import pytest
import tensorflow as tf
from helpers import run_python

from ipufeed.device.config.config import DeviceConnectionType, IPUConfig, SelectionOrder
from ipufeed.device.config.options import auto_select_ipus, create_ipu_config
from ipufeed.device.flags import flags as flags_module
from ipufeed.device.system import seeds, state, system
from ipufeed.device.system.device_names import ordinal_of
from ipufeed.errors import ConfigError, DeviceOrdinalError, PoplarFlagsError

pytestmark = pytest.mark.usefixtures("clean_system")

DEADLOCK_S = 180.0


def configured(**values) -> IPUConfig:
    """A config with these values, `__` for the dots; the system is as it says."""
    config = IPUConfig.from_dict(
        {name.replace("__", "."): value for name, value in values.items()}
    )
    config.configure_ipu_system()
    return config


def attach_lines(caplog) -> list[str]:
    """What has been logged of attached devices."""
    return [text for text in caplog.messages if "attached to " in text]


# ---- Attaching


def test_always_attaches_when_it_is_configured(caplog):
    """One line for each device, with its IPUs; programs look for these words."""
    configured(auto_select_ipus=[1, 4])

    assert attach_lines(caplog) == [
        "TensorFlow device /device:IPU:0 attached to 1 IPU with Poplar device ID: 0",
        "TensorFlow device /device:IPU:1 attached to 4 IPUs with Poplar device IDs: "
        "4,5,6,7 (multi-IPU ID 24)",
    ]
    assert system.is_attached(0)
    assert system.is_attached(1)
    assert not system.is_attached(2)


@pytest.mark.process
def test_the_line_is_on_stderr_of_a_plain_program():
    """Once, without any logging being set up, and with it."""
    program = (
        "import ipufeed, logging\n"
        "{setup}\n"
        "from ipufeed.device.config.config import IPUConfig\n"
        "config = IPUConfig()\n"
        "config.auto_select_ipus = 2\n"
        "config.configure_ipu_system()\n"
    )
    for setup in (
        "",
        "logging.basicConfig()",
        "logging.basicConfig(filename='/dev/null')",
    ):
        done = run_python(program.format(setup=setup))

        assert done.returncode == 0, done.stderr
        assert done.stderr.count("attached to 2 IPUs with Poplar device IDs: 5,7") == 1


def test_an_absl_handler_does_not_double_the_line(capsys, monkeypatch):
    """Programs that are started by absl.app.run have its handler on the root logger."""
    from absl import logging as absl_logging

    handler = absl_logging.ABSLHandler(absl_logging.PythonFormatter())
    handler.python_handler.stream = sys.stderr
    monkeypatch.setattr(logging.getLogger(), "handlers", [handler])
    configured()

    assert capsys.readouterr().err.count("attached to ") == 1


def test_on_demand_attaches_when_a_program_first_runs(caplog):
    """Not before, and once only."""
    configured(auto_select_ipus=[1, 2], device_connection__type="ON_DEMAND")
    assert attach_lines(caplog) == []
    assert not system.is_attached(1)
    device = system.attach(1)
    system.attach(1)

    assert device.num_ipus == 2
    assert len(attach_lines(caplog)) == 1
    assert "/device:IPU:1 attached to 2 IPUs" in attach_lines(caplog)[0]
    assert not system.is_attached(0)


def test_threads_that_attach_together_attach_once(caplog):
    """A second thread finds it attached."""
    configured(device_connection__type="ON_DEMAND")
    start = threading.Barrier(8)
    devices = []

    def run():
        start.wait(DEADLOCK_S)
        devices.append(system.attach(0))

    threads = [threading.Thread(target=run) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLOCK_S)

    assert len(devices) == 8
    assert len(attach_lines(caplog)) == 1


def test_pre_compile_never_attaches(caplog):
    """A program finds its device all the same."""
    configured(
        auto_select_ipus=2,
        device_connection__type="PRE_COMPILE",
        device_connection__version="ipu2",
    )

    assert system.attach(0).num_ipus == 2
    assert attach_lines(caplog) == []
    assert not system.is_attached(0)


def test_never_refuses_to_run(caplog):
    """With the original's words."""
    configured(device_connection__type="NEVER", device_connection__version="ipu2")

    with pytest.raises(
        tf.errors.InvalidArgumentError,
        match="Trying to run an executable on a device that was configured for "
        "compilation only",
    ):
        system.attach(0)
    assert attach_lines(caplog) == []


def test_the_flag_makes_on_demand_of_always(caplog, monkeypatch):
    """And of nothing else."""
    monkeypatch.setenv("TF_POPLAR_FLAGS", "--use_on_demand")
    configured()
    assert system.connection_type() is DeviceConnectionType.ON_DEMAND
    assert attach_lines(caplog) == []
    configured(device_connection__type="NEVER", device_connection__version="ipu2")

    assert system.connection_type() is DeviceConnectionType.NEVER


def test_without_a_configuration_every_ordinal_is_one_ipu(caplog):
    """It is attached to at first use."""
    for ordinal in range(16):
        assert system.require_usable(ordinal).num_ipus == 1
    assert attach_lines(caplog) == []
    system.attach(15)

    assert attach_lines(caplog) == [
        "TensorFlow device /device:IPU:15 attached to 1 IPU with Poplar device ID: 15"
    ]
    assert not system.is_configured()


# ---- Which devices there are


@pytest.mark.parametrize("auto", [[], 1, [1], (np.int64(1),)])
def test_the_default_is_one_device_of_one_ipu(auto):
    """As is asking for it."""
    configured(auto_select_ipus=auto)

    assert len(system.get_ipu_config()) == 1
    assert system.get_num_of_ipus_in_device("/device:IPU:0") == 1


def test_each_number_is_a_device():
    """Which can be asked by any of its names."""
    configured(auto_select_ipus=(1, 2, 8))

    assert system.get_num_of_ipus_in_device("/device:IPU:1") == 2
    assert system.get_num_of_ipus_in_device("/ipu:2", device="/cpu:0") == 8
    assert (
        system.get_num_of_ipus_in_device("/job:localhost/replica:0/task:0/device:IPU:0")
        == 1
    )
    with pytest.raises(DeviceOrdinalError, match="IPU:3 has not been configured"):
        system.get_num_of_ipus_in_device("/device:IPU:3")


@pytest.mark.parametrize(
    ("selected", "ipus"),
    [(0, [(0,)]), (24, [(4, 5, 6, 7)]), ([3, 16], [(3,), (5, 7)]), ((15,), [(15,)])],
)
def test_each_hardware_id_is_a_device(selected, ipus):
    """With the IPUs of the ID."""
    configured(select_ipus=selected)

    assert [each.device.ipus for each in system.get_ipu_config()] == ipus


def test_no_ipu_is_in_two_devices():
    """The second device cannot attach; the message says which device has the IPU."""
    with pytest.raises(
        tf.errors.ResourceExhaustedError,
        match="Could not attach to the device with ID 24 for /device:IPU:1: IPU 4 is in "
        "use by /device:IPU:0",
    ):
        configured(select_ipus=[4, 24])


@pytest.mark.parametrize("hardware_id", [31, -1])
def test_an_unknown_hardware_id_is_refused(hardware_id):
    """With how many there are."""
    with pytest.raises(
        tf.errors.InvalidArgumentError,
        match=f"device configuration index {hardware_id}, but 31 were available",
    ):
        configured(select_ipus=[hardware_id])


@pytest.mark.parametrize("auto", [3, 17, [16, 1], 32])
def test_more_ipus_than_there_are_cannot_be_had(auto):
    """Nor devices of a size that hardware has not."""
    with pytest.raises(
        tf.errors.ResourceExhaustedError, match="Could not find an available device"
    ):
        configured(auto_select_ipus=auto)
    assert not system.is_configured()


def test_the_ipu_model_has_any_number_of_ipus(caplog, monkeypatch):
    """They are not hardware, so they have no IDs."""
    monkeypatch.setenv("TF_POPLAR_FLAGS", "--use_ipu_model --ipu_model_tiles=8")
    configured(auto_select_ipus=[3, 32])

    first, second = (each.device for each in system.get_ipu_config())
    assert (first.num_ipus, second.num_ipus) == (3, 32)
    assert (first.ipus, first.hardware_id, first.tiles_per_ipu) == ((), None, 8)
    assert attach_lines(caplog) == []  # programs count them, and the original has none
    assert first.shard_to_ipu() == (0, 1, 2)


def test_the_ipu_model_cannot_be_selected(monkeypatch):
    """By ID; the flag decides, when it is configured."""
    monkeypatch.setenv("TF_POPLAR_FLAGS", "--use_ipu_model")

    with pytest.raises(ConfigError, match=r"^When using the IPUModel, the devices to"):
        configured(select_ipus=0)


def test_more_devices_than_are_registered_are_refused(monkeypatch):
    """Even if they are not hardware."""
    monkeypatch.setenv("TF_POPLAR_FLAGS", "--use_ipu_model")

    with pytest.raises(
        ValueError, match="At most 16 devices can be configured, got 17"
    ):
        configured(auto_select_ipus=[1] * 17)


def test_a_program_may_be_compiled_for_a_larger_server():
    """Without attaching there need not be that many IPUs, but a size that exists."""
    offline = {
        "device_connection__type": "PRE_COMPILE",
        "device_connection__version": "ipu2",
    }
    configured(auto_select_ipus=64, **offline)

    device = system.require_usable(0)
    assert (device.num_ipus, device.ipus) == (64, ())
    assert device.shard_to_ipu(pipelined=True)[:4] == (0, 1, 3, 2)
    with pytest.raises(tf.errors.ResourceExhaustedError, match="Could not find"):
        configured(auto_select_ipus=3, **offline)


@pytest.mark.parametrize(
    ("values", "tiles"),
    [
        ({}, 1472),
        ({"device_connection__version": "ipu1"}, 1216),
        ({"device_connection__version": "ipu21"}, 1472),
        ({"ipu_model__version": "ipu1"}, 1472),
    ],
)
def test_hardware_has_the_tiles_of_its_version(values, tiles):
    """The IPU Model's version says nothing of hardware."""
    configured(**values)

    assert system.require_usable(0).tiles_per_ipu == tiles


@pytest.mark.parametrize(
    ("values", "tiles"),
    [
        ({}, 1472),
        ({"ipu_model__version": "ipu1"}, 1216),
        ({"ipu_model__tiles_per_ipu": 4}, 4),
    ],
)
def test_the_ipu_model_has_the_tiles_of_its_config(monkeypatch, values, tiles):
    """Or of its version, if the config has none."""
    monkeypatch.setenv("TF_POPLAR_FLAGS", "--use_ipu_model")
    configured(**values)

    assert system.require_usable(0).tiles_per_ipu == tiles


def test_an_odd_number_of_io_tiles_is_rounded_up(caplog):
    """In the device, with a line that says so; the config keeps what was set."""
    config = configured(io_tiles__num_io_tiles=31)

    assert system.require_usable(0).num_io_tiles == 32
    assert config.io_tiles.num_io_tiles == 31
    assert "rounding 31 up to 32" in caplog.text
    caplog.clear()
    configured(io_tiles__num_io_tiles=30)
    assert system.require_usable(0).num_io_tiles == 30
    assert "rounding" not in caplog.text


def test_shards_get_ipus_in_the_configured_order():
    """AUTO depends on the program."""
    configured(auto_select_ipus=4, selection_order=SelectionOrder.HOOF)
    assert system.require_usable(0).shard_to_ipu() == (0, 2, 3, 1)
    configured(auto_select_ipus=4)

    assert system.require_usable(0).shard_to_ipu() == (0, 1, 2, 3)
    assert system.require_usable(0).shard_to_ipu(pipelined=True) == (0, 1, 3, 2)


@pytest.mark.parametrize("ordinal", [-1, 16, 100])
def test_an_ordinal_that_cannot_be_is_refused(ordinal):
    """Configured or not."""
    message = rf"There is no /device:IPU:{ordinal}: the ordinal must be in \[0, 16\)"
    with pytest.raises(DeviceOrdinalError, match=message):
        system.require_usable(ordinal)
    configured(auto_select_ipus=[1, 1])
    with pytest.raises(DeviceOrdinalError, match=message):
        system.attach(ordinal)


def test_an_ordinal_that_was_not_configured_is_refused():
    """The message lists those that were, and how there could be more."""
    configured(auto_select_ipus=[1, 1])
    system.require_usable(1)

    with pytest.raises(
        DeviceOrdinalError,
        match=r"^/device:IPU:2 has not been configured, only /device:IPU:0, "
        "/device:IPU:1: `auto_select_ipus`",
    ):
        system.require_usable(2)


@pytest.mark.parametrize(
    "name", ["", "cpu", "/device:CPU:0", "IPU", "/device:IPU:x", 0]
)
def test_a_name_that_is_no_ipu_is_refused(name):
    """With the name, and how one looks."""
    with pytest.raises(
        DeviceOrdinalError, match="must name an IPU, as in '/device:IPU"
    ):
        ordinal_of(name)


@pytest.mark.parametrize("name", ["/device:IPU:12", "IPU:12", "/ipu:12", "ipu:12"])
def test_the_names_of_an_ipu(name):
    """As TensorFlow takes them."""
    assert ordinal_of(name) == 12


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

    assert system.is_configured()
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
    assert system.is_attached(0)
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
    system.get_ipu_config()[0].config.allow_recompute = True
    assert not system.configured().allow_recompute


def test_a_reset_forgets_everything():
    """Also where nothing is configured."""
    configured(auto_select_ipus=[1, 1])
    seeds.reset_ipu_seed(3)
    generation = system.generation()
    system.reset_ipu_configuration()
    system.reset_ipu_configuration()

    assert not system.is_configured()
    assert not system.is_attached(0)
    assert seeds.device_seed(0) is None
    assert system.generation() > generation
    assert system.configured() == IPUConfig()
    assert system.connection_type() is DeviceConnectionType.ON_DEMAND


# ---- Asking


def test_get_ipu_config_has_the_options_of_each_device():
    """Through every spelling, and with a session or without."""
    configured(auto_select_ipus=[1, 2], allow_recompute=True)
    with tf.compat.v1.Session(graph=tf.Graph()) as session:
        found = system.get_ipu_config(session)

    assert [each.device.num_ipus for each in found] == [1, 2]
    assert all(each.config.allow_recompute for each in found)
    assert found[0].connection_type is DeviceConnectionType.ALWAYS
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
def test_what_is_no_config_is_refused(config):
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

    assert [each.device.num_ipus for each in system.get_ipu_config()] == [2, 1]
    system.configure_ipu_system(IPUConfig(), "/cpu:0")
    assert len(system.get_ipu_config()) == 1


# ---- Seeds


def test_a_seed_is_kept_for_its_device():
    """With a number that distinguishes one reset from the next."""
    seeds.reset_ipu_seed(7)
    seeds.reset_ipu_seed(np.int64(8), "/device:IPU:1", "cpu", True)
    seeds.reset_ipu_seed(7)

    assert seeds.device_seed(0) == state.DeviceSeed(7, False, 2)
    assert seeds.device_seed(1) == state.DeviceSeed(8, True, 1)
    assert seeds.device_seed(2) is None


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
