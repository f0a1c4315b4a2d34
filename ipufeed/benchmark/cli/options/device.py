"""The options of a device with a step time; without TensorFlow."""

from __future__ import annotations

import argparse
import re

from ipufeed.benchmark.device.settings import PRESETS, DeviceSettings, check_seconds
from ipufeed.benchmark.result.settings import SettingError

UNITS = {
    "ns": 1e-9,
    "us": 1e-6,
    "\N{MICRO SIGN}s": 1e-6,
    "\N{GREEK SMALL LETTER MU}s": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
}
SIZES = {"": 1, "B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9}
_TIME = re.compile(r"(\d+\.?\d*(?:e-?\d+)?|\.\d+) ?([^\d\s.]*)", re.ASCII)


def add_device_options(parser: argparse.ArgumentParser) -> None:
    """Adds --step-time, --knee, --result-bytes and --read-time."""
    group = parser.add_argument_group(
        "a device to feed (each of these implies --through device)"
    )
    group.add_argument(
        "--step-time",
        metavar="TIME",
        help="each step of the device takes TIME, as 12ms (ns, us, ms, s), or the time of "
        f"a step of an MLPerf job: {', '.join(PRESETS)}; the result reports the device's "
        "utilisation (AU) and its starved steps",
    )
    group.add_argument(
        "--knee",
        action="store_true",
        help="afterwards sweep the step time from 1/4 to 4 times the pipeline's period",
    )
    group.add_argument(
        "--result-bytes",
        metavar="N",
        help="each step returns N bytes to the host (also as 4kB, 1MB)",
    )
    group.add_argument(
        "--read-time",
        metavar="TIME",
        help="the host takes TIME to process each result: is it fast enough?",
    )


def device_settings_of(options: argparse.Namespace) -> DeviceSettings | None:
    """Returns the device's settings; None without any of the options.

    Raises:
        SettingError: A setting is out of range.
        ValueError: A value cannot be parsed; the message names the option.
    """
    values = (options.step_time, options.result_bytes, options.read_time)
    if all(value is None for value in values) and not options.knee:
        return None
    step: float | None = None
    preset: str | None = None
    if options.step_time is not None:
        if options.step_time.lower() in PRESETS:
            preset = options.step_time.lower()
        else:
            step = parse_seconds("--step-time", options.step_time)
    size, read = options.result_bytes, options.read_time
    return DeviceSettings(
        step_seconds=step,
        preset=preset,
        knee=options.knee,
        result_bytes=None if size is None else parse_bytes("--result-bytes", size),
        read_seconds=None if read is None else parse_seconds("--read-time", read),
    )


def parse_seconds(option: str, text: str) -> float:
    """Returns `12ms` as 0.012.

    Raises:
        ValueError: `text` is not a time with a unit, or is out of range.
    """
    found = _TIME.fullmatch(text.strip())
    if found is None or found[2] not in UNITS:
        presets = f", or one of {', '.join(PRESETS)}" if option == "--step-time" else ""
        raise ValueError(
            f"{option} must be a time with its unit (ns, us, ms, s), as 12ms{presets}; got "
            f"{text!r}."
        )
    seconds = float(found[1]) * UNITS[found[2]]
    try:
        check_seconds(option, seconds)
    except SettingError as error:
        raise ValueError(error.worded(str)) from error
    return seconds


def parse_bytes(option: str, text: str) -> int:
    """Returns `4kB` as 4000.

    Raises:
        ValueError: `text` is not a whole number of bytes.
    """
    found = _TIME.fullmatch(text.strip())
    if found is not None and found[2] in SIZES:
        count = float(found[1]) * SIZES[found[2]]
        if count == int(count):
            return int(count)
    raise ValueError(
        f"{option} must be a whole number of bytes, as 4096, 4kB or 1MB; got {text!r}."
    )
