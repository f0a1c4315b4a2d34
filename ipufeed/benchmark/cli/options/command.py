"""A command line, parsed and checked once; without TensorFlow."""

from __future__ import annotations

import os
import re
from argparse import ArgumentParser, Namespace
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ipufeed.benchmark.cli.options.device import device_settings_of
from ipufeed.benchmark.cli.options.parser import message_of, settings_of
from ipufeed.benchmark.cli.options.report import check_different, reports_of
from ipufeed.benchmark.cli.options.scaleout import service_of
from ipufeed.benchmark.cli.options.stages import excluding_option, questions_of
from ipufeed.benchmark.device.settings import DeviceSettings
from ipufeed.benchmark.result.settings import Settings
from ipufeed.benchmark.scaleout.settings import ServiceSettings
from ipufeed.render.files import is_stdout, why_not_writable

if TYPE_CHECKING:
    from ipufeed.benchmark.advice.what_if import WhatIf

# Options that need the graph of a tf.data dataset, and the reason.
NEED_A_DATASET = {
    "verify": "it edits the pipeline's graph",
    "what_if": "it needs the stages of the pipeline's graph",
    "cold": "it finds the files in the pipeline's graph",
    "service": "it sends the pipeline's graph to the workers",
    "trace": "it shows the native threads that read a dataset",
}


@dataclass(frozen=True, kw_only=True)
class Command:
    """A checked command line: what to measure, how, and where to write the result.

    Attributes:
        target: The dataset's file, perhaps with a name in it; None for the built-in
            pipeline.
        assignments: The values of `--set`, as typed.
        settings: The settings of the measurement.
        device: The settings of a device with a step time; else None.
        is_on_device: Whether elements go through infeed, device and outfeed.
        cold: Whether the dataset's files are dropped from the page cache.
        cold_files: Patterns of these files; empty for those of the pipeline.
        service: The settings of tf.data service; None without it.
        processes: Number of processes that run the dataset at a time, or None.
        no_stages: Whether the run for stages is left out.
        excluding: The option that excludes stages, as `--cold`, or None.
        verify: Whether advice is tried.
        what_if: The questions of `--what-if`.
        compare: Files of the results to compare with.
        allowed_loss: Fraction of the rate; None without a gate.
        json: The file to write the result to as well, or None.
        reports: The file of each report.
        quiet: Whether only errors are printed on stderr.
    """

    target: str | None
    assignments: tuple[str, ...]
    settings: Settings
    device: DeviceSettings | None
    is_on_device: bool
    cold: bool
    cold_files: tuple[str, ...]
    service: ServiceSettings | None
    processes: int | None
    no_stages: bool
    excluding: str | None
    verify: bool
    what_if: tuple[WhatIf, ...]
    compare: tuple[str, ...]
    allowed_loss: float | None
    json: str | None
    reports: dict[str, str]
    quiet: bool

    @property
    def trace(self) -> str | None:
        """The file of the trace, or None."""
        return self.reports.get("trace")


def command_of(parser: ArgumentParser, options: Namespace) -> Command:
    """Checks parsed options; ends the process with a message if they are wrong."""
    try:
        settings = settings_of(options)
        questions = questions_of(options)
        device = device_settings_of(options)
    except ValueError as error:
        parser.error(message_of(error))
    reports = _checked_reports(parser, reports_of(options))
    json = _checked_json(parser, options.json)
    check_different(parser, _files_of(options, json, reports))
    cold = options.cold or bool(options.cold_files)
    if cold:
        _check_cold(parser, options, device is not None)
    service = service_of(parser, options, device is not None)
    if options.allowed_loss is not None and not options.compare:
        parser.error("--fail-if-slower needs --compare BASE.json.")
    return Command(
        target=options.target,
        assignments=tuple(options.assignments),
        settings=settings,
        device=device,
        is_on_device=bool(options.through) or device is not None,
        cold=cold,
        cold_files=tuple(map(os.path.abspath, options.cold_files)),
        service=service,
        processes=options.processes,
        no_stages=options.no_stages,
        excluding="--cold" if cold else excluding_option(options),
        verify=options.verify,
        what_if=questions,
        compare=tuple(options.compare),
        allowed_loss=options.allowed_loss,
        json=json,
        reports=reports,
        quiet=options.quiet,
    )


# Files are checked before the run, so that the error does not come after ten seconds. Their
# paths are made absolute, since the dataset's file may change the working directory.
def _checked_reports(parser: ArgumentParser, reports: dict[str, str]) -> dict[str, str]:
    """Returns the file of each report."""
    for kind, path in reports.items():
        if is_stdout(path):
            parser.error(f"--{kind} must be a file: stdout is the JSON's, got {path}")
        reason = why_not_writable(path)
        if reason is not None:
            parser.error(f"--{kind} {reason}")
    return {kind: os.path.abspath(path) for kind, path in reports.items()}


def _checked_json(parser: ArgumentParser, path: str | None) -> str | None:
    """Returns the file of --json; None for stdout, which gets the result anyway."""
    if path is None or is_stdout(path):
        return None
    reason = why_not_writable(path)
    if reason is not None:
        parser.error(f"--json {reason}")
    return os.path.abspath(path)


def _files_of(
    options: Namespace, json: str | None, reports: dict[str, str]
) -> dict[str, str]:
    """Returns every file that is read or written, by the option that names it."""
    written = {f"--{kind}": path for kind, path in reports.items()}
    if json is not None:
        written["--json"] = json
    if options.target is None:
        return written
    file = re.sub(r"(?<=\.py):.*", "", options.target)  # without the name in it
    return {"the dataset's file": file, **written}


def _check_cold(parser: ArgumentParser, options: Namespace, on_device: bool) -> None:
    if options.through or on_device:
        device = "--through" if options.through else "the options of a device"
        parser.error(f"--cold measures a dataset alone: leave out {device}, or --cold.")


def check_loader_options(command: Command, kind: str) -> None:
    """Refuses options that a loader does not support.

    Args:
        command: The command.
        kind: The loader's kind, such as `torch DataLoader`.

    Raises:
        ValueError: The message names the option.
    """
    for name, why in NEED_A_DATASET.items():
        if getattr(command, name) not in (None, False, ()):
            option = "--" + name.replace("_", "-")
            raise ValueError(
                f"{option} is for tf.data pipelines ({why}), and this is a {kind}: "
                f"leave {option} out."
            )
