"""Options of Poplar's engine: the known names, and the requests in them.

    config.compilation_poplar_options  <--overridden by--  POPLAR_ENGINE_OPTIONS (JSON)

The simulated engine implements `autoReport.*`. The other names, which programs for Poplar
set, are accepted with a warning and have no effect.

Source: names and defaults follow Graphcore's Poplar, class `poplar::Engine`.
"""

from __future__ import annotations

import functools
import os
from dataclasses import dataclass
from pathlib import Path

from ipufeed.device.flags import environment
from ipufeed.device.system import system
from ipufeed.executable.program.file_format import JsonObject
from ipufeed.no_effect import no_effect


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


# Each of these switches the whole report on.
OUTPUTS = (
    "autoReport.outputArchive",
    "autoReport.outputDebugInfo",
    "autoReport.outputExecutionProfile",
    "autoReport.outputGraphProfile",
    "autoReport.outputLoweredVars",
    "autoReport.outputSerializedGraph",
)
ALL = "autoReport.all"
DIRECTORY = "autoReport.directory"
OUT_OF_MEMORY = "debug.allowOutOfMemory"
SWITCHES = (ALL, *OUTPUTS, "autoReport.streamAtEachRun")
ACCEPTED = _words(
    "autoReport.executionProfileProgramRunCount debug.branchRecordTile "
    "debug.checkConsistency debug.computeInstrumentationLevel "
    "debug.cpuMultiThreadExecution debug.floatPointOpException debug.instrument "
    "debug.instrumentCompute debug.instrumentControlFlow "
    "debug.instrumentExternalExchange debug.nanOverflowException "
    "debug.outputAllSymbols debug.profilingTile debug.retainDebugInformation "
    "debug.runtimeVerify debug.verify exchange.enablePrefetch "
    "exchange.streamBufferOverlap opt.enableInlining opt.enableMultiAccessCopies "
    "opt.internalExchangeOptimisationTarget opt.maxCopyMergeSize opt.useAutoloader "
    "prng.enable prng.seed streamCallbacks.maxLookahead "
    "streamCallbacks.multiThreadMode streamCallbacks.numWorkerThreads "
    "target.deterministicWorkers target.extendedMemory target.gatewayMode "
    "target.gatewayWriteCombining target.hostSyncTimeout target.saveArchive "
    "target.stackSize target.supervisorStackSizeInBytes target.syncMethod "
    "target.syncPollPeriodUs target.syncReplicasIndependently "
    "target.workerStackSizeInBytes"
)
KNOWN = frozenset((*SWITCHES, DIRECTORY, OUT_OF_MEMORY, *ACCEPTED))
WORDS = {"true": True, "1": True, "false": False, "0": False}


@dataclass(frozen=True)
class ReportOptions:
    """The request in `autoReport.*`.

    Attributes:
        wanted: Whether each compiled program gets a report.
        folder: The parent of the reports' folders.
    """

    wanted: bool
    folder: Path


def report_options() -> ReportOptions:
    """Returns the current request; `autoReport.directory` is by default ".".

    Raises:
        tf.errors.InternalError: An option is unknown or has an invalid value.
    """
    text = os.environ.get("POPLAR_ENGINE_OPTIONS", "")
    wanted, folder = _read(system.generation(), text)
    return ReportOptions(wanted, Path(folder).expanduser())


def fails_out_of_memory() -> bool:
    """Whether a program that is too large for its IPUs is an error.

    Raises:
        tf.errors.InternalError: An option has an invalid value.
    """
    options = _options()
    return OUT_OF_MEMORY in options and not _is_on(
        OUT_OF_MEMORY, options[OUT_OF_MEMORY]
    )


# Read for each program.
@functools.lru_cache(maxsize=4)
def _read(generation: int, text: str) -> tuple[bool, str]:
    del generation, text
    options = _options()
    return wanted_by(options), str(options.get(DIRECTORY, "") or ".")


def _options() -> JsonObject:
    """Returns the options, of which the environment overrides the configuration.

    Raises:
        tf.errors.InternalError: POPLAR_ENGINE_OPTIONS is not a JSON object.
    """
    options: JsonObject = dict(system.configured().compilation_poplar_options)
    try:
        return options | environment.poplar_engine_options()
    except ValueError as error:
        raise _invalid(str(error)) from None


def wanted_by(options: JsonObject) -> bool:
    """Whether options request reports; `autoReport.all` is the default of the others.

    Raises:
        tf.errors.InternalError: An option is unknown or has an invalid value.
    """
    for name in options:
        if name not in KNOWN:
            raise _invalid(_unknown(name))
        if name in ACCEPTED:
            no_effect(f"engine option {name}", "there is no Poplar engine")
    switches = (*SWITCHES, OUT_OF_MEMORY)
    on = {name: _is_on(name, options[name]) for name in switches if name in options}
    return any(on.get(name, on.get(ALL, False)) for name in OUTPUTS)


def _is_on(name: str, value: object) -> bool:
    """Returns the value of a switch: true or false, as text in any case or as a bool."""
    word = str(value).lower()
    if word not in WORDS:
        raise _invalid(
            f'Engine option {name!r} must be "true" or "false", got {value!r}.'
        )
    return WORDS[word]


def _unknown(name: str) -> str:
    """Returns the message for an unknown option, with a suggestion."""
    import difflib

    near = difflib.get_close_matches(name, KNOWN, n=1, cutoff=0.5)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return (
        f"Unrecognised option {name!r}: there is no engine option {name!r}.{hint} Look "
        "at POPLAR_ENGINE_OPTIONS and `config.compilation_poplar_options`."
    )


def _invalid(text: str) -> Exception:
    from tensorflow.python.framework import errors

    error: Exception = errors.InternalError(None, None, text)
    return error
