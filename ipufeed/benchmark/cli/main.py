"""The command: command, dataset, measurement, output."""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
import sys
from collections.abc import Callable
from typing import Any

from ipufeed.benchmark.cli.base import Base, code_of, read_bases
from ipufeed.benchmark.cli.options.command import Command, command_of
from ipufeed.benchmark.cli.options.compare import with_negative_values
from ipufeed.benchmark.cli.options.loader import check_loader_options, why_no_stages_of
from ipufeed.benchmark.cli.options.parser import build_parser, message_of
from ipufeed.benchmark.cli.options.stages import (
    why_no_stages,
)
from ipufeed.benchmark.device.settings import DeviceSettings
from ipufeed.benchmark.load.load import ScriptError, load_dataset
from ipufeed.benchmark.loaders.kinds import kind_of
from ipufeed.benchmark.process.interrupts import Interrupts
from ipufeed.benchmark.process.messages import print_message
from ipufeed.benchmark.process.streams import open_missing_streams, take_stdout
from ipufeed.errors import (
    ComparisonError,
    DatasetFileError,
    MeasurementInterrupted,
    NativeLibraryError,
    ScaleOutError,
)
from ipufeed.tf_types import Dataset

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
    command = command_of(parser, parser.parse_args(with_negative_values(arguments)))
    try:
        base = read_bases(command)
    except ComparisonError as error:
        print_message(str(error))
        return code_of(error)
    stdout = take_stdout()
    interrupts = Interrupts()
    interrupts.catch()
    try:
        return run(command, stdout, interrupts, base)
    except KeyboardInterrupt:
        print_message("interrupted before anything was measured.")
        return interrupts.code
    except BaseException:
        if not interrupts.came:
            raise
        # In an import an Interruption can come out as whatever that makes of it.
        print_message("interrupted before anything was measured.")
        return interrupts.code
    finally:
        interrupts.ignore()


def run(
    command: Command,
    stdout: int,
    interrupts: Interrupts,
    base: Base | None,
) -> int:
    """Loads, measures, prints."""
    if command.processes:
        return run_processes(command, stdout)
    try:
        dataset, name = load_dataset(command.target, command.assignments, command.quiet)
    except (DatasetFileError, NativeLibraryError) as error:
        interrupts.raise_again()
        print_message(str(error))
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
        check_against(command, dataset)
        recording = recording_for(command)
        with ProgressBar(command.settings, command.quiet) as progress:
            run_it: Callable[..., Any] = measure
            if command.is_on_device:
                run_it = through_device(command.device)
            elif command.cold:
                run_it = on_cold_files(list(command.cold_files))
            if command.service:
                run_it = through_service(command)
            result = run_it(
                dataset,
                command.settings,
                name=name,
                on_progress=progress,
                recording=recording,
            )
        if command.excluding is None and not command.no_stages:
            result, code = attribute(result, dataset, command, interrupts)
    except MeasurementInterrupted as interruption:
        if interruption.result is None:
            print_message("interrupted before anything was measured.")
            return interrupts.code
        result, code = interruption.result, interrupts.code
    except (ValueError, ScaleOutError) as error:
        print_message(message_of(error))
        return BAD_INPUT
    except tf.errors.OpError as error:
        print_message(
            f"the dataset cannot be started: {type(error).__name__}: {error.message}"
        )
        return BAD_INPUT
    interrupts.held = True  # from here on there is a result to lose
    if code == OK and result.error is not None:
        code = BAD_INPUT
    elif code == OK and result.elements == 0:
        code = NOTHING_MEASURED
    if base is None:
        code = print_result(result, command, stdout, code)
    else:
        found = base.compared_with(result)
        result = found.result
        code = print_result(result, command, stdout, code) or found.code
        if not command.quiet or found.failure:
            with contextlib.suppress(OSError):  # stderr is full; the result is out
                print("\n".join(found.lines), file=sys.stderr, flush=True)
    failed = write_reports(result, command, recording)
    return interrupts.code if interrupts.came else code or failed


def attribute(
    result: Any, dataset: Dataset, command: Command, interrupts: Interrupts
) -> tuple[Any, int]:
    """The result with its stages, and the exit code; Ctrl-C keeps what was measured."""
    from ipufeed.benchmark.advice.with_stages import NO_STAGES, warned, with_stages

    try:
        return with_stages(
            result, dataset, verified=command.verify, what_if=list(command.what_if)
        ), OK
    except MeasurementInterrupted as interruption:
        return interruption.result, interrupts.code
    except KeyboardInterrupt:
        return warned(result, NO_STAGES), interrupts.code


