"""A command line, parsed and checked once; imports nothing that is slow."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from dataclasses import dataclass

from ipufeed.benchmark.cli.options.cold import check_cold_options
from ipufeed.benchmark.cli.options.device import device_settings_of
from ipufeed.benchmark.cli.options.parser import message_of, settings_of
from ipufeed.benchmark.cli.options.report import asked_for
from ipufeed.benchmark.cli.options.scaleout import check_scale_options
from ipufeed.benchmark.cli.options.stages import check_stage_options, excluding_option
from ipufeed.benchmark.device.settings import DeviceSettings
from ipufeed.benchmark.result.settings import Settings
from ipufeed.render.files import is_stdout, why_not_writable


@dataclass(frozen=True, kw_only=True)
class Command:
    """What is measured, how, and where the result goes.

    Attributes:
        target: The dataset's file, with a name in it; None for the built-in pipeline.
        assignments: Of `--set`, as they were typed.
        settings: Of the measurement.
        device: With a step time or what belongs to it; else None.
        is_on_device: Whether elements go through infeed, device and outfeed.
        cold: Whether the dataset's files are dropped from the page cache.
        cold_files: Patterns of these files; empty for those of the pipeline.
        service: `local:N` or `grpc://HOST:PORT`; None without tf.data service.
        sharding: How its workers share the data.
        compression: Of elements on their way from them.
        scale: Numbers of workers to measure with, sorted.
        kill_worker_after: Seconds until a worker is killed, or None.
        processes: That run the dataset at a time, or None.
        no_stages: Whether stages are not wanted.
        excluding: The option whose run has no stages, as `--cold`; None for none.
        verify: Whether advice is tried.
        what_if: Questions, as they were typed.
        compare: Files with results to compare with.
        allowed_loss: Of the rate, as a fraction; None without a gate.
        json: The file that gets the result, too; None for none.
        reports: The file of each report that is asked for.
        quiet: Whether stderr gets only errors.
    """

    target: str | None
    assignments: tuple[str, ...]
    settings: Settings
    device: DeviceSettings | None
    is_on_device: bool
    cold: bool
    cold_files: tuple[str, ...]
    service: str | None
    sharding: str
    compression: str
    scale: tuple[int, ...]
    kill_worker_after: float | None
    processes: int | None
    no_stages: bool
    excluding: str | None
    verify: bool
    what_if: tuple[str, ...]
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
    """Checks parsed options; what does not fit ends the process with a message."""
    try:
        settings = settings_of(options)
        check_stage_options(options)
        device = device_settings_of(options)
    except ValueError as error:
        parser.error(message_of(error))
    reports = asked_for(options)
    check_reports(parser, reports)
    json = checked_json(parser, options.json)
    check_cold_options(parser, options, device is not None)
    check_scale_options(parser, options, device is not None)
    if options.allowed_loss is not None and not options.compare:
        parser.error("--fail-if-slower needs --compare BASE.json: slower than what?")
    return Command(
        target=options.target,
        assignments=tuple(options.assignments),
        settings=settings,
        device=device,
        is_on_device=bool(options.through) or device is not None,
        cold=options.cold,
        cold_files=tuple(options.cold_files),
        service=options.service,
        sharding=options.sharding,
        compression=options.compression,
        scale=tuple(options.scale or ()),
        kill_worker_after=options.kill_worker_after,
        processes=options.processes,
        no_stages=options.no_stages,
        excluding=excluding_option(options),
        verify=options.verify,
        what_if=tuple(options.what_if),
        compare=tuple(options.compare),
        allowed_loss=options.allowed_loss,
        json=json,
        reports=reports,
        quiet=options.quiet,
    )


def check_reports(parser: ArgumentParser, reports: dict[str, str]) -> None:
    """A report that cannot be written should not first take ten seconds."""
    for kind, path in reports.items():
        if is_stdout(path):
            parser.error(f"--{kind} must be a file: stdout is the JSON's, got {path}")
        reason = why_not_writable(path)
        if reason is not None:
            parser.error(f"--{kind} {reason}")


def checked_json(parser: ArgumentParser, path: str | None) -> str | None:
    """The file for the result; None for stdout, where it goes in any case."""
    if path is None or is_stdout(path):
        return None
    reason = why_not_writable(path)
    if reason is not None:
        parser.error(f"--json {reason}")
    return path
