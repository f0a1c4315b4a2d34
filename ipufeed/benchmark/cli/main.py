"""Runs the command: parses argv, loads the dataset, measures, prints; its exit codes."""

from __future__ import annotations

import contextlib
import faulthandler
import functools
import importlib
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from ipufeed.benchmark.cli.base import Base, code_of, read_bases
from ipufeed.benchmark.cli.options.command import (
    Command,
    check_loader_options,
    command_of,
)
from ipufeed.benchmark.cli.options.compare import with_negative_values
from ipufeed.benchmark.cli.options.parser import build_parser, message_of
from ipufeed.benchmark.cli.options.stages import why_no_stages
from ipufeed.benchmark.load.load import ScriptError, load_dataset
from ipufeed.benchmark.process.interrupts import Interrupts
from ipufeed.benchmark.process.streams import (
    open_missing_streams,
    print_message,
    take_stdout,
)
from ipufeed.errors import (
    ComparisonError,
    DatasetFileError,
    MeasurementInterrupted,
    NativeLibraryError,
    ScaleOutError,
)
from ipufeed.exit_codes import BAD_INPUT, NOTHING_MEASURED, OK
from ipufeed.sources.loaders.failure import EmptyLoaderError
from ipufeed.sources.loaders.kinds import kind_of

if TYPE_CHECKING:
    from ipufeed.benchmark.measuring.recording import Recording
    from ipufeed.benchmark.measuring.run import Progress
    from ipufeed.benchmark.result.result import Result
    from ipufeed.tf_types import Dataset

# The first word of a command line; a file of that name is ./compare.
SUBCOMMANDS = {
    "compare": "ipufeed.benchmark.cli.compare",
    "report": "ipufeed.benchmark.cli.report",
    "selftest": "ipufeed.benchmark.selftest",
}


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
    _show_crashes()
    try:
        return _run(command, stdout, interrupts, base)
    except KeyboardInterrupt:
        print_message("interrupted before anything was measured.")
        return interrupts.code
    except BaseException:
        if not interrupts.arrived:
            raise
        # An import may turn an Interruption into another exception.
        print_message("interrupted before anything was measured.")
        return interrupts.code
    finally:
        interrupts.ignore()


def _show_crashes() -> None:
    """Lets stderr have the line that ran, if frameworks in one process crash it."""
    if not faulthandler.is_enabled():
        with contextlib.suppress(OSError, RuntimeError, ValueError):  # without a stderr
            faulthandler.enable(all_threads=False)


def _run(
    command: Command, stdout: int, interrupts: Interrupts, base: Base | None
) -> int:
    if command.processes:
        return _run_processes(command, stdout)
    try:
        dataset, name = load_dataset(command.target, command.assignments, command.quiet)
    except (DatasetFileError, NativeLibraryError) as error:
        interrupts.raise_again()
        print_message(str(error))
        return BAD_INPUT
    except ScriptError as error:
        interrupts.raise_again()
        error.show()
        return BAD_INPUT  # also if the file called sys.exit(0)
    interrupts.hold_errors_of_children()
    interrupts.raise_again()
    import tensorflow as tf

    from ipufeed.benchmark.cli.progress import ProgressBar
    from ipufeed.benchmark.measuring.recording import Recording

    code, recording = OK, Recording() if command.trace is not None else None
    try:
        _check_options_for(dataset, command)
        with ProgressBar(command.settings, command.quiet) as progress:

            def on_progress(counts: Progress) -> None:
                interrupts.raise_again()
                progress(counts)

            result = _measure_function(command)(
                dataset,
                command.settings,
                name=name,
                on_progress=on_progress,
                recording=recording,
            )
        without_stages = command.excluding is not None or command.no_stages
        if not without_stages and not interrupts.arrived:
            result, code = _with_stages(result, dataset, command, interrupts)
    except MeasurementInterrupted as interruption:
        if interruption.result is None:
            print_message("interrupted before anything was measured.")
            return interrupts.code
        result, code = interruption.result, interrupts.code
    except (ValueError, ScaleOutError) as error:
        print_message(message_of(error))
        is_empty = isinstance(error, EmptyLoaderError)
        return NOTHING_MEASURED if is_empty else BAD_INPUT
    except tf.errors.OpError as error:
        print_message(
            f"the dataset cannot be started: {type(error).__name__}: {error.message}"
        )
        return BAD_INPUT
    interrupts.held = True  # from here on a signal must not lose the result
    if code == OK and result.error is not None:
        code = BAD_INPUT
    elif code == OK and result.elements == 0:
        code = NOTHING_MEASURED
    if base is None:
        code = _print_result(result, command, stdout, code)
    else:
        found = base.compared_with(result)
        result = found.result
        code = _print_result(result, command, stdout, code) or found.code
        if not command.quiet or found.failure:
            with contextlib.suppress(OSError):  # stderr is full; the result is written
                print("\n".join(found.lines), file=sys.stderr, flush=True)
    failed = _write_reports(result, command, recording)
    return interrupts.code if interrupts.arrived else code or failed