def check_against(command: Command, dataset: Any) -> None:
    """Refuses what this dataset, or loader, cannot be asked."""
    loader = kind_of(dataset)
    if loader is not None:
        check_loader_options(command, loader.name)
    if command.what_if:
        check_what_if(list(command.what_if), dataset)


def check_what_if(questions: list[str], dataset: Any) -> None:
    """A question without an answer should not first take ten seconds."""
    from ipufeed.benchmark.advice.what_if import check_stages, parse_what_if

    try:
        check_stages([parse_what_if(text) for text in questions], dataset)
    except ValueError as error:
        raise ValueError(str(error).replace("`what_if`", "--what-if")) from error


def recording_for(command: Command) -> Any:
    """What a trace needs to know of the threads; None without --trace."""
    if command.trace is None:
        return None
    from ipufeed.benchmark.measuring.recording import Recording

    return Recording()


def write_reports(result: Any, command: Command, recording: Any) -> int:
    """Writes the reports that are asked for; returns what went wrong as a code."""
    asked = command.reports
    if not asked:
        return OK
    from ipufeed.benchmark.report import files

    failures = files.write_reports(files.as_stored(result), asked, recording)
    for failure in failures:
        print_message(failure)
    return BAD_INPUT if failures else OK


def through_device(device: DeviceSettings | None) -> Callable[..., Any]:
    """What measures with --through; it registers the device, so it is not for all."""
    from ipufeed.benchmark.device.measure import measure_through

    return functools.partial(measure_through, device=device)


def on_cold_files(patterns: list[str]) -> Callable[..., Any]:
    """What measures with --cold."""
    from ipufeed.benchmark.cold.measure import measure_cold

    return functools.partial(measure_cold, files=patterns)


def run_processes(command: Command, stdout: int) -> int:
    """What --processes does: this process needs no dataset, and no TensorFlow."""
    from ipufeed.benchmark.scaleout.processes import measure_processes

    assert command.processes is not None

    if not command.quiet:
        print(
            f"measuring one process alone, then {command.processes} at a time",
            file=sys.stderr,
        )
    try:
        result = measure_processes(
            command.target,
            list(command.assignments),
            command.settings,
            command.processes,
        )
    except ScaleOutError as error:
        print_message(message_of(error))
        return BAD_INPUT
    return print_result(result, command, stdout, OK)


def through_service(command: Command) -> Callable[..., Any]:
    """What measures with --service."""
    from ipufeed.benchmark.scaleout.service import ServiceSettings, measure_service

    assert command.service is not None

    service = ServiceSettings(
        service=command.service,
        sharding=command.sharding,
        compression=command.compression,
        scale=command.scale,
        kill_worker_after=command.kill_worker_after,
    )
    return functools.partial(measure_service, service=service)


def no_stages_of(result: Any, command: Command) -> str | None:
    """Why the summary has no stages, where the user has not asked to do without them."""
    loader = result.dataset.get("loader")
    if result.stages:
        return None
    if loader and not command.no_stages and command.excluding is None:
        return why_no_stages_of(loader)
    return why_no_stages(command.no_stages, command.excluding)


def print_result(result: Any, command: Command, stdout: int, code: int) -> int:
    """The JSON to stdout, and into a file; the summary to stderr."""
    from ipufeed.benchmark.report.summary import summarize

    if command.json is not None:
        try:
            result.write(command.json)
        except OSError as error:
            print_message(f"cannot write {command.json}: {error.strerror or error}.")
            code = code or BAD_INPUT
    try:
        with os.fdopen(stdout, "w", encoding="utf-8") as file:
            file.write(result.to_json() + "\n")
    except BrokenPipeError:  # the reader has seen enough
        pass
    except OSError as error:
        print_message(f"cannot write the result to stdout: {error.strerror or error}.")
        code = code or BAD_INPUT
    try:
        if not command.quiet:
            summary = summarize(result, no_stages_of(result, command))
            print(summary, file=sys.stderr, flush=True)
        elif result.error is not None:
            from ipufeed.benchmark.report.failure import sentence_of

            kind, message = result.error["type"], sentence_of(result.error)
            print_message(f"the dataset failed: {kind}: {message}")
    except OSError:  # stderr is full; the result is out
        pass
    return code
