"""The configured system: which devices there are, when they attach, what replaces what."""

import logging
import sys
import threading

import numpy as np
import pytest
import tensorflow as tf
from configured import attach_lines, configured
from helpers import DEADLOCK_S, run_python

from ipufeed.device.config.config import DeviceConnectionType
from ipufeed.device.system import system
from ipufeed.device.system.device_names import ordinal_of
from ipufeed.device.system.state import SYSTEM
from ipufeed.errors import ConfigError, DeviceOrdinalError, PoplarFlagsError

pytestmark = pytest.mark.usefixtures("clean_system")


# ---- Attaching


def test_always_attaches_when_it_is_configured(caplog):
    """One line for each device, with its IPUs; programs look for these words."""
    configured(auto_select_ipus=[1, 4])

    assert attach_lines(caplog) == [
        "TensorFlow device /device:IPU:0 attached to 1 IPU with Poplar device ID: 0",
        "TensorFlow device /device:IPU:1 attached to 4 IPUs with Poplar device IDs: "
        "4,5,6,7 (multi-IPU ID 24)",
    ]
    assert 0 in SYSTEM.attached
    assert 1 in SYSTEM.attached
    assert 2 not in SYSTEM.attached


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
    assert 1 not in SYSTEM.attached
    device = system.attach(1)
    system.attach(1)

    assert device.num_ipus == 2
    assert len(attach_lines(caplog)) == 1
    assert "/device:IPU:1 attached to 2 IPUs" in attach_lines(caplog)[0]
    assert 0 not in SYSTEM.attached


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
    assert 0 not in SYSTEM.attached


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
    assert SYSTEM.config is None


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

    assert [each.ipus for each in SYSTEM.devices] == ipus


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
    assert SYSTEM.config is None


def test_the_tiles_of_the_ipu_model_have_a_bound(monkeypatch):
    """The flag's are those of `ipu_model.tiles_per_ipu`."""
    flags = f"--use_ipu_model --ipu_model_tiles={2**16 + 1}"
    monkeypatch.setenv("TF_POPLAR_FLAGS", flags)

    with pytest.raises(PoplarFlagsError, match="tiles must be at most 65536, got 6553"):
        configured()
    assert SYSTEM.config is None


def test_the_ipu_model_has_any_number_of_ipus(caplog, monkeypatch):
    """They are not hardware, so they have no IDs."""
    monkeypatch.setenv("TF_POPLAR_FLAGS", "--use_ipu_model --ipu_model_tiles=8")
    configured(auto_select_ipus=[3, 32])

    first, second = SYSTEM.devices
    assert (first.num_ipus, second.num_ipus) == (3, 32)
    assert (first.ipus, first.hardware_id, first.tiles_per_ipu) == ((), None, 8)
    assert attach_lines(caplog) == []  # programs count them, and the original has none


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
def test_a_name_that_is_not_an_ipu_is_refused(name):
    """With the name, and how one looks."""
    with pytest.raises(
        DeviceOrdinalError, match="must name an IPU, as in '/device:IPU"
    ):
        ordinal_of(name)


@pytest.mark.parametrize("name", ["/device:IPU:12", "IPU:12", "/ipu:12", "ipu:12"])
def test_the_names_of_an_ipu(name):
    """As TensorFlow takes them."""
    assert ordinal_of(name) == 12