def _with_stages(
    result: Result, dataset: Dataset, command: Command, interrupts: Interrupts
) -> tuple[Result, int]:
    """Adds the stages; returns the exit code, too. Ctrl-C keeps what was measured."""
    from ipufeed.benchmark.advice.with_stages import (
        NO_STAGES,
        add_stages,
        with_interruption,
    )

    try:
        return add_stages(
            result, dataset, verified=command.verify, questions=command.what_if
        ), OK
    except MeasurementInterrupted as interruption:
        return interruption.result, interrupts.code
    except KeyboardInterrupt:
        return with_interruption(result, NO_STAGES), interrupts.code


def _check_options_for(dataset: object, command: Command) -> None:
    loader = kind_of(dataset)
    if loader is not None:
        check_loader_options(command, loader.name)
    if not command.what_if:
        return
    # Checked here, so that the error does not come after ten seconds of measuring.
    from ipufeed.benchmark.advice.what_if import check_stages

    check_stages(command.what_if, dataset)


def _write_reports(
    result: Result, command: Command, recording: Recording | None
) -> int:
    """Writes the reports of the options; returns the exit code."""
    if not command.reports:
        return OK
    from ipufeed.benchmark.report import files

    failures = files.write_reports(files.as_stored(result), command.reports, recording)
    for failure in failures:
        print_message(failure)
    return BAD_INPUT if failures else OK


def _measure_function(command: Command) -> Callable[..., Result]:
    """Returns the function that measures; each imports only what its mode needs."""
    if command.service:
        from ipufeed.benchmark.scaleout.service import measure_service

        return functools.partial(measure_service, service=command.service)
    if command.is_on_device:  # the import registers the device
        from ipufeed.benchmark.device.measure import measure_through

        return functools.partial(measure_through, device=command.device)
    if command.cold:
        from ipufeed.benchmark.cold.measure import measure_cold

        return functools.partial(measure_cold, files=list(command.cold_files))
    from ipufeed.benchmark.measuring.measure import measure

    return measure


def _run_processes(command: Command, stdout: int) -> int:
    """Measures with --processes: this process loads no dataset and no TensorFlow."""
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
    return _print_result(result, command, stdout, OK)


def _why_no_stages(result: Result, command: Command) -> str | None:
    loader = result.dataset.get("loader")
    if result.stages:
        return None
    if loader and not command.no_stages and command.excluding is None:
        return f"a loader ({loader}) does not report where its time goes"
    return why_no_stages(command.no_stages, command.excluding)


def _print_result(result: Result, command: Command, stdout: int, code: int) -> int:
    """Writes the JSON to stdout and --json, the summary to stderr; returns the code."""
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
    except BrokenPipeError:  # the reader has closed the pipe
        pass
    except OSError as error:
        print_message(f"cannot write the result to stdout: {error.strerror or error}.")
        code = code or BAD_INPUT
    with contextlib.suppress(OSError):  # stderr is full; the result is written
        if not command.quiet:
            summary = summarize(result, _why_no_stages(result, command))
            print(summary, file=sys.stderr, flush=True)
        elif result.error is not None:
            from ipufeed.benchmark.report.failure import sentence_of

            kind, message = result.error["type"], sentence_of(result.error)
            print_message(f"the dataset failed: {kind}: {message}")
    return code
