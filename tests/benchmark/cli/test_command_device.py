"""What `--step-time` and its companions promise: units, presets, clear errors."""

import pytest

from ipufeed.benchmark.cli.options.device import (
    device_settings_of,
    parse_bytes,
    parse_seconds,
)
from ipufeed.benchmark.cli.options.parser import build_parser, message_of
from ipufeed.benchmark.device.settings import PRESETS, DeviceSettings
from ipufeed.benchmark.result.settings import SettingError


def settings(*words):
    return device_settings_of(build_parser().parse_args(words))


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("12ms", 0.012),
        ("12 ms", 0.012),
        ("0.5s", 0.5),
        (".5s", 0.5),
        ("2s", 2.0),
        ("80us", 80e-6),
        ("80\N{MICRO SIGN}s", 80e-6),
        ("80\N{GREEK SMALL LETTER MU}s", 80e-6),
        ("5000ns", 5e-6),
        ("1e-3s", 1e-3),
    ],
)
def test_a_time_has_a_unit(text, seconds):
    """Nanoseconds to seconds, in all spellings of the micro sign."""
    assert parse_seconds("--step-time", text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "text", ["12", "ms", "", "-1ms", "12m", "nan s", "1e5", "1:2s"]
)
def test_what_is_not_a_time_is_refused_with_the_remedy(text):
    """It names the option, the units, an example, the presets, and what was given."""
    with pytest.raises(
        ValueError, match="--step-time must be a time with its unit"
    ) as e:
        parse_seconds("--step-time", text)
    assert "12ms" in str(e.value)
    assert "resnet50-h100" in str(e.value)
    assert repr(text) in str(e.value)


@pytest.mark.parametrize("text", ["0s", "100ns", "2e4s", "3601s"])
def test_a_time_out_of_range_is_refused(text):
    """From a microsecond to an hour."""
    with pytest.raises(ValueError, match=r"--read-time must be in \[1e-06, 3600\] sec"):
        parse_seconds("--read-time", text)


@pytest.mark.parametrize(
    ("text", "count"),
    [("4096", 4096), ("4kB", 4000), ("1.5MB", 1_500_000), ("64B", 64)],
)
def test_bytes_may_have_a_unit(text, count):
    """Powers of ten."""
    assert parse_bytes("--result-bytes", text) == count


@pytest.mark.parametrize("text", ["4K", "1.5", "-4", "", "four"])
def test_what_is_not_a_number_of_bytes_is_refused(text):
    """With an example."""
    with pytest.raises(
        ValueError, match="--result-bytes must be a whole number of bytes"
    ):
        parse_bytes("--result-bytes", text)


def test_a_size_out_of_range_is_refused_in_terms_of_the_option():
    """A result holds at least the times of its step."""
    with pytest.raises(SettingError) as refused:
        settings("--result-bytes", "16")

    assert message_of(refused.value).startswith(
        "--result-bytes must be in [32, 1073741824]"
    )


def test_without_its_options_there_is_no_device():
    """The run is then as it always was."""
    assert settings() is None
    assert settings("--through", "device") is None


@pytest.mark.parametrize(
    "words",
    [
        ["--step-time", "1ms"],
        ["--knee"],
        ["--result-bytes", "64"],
        ["--read-time", "1ms"],
    ],
)
def test_each_option_alone_asks_for_a_device(words):
    """None is ignored for want of another."""
    assert isinstance(settings(*words), DeviceSettings)


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_stands_for_its_time(name):
    """In any case of letters; it knows batch and bar."""
    found = settings("--step-time", name.upper())

    assert found.preset == name
    assert found.step_seconds == PRESETS[name].seconds
    assert found.known_preset.bar in (0.7, 0.9)


def test_the_presets_are_those_of_mlperf_storage():
    """Samples of a batch, seconds on an A100 and on an H100."""
    table = {
        ("unet3d", 7): (0.636, 0.323),
        ("resnet50", 400): (0.435, 0.224),
        ("cosmoflow", 1): (0.00551, 0.00350),
    }
    for (model, batch), seconds in table.items():
        found = [PRESETS[f"{model}-{chip}"] for chip in ("a100", "h100")]
        assert tuple(preset.seconds for preset in found) == seconds
        assert {preset.batch for preset in found} == {batch}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"preset": "tpu"}, "`preset` must be one of unet3d-a100"),
        ({"preset": "unet3d-a100", "step_seconds": 1.0}, "`preset` excludes"),
        ({"step_seconds": 0.0}, r"`step_seconds` must be in \[1e-06, 3600\]"),
        ({"step_seconds": float("nan")}, "`step_seconds` must be in"),
        ({"read_seconds": 1e9}, "`read_seconds` must be in"),
        ({"result_bytes": 31}, r"`result_bytes` must be in \[32, 1073741824\]"),
    ],
)
def test_settings_out_of_range_are_refused(arguments, message):
    """By name, with the range and the value."""
    with pytest.raises(ValueError, match=message):
        DeviceSettings(**arguments)


@pytest.mark.parametrize(
    "arguments", [{"step_seconds": "1"}, {"knee": 1}, {"result_bytes": 4.5}]
)
def test_settings_of_other_types_are_refused(arguments):
    """By name and type."""
    (name,) = arguments
    with pytest.raises(TypeError, match=f"`{name}` must be"):
        DeviceSettings(**arguments)
