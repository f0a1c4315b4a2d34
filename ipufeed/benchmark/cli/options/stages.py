"""The options for stages, advice and what-if; without TensorFlow."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ipufeed.benchmark.advice.what_if import WhatIf

# Stages are those of the dataset alone, with its files in memory; these measure more.
EXCLUDING = (
    "processes",
    "service",
    "cold",
    "cold_files",
    "through",
    "step_time",
    "knee",
    "result_bytes",
    "read_time",
)


def add_stage_options(parser: argparse.ArgumentParser) -> None:
    """Adds --no-stages, --verify and --what-if."""
    group = parser.add_argument_group("what holds it back")
    group.add_argument(
        "--no-stages",
        action="store_true",
        help="do not iterate the dataset a second time (half of the measuring time, at "
        "most 5 s) to find the stage that takes the time",
    )
    group.add_argument(
        "--verify",
        action="store_true",
        help="try the advice: edit the pipeline, measure both alternately, and report the "
        "gain next to the predicted one",
    )
    group.add_argument(
        "--what-if",
        action="append",
        default=[],
        metavar="STAGE=SPEED",
        dest="what_if",
        help="predict the rate with a stage twice as fast (decode=2x), half as fast "
        "(0.5x) or free (decode=free); may be repeated",
    )


def questions_of(options: argparse.Namespace) -> tuple[WhatIf, ...]:
    """Returns the questions of --what-if; checks the options for stages.

    Raises:
        SettingError: A question is not of the form STAGE=SPEED.
        ValueError: Options exclude each other; the message names them.
    """
    from ipufeed.benchmark.advice.what_if import parse_what_if

    without = excluding_option(options)
    for name in ("verify", "what_if"):
        if not getattr(options, name):
            continue
        option = "--" + name.replace("_", "-")
        if options.no_stages:
            raise ValueError(f"{option} excludes --no-stages: it needs the stages.")
        if without is not None:
            raise ValueError(
                f"{option} excludes {without}: stages are those of the dataset alone, in "
                f"one process and with its files in memory. Leave {option} out, or "
                f"{without}."
            )
    return tuple(map(parse_what_if, options.what_if))


def excluding_option(options: argparse.Namespace) -> str | None:
    """Returns the option whose run has no stages, or None."""
    for name in EXCLUDING:
        if getattr(options, name) not in (None, False, []):
            return "--" + name.replace("_", "-")
    return None


def why_no_stages(no_stages: bool, excluding: str | None) -> str | None:
    """Returns the summary's text in place of stages; None with --no-stages."""
    if no_stages or excluding is None:
        return None
    return f"not with {excluding}: run without it to see them"
