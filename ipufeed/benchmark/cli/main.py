"""The command: options, dataset, measurement, output."""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from typing import Any

from ipufeed.benchmark.cli.base import Base, code_of, read_bases
from ipufeed.benchmark.cli.options.cold import check_cold_options
from ipufeed.benchmark.cli.options.compare import with_negative_values
from ipufeed.benchmark.cli.options.device import device_settings_of
from ipufeed.benchmark.cli.options.loader import check_loader_options, why_no_stages_of
from ipufeed.benchmark.cli.options.parser import build_parser, message_of, settings_of
from ipufeed.benchmark.cli.options.report import asked_for
from ipufeed.benchmark.cli.options.scaleout import check_scale_options
from ipufeed.benchmark.cli.options.stages import (
    check_stage_options,
    excluding_option,
    why_no_stages,
)
from ipufeed.benchmark.device.settings import DeviceSettings
from ipufeed.benchmark.load.load import ScriptError, load_dataset
from ipufeed.benchmark.loaders.kinds import kind_of
from ipufeed.benchmark.process.interrupts import Interrupts
from ipufeed.benchmark.process.messages import complain
from ipufeed.benchmark.process.streams import open_missing_streams, take_stdout
from ipufeed.benchmark.result.settings import Settings
from ipufeed.errors import (
    ComparisonError,
    DatasetFileError,
    MeasurementInterrupted,
    NativeLibraryError,
    ScaleOutError,
)
from ipufeed.render.files import is_stdout, why_not_writable

# The first word of a command line; a file of that name is ./compare.
SUBCOMMANDS = {
    "compare": "ipufeed.benchmark.cli.compare",
    "report": "ipufeed.benchmark.cli.report",
    "selftest": "ipufeed.benchmark.selftest",
}
OK, BAD_INPUT, NOTHING_MEASURED = 0, 2, 4


def main(arguments: list[str] | None = None) -> int:
    """Runs the command and returns its exit code."""
    arguments = sys.argv[1:] if arguments is None else arguments
    open_missing_streams()
    if arguments[:1] and arguments[0] in SUBCOMMANDS:
        module = importlib.import_module(SUBCOMMANDS[arguments[0]])
        return int(module.main(arguments[1:]))
    parser = build_parser()
    options = parser.parse_args(with_negative_values(arguments))
    try:
        settings = settings_of(options)
        check_stage_options(options)
        device = device_settings_of(options)
    except ValueError as error:
        parser.error(message_of(error))
    check_output(parser, options)
    check_cold_options(parser, options, device is not None)
    check_scale_options(parser, options, device is not None)
    try:
        base = read_bases(options)
    except ComparisonError as error:
        complain(str(error))
        return code_of(error)
    except ValueError as error:
        parser.error(str(error))
    stdout = take_stdout()
    interrupts = Interrupts()
    interrupts.catch()
    try:
        return run(options, settings, device, stdout, interrupts, base)
    except KeyboardInterrupt:
        complain("interrupted before anything was measured.")
        return interrupts.code
    except BaseException:
        if not interrupts.came:
            raise
        # In an import an Interruption can come out as whatever that makes of it.
        complain("interrupted before anything was measured.")
        return interrupts.code
    finally:
        interrupts.ignore()


def check_output(parser: ArgumentParser, options: Namespace) -> None:
    """A result that cannot be written should not first take ten seconds."""
    for kind, path in asked_for(options).items():
        if is_stdout(path):
            parser.error(f"--{kind} must be a file: stdout is the JSON's, got {path}")
        reason = why_not_writable(path)
        if reason is not None:
            parser.error(f"--{kind} {reason}")
    if options.json is None:
        return
    if is_stdout(options.json):
        options.json = None  # it goes there in any case
        return
    reason = why_not_writable(options.json)
    if reason is not None:
        parser.error(f"--json {reason}")


def run(
    options: Namespace,
    settings: Settings,
    device: DeviceSettings | None,
    stdout: int,
    interrupts: Interrupts,
    base: Base | None,
) -> int:
    """Loads, measures, prints."""
    if options.processes:
        return run_processes(options, settings, stdout)
    try:
        dataset, name = load_dataset(options)
    except (DatasetFileError, NativeLibraryError) as error:
        interrupts.raise_again()
        complain(str(error))
        return BAD_INPUT
    except ScriptError as error:
        interrupts.raise_again()
        error.show()
        return BAD_INPUT  # whatever the file itself asked for
    interrupts.raise_again()
    import tensorflow as tf

    from ipufeed.benchmark.cli.progress import ProgressBar
    from ipufeed.benchmark.measuring.measure import measure

    code, recording = OK, None
    try:
        check_against(options, dataset)
        recording = recording_for(options)
        with ProgressBar(settings, options.quiet) as progress:
            run_it: Callable[..., Any] = measure
            on_device = options.through or device is not None
            if on_device:
                run_it = through_device(device)
            elif options.cold:
                run_it = on_cold_files(options.cold_files)
            if options.service:
                run_it = through_service(options)
            result = run_it(
                dataset,
                settings,
                name=name,
                on_progress=progress,
                recording=recording,
            )
        if excluding_option(options) is None and not options.no_stages:
            result, code = attribute(result, dataset, options, interrupts)
    except MeasurementInterrupted as interruption:
        if interruption.result is None:
            complain("interrupted before anything was measured.")
            return interrupts.code
        result, code = interruption.result, interrupts.code
    except (ValueError, ScaleOutError) as error:
        complain(message_of(error))
        return BAD_INPUT
    except tf.errors.OpError as error:
        complain(
            f"the dataset cannot be started: {type(error).__name__}: {error.message}"
        )
        return BAD_INPUT
    interrupts.held = True  # from here on there is a result to lose
    if code == OK and result.error is not None:
        code = BAD_INPUT
    elif code == OK and result.elements == 0:
        code = NOTHING_MEASURED
    if base is None:
        code = print_result(result, options, stdout, code)
    else:
        found = base.compared_with(result)
        result = found.result
        code = print_result(result, options, stdout, code) or found.code
        if not options.quiet or found.failure:
            with contextlib.suppress(OSError):  # stderr is full; the result is out
                print("\n".join(found.lines), file=sys.stderr, flush=True)
    failed = write_reports(result, options, recording)
    return interrupts.code if interrupts.came else code or failed


