"""The command's options for stages, advice and what-if; imports nothing that is slow."""

from __future__ import annotations

import argparse

# What is measured with these is more than the dataset alone, with its files in memory.
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
    """`--no-stages`, `--verify`, `--what-if`."""
    group = parser.add_argument_group("what holds it back")
    group.add_argument(
        "--no-stages",
        action="store_true",
        help="do not iterate the dataset again, for half of the measuring time and at "
        "most 5 s, to find out which stage takes the time",
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


def check_stage_options(options: argparse.Namespace) -> None:
    """Refuses options that exclude each other, or that have no effect.

    Raises:
        ValueError: In terms of the options.
    """
    from ipufeed.benchmark.advice.what_if import parse_what_if

    wanted = [name for name in ("verify", "what_if") if getattr(options, name)]
    without = excluding_option(options)
    for name in wanted:
        option = "--" + name.replace("_", "-")
        if options.no_stages:
            raise ValueError(f"{option} excludes --no-stages: it needs the stages.")
        if without is not None:
            raise ValueError(
                f"{option} excludes {without}: stages are those of the dataset alone, in "
                f"one process and with its files in memory. Leave {option} out, or "
                f"{without}."
            )
    for text in options.what_if:
        try:
            parse_what_if(text)
        except ValueError as error:
            raise ValueError(str(error).replace("`what_if`", "--what-if")) from error


def excluding_option(options: argparse.Namespace) -> str | None:
    """The option that asks for a run whose stages are not looked at, or None."""
    for name in EXCLUDING:
        if getattr(options, name) not in (None, False, []):
            return "--" + name.replace("_", "-")
    return None


def why_no_stages(no_stages: bool, excluding: str | None) -> str | None:
    """For the summary, where the user has not asked to do without them."""
    if no_stages or excluding is None:
        return None
    return f"not with {excluding}: run without it to see them"