def attribute(
    result: Any, dataset: Any, options: Namespace, interrupts: Interrupts
) -> tuple[Any, int]:
    """The result with its stages, and the exit code; Ctrl-C keeps what was measured."""
    from ipufeed.benchmark.advice.with_stages import NO_STAGES, warned, with_stages

    try:
        return with_stages(
            result, dataset, verified=options.verify, what_if=options.what_if
        ), OK
    except MeasurementInterrupted as interruption:
        return interruption.result, interrupts.code
    except KeyboardInterrupt:
        return warned(result, NO_STAGES), interrupts.code


def check_against(options: Namespace, dataset: Any) -> None:
    """Refuses what this dataset, or loader, cannot be asked."""
    loader = kind_of(dataset)
    if loader is not None:
        check_loader_options(options, loader.name)
    if options.what_if:
        check_what_if(options.what_if, dataset)


def check_what_if(questions: list[str], dataset: Any) -> None:
    """A question without an answer should not first take ten seconds."""
    from ipufeed.benchmark.advice.what_if import check_stages, parse_what_if

    try:
        check_stages([parse_what_if(text) for text in questions], dataset)
    except ValueError as error:
        raise ValueError(str(error).replace("`what_if`", "--what-if")) from error


def recording_for(options: Namespace) -> Any:
    """What a trace needs to know of the threads; None without --trace."""
    if options.trace is None:
        return None
    from ipufeed.benchmark.measuring.recording import Recording

    return Recording()


def write_reports(result: Any, options: Namespace, recording: Any) -> int:
    """Writes the reports that are asked for; returns what went wrong as a code."""
    asked = asked_for(options)
    if not asked:
        return OK
    from ipufeed.benchmark.report import files

    failures = files.write_reports(files.as_stored(result), asked, recording)
    for failure in failures:
        complain(failure)
    return BAD_INPUT if failures else OK


def through_device(device: DeviceSettings | None) -> Callable[..., Any]:
    """What measures with --through; it registers the device, so it is not for all."""
    from ipufeed.benchmark.device.measure import measure_through

    return functools.partial(measure_through, device=device)


def on_cold_files(patterns: list[str]) -> Callable[..., Any]:
    """What measures with --cold."""
    from ipufeed.benchmark.cold.measure import measure_cold

    return functools.partial(measure_cold, files=patterns)


def run_processes(options: Namespace, settings: Settings, stdout: int) -> int:
    """What --processes does: this process needs no dataset, and no TensorFlow."""
    from ipufeed.benchmark.scaleout.processes import measure_processes

    if not options.quiet:
        print(
            f"measuring one process alone, then {options.processes} at a time",
            file=sys.stderr,
        )
    try:
        result = measure_processes(
            options.target, options.assignments, settings, options.processes
        )
    except ScaleOutError as error:
        complain(message_of(error))
        return BAD_INPUT
    return print_result(result, options, stdout, OK)


def through_service(options: Namespace) -> Callable[..., Any]:
    """What measures with --service."""
    from ipufeed.benchmark.scaleout.service import ServiceSettings, measure_service

    service = ServiceSettings(
        service=options.service,
        sharding=options.sharding,
        compression=options.compression,
        scale=tuple(options.scale),
        kill_worker_after=options.kill_worker_after,
    )
    return functools.partial(measure_service, service=service)


def no_stages_of(result: Any, options: Namespace) -> str | None:
    """Why the summary has no stages, where the user has not asked to do without them."""
    loader = result.dataset.get("loader")
    if result.stages:
        return None
    if loader and not options.no_stages and excluding_option(options) is None:
        return why_no_stages_of(loader)
    return why_no_stages(options)


def print_result(result: Any, options: Namespace, stdout: int, code: int) -> int:
    """The JSON to stdout, and into a file; the summary to stderr."""
    from ipufeed.benchmark.report.summary import summarize

    if options.json is not None:
        try:
            result.write(options.json)
        except OSError as error:
            complain(f"cannot write {options.json}: {error.strerror or error}.")
            code = code or BAD_INPUT
    try:
        with os.fdopen(stdout, "w", encoding="utf-8") as file:
            file.write(result.to_json() + "\n")
    except BrokenPipeError:  # the reader has seen enough
        pass
    except OSError as error:
        complain(f"cannot write the result to stdout: {error.strerror or error}.")
        code = code or BAD_INPUT
    try:
        if not options.quiet:
            summary = summarize(result, no_stages_of(result, options))
            print(summary, file=sys.stderr, flush=True)
        elif result.error is not None:
            from ipufeed.benchmark.report.failure import sentence_of

            kind, message = result.error["type"], sentence_of(result.error)
            complain(f"the dataset failed: {kind}: {message}")
    except OSError:  # stderr is full; the result is out
        pass
    return code
