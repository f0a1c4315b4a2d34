"""Options of the engine: which there are, and what they ask for.

    config.compilation_poplar_options  <--overridden by--  POPLAR_ENGINE_OPTIONS (JSON)

The simulated engine follows `autoReport.*`. The other names are those that
programs for Poplar set; they are accepted, with a warning, and change nothing here.

Source: names and defaults follow Graphcore's Poplar, class `poplar::Engine`.
"""

from __future__ import annotations

import functools
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ipufeed.device.flags import environment
from ipufeed.device.system import system
from ipufeed.no_effect import no_effect

# Each switches the report on. What a report holds does not depend on which.
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
ACCEPTED = (
    "autoReport.executionProfileProgramRunCount",
    "debug.branchRecordTile",
    "debug.checkConsistency",
    "debug.computeInstrumentationLevel",
    "debug.cpuMultiThreadExecution",
    "debug.floatPointOpException",
    "debug.instrument",
    "debug.instrumentCompute",
    "debug.instrumentControlFlow",
    "debug.instrumentExternalExchange",
    "debug.nanOverflowException",
    "debug.outputAllSymbols",
    "debug.profilingTile",
    "debug.retainDebugInformation",
    "debug.runtimeVerify",
    "debug.verify",
    "exchange.enablePrefetch",
    "exchange.streamBufferOverlap",
    "opt.enableInlining",
    "opt.enableMultiAccessCopies",
    "opt.internalExchangeOptimisationTarget",
    "opt.maxCopyMergeSize",
    "opt.useAutoloader",
    "prng.enable",
    "prng.seed",
    "streamCallbacks.maxLookahead",
    "streamCallbacks.multiThreadMode",
    "streamCallbacks.numWorkerThreads",
    "target.deterministicWorkers",
    "target.extendedMemory",
    "target.gatewayMode",
    "target.gatewayWriteCombining",
    "target.hostSyncTimeout",
    "target.saveArchive",
    "target.stackSize",
    "target.supervisorStackSizeInBytes",
    "target.syncMethod",
    "target.syncPollPeriodUs",
    "target.syncReplicasIndependently",
    "target.workerStackSizeInBytes",
)
KNOWN = frozenset((*SWITCHES, DIRECTORY, OUT_OF_MEMORY, *ACCEPTED))
WORDS = {"true": True, "1": True, "false": False, "0": False}


@dataclass(frozen=True)
class ReportOptions:
    """What `autoReport` asks for.

    Attributes:
        wanted: Whether each compiled program gets a report.
        folder: That the reports' folders are made in.
    """

    wanted: bool
    folder: Path


def report_options() -> ReportOptions:
    """What is asked for now; `autoReport.directory` without a value is the working one.

    Raises:
        tf.errors.InternalError: an option is unknown, or its value is not allowed.
    """
    text = os.environ.get("POPLAR_ENGINE_OPTIONS", "")
    wanted, folder = _read(system.generation(), text)
    return ReportOptions(wanted, Path(folder).expanduser())


def fails_out_of_memory() -> bool:
    """Whether a program that is too large for its IPUs is to be an error.

    Raises:
        tf.errors.InternalError: See report_options.
    """
    options = _options()
    return OUT_OF_MEMORY in options and not is_on(OUT_OF_MEMORY, options[OUT_OF_MEMORY])


# It is asked for with each program.
@functools.lru_cache(maxsize=4)
def _read(generation: int, text: str) -> tuple[bool, str]:
    del generation, text
    options = _options()
    return wanted_by(options), str(options.get(DIRECTORY, "") or ".")


def _options() -> dict[str, Any]:
    """The engine's options: those of the environment override the configuration's.

    Raises:
        tf.errors.InternalError: The environment's are not a JSON object.
    """
    options: dict[str, Any] = dict(system.configured().compilation_poplar_options)
    try:
        return options | environment.poplar_engine_options()
    except ValueError as error:
        raise invalid(str(error)) from None


def wanted_by(options: dict[str, Any]) -> bool:
    """Whether options ask for reports; `autoReport.all` is what the others default to.

    Raises:
        tf.errors.InternalError: see `report_options`.
    """
    for name in options:
        if name not in KNOWN:
            raise invalid(unknown(name))
        if name in ACCEPTED:
            no_effect(f"engine option {name}", "there is no Poplar engine")
    switches = (*SWITCHES, OUT_OF_MEMORY)
    on = {name: is_on(name, options[name]) for name in switches if name in options}
    return any(on.get(name, on.get(ALL, False)) for name in OUTPUTS)


def is_on(name: str, value: Any) -> bool:
    """The value of a switch: true or false, in either case, as text or as a bool."""
    word = str(value).lower()
    if word not in WORDS:
        raise invalid(
            f'Engine option {name!r} must be "true" or "false", got {value!r}.'
        )
    return WORDS[word]


def unknown(name: str) -> str:
    """The message on an unknown option, with the one that is likely meant."""
    import difflib

    near = difflib.get_close_matches(name, KNOWN, n=1, cutoff=0.5)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return (
        f"Unrecognised option {name!r}: there is no engine option {name!r}.{hint} Look "
        "at POPLAR_ENGINE_OPTIONS and `config.compilation_poplar_options`."
    )


def invalid(text: str) -> Exception:
    """The error of an option."""
    from tensorflow.python.framework import errors

    error: Exception = errors.InternalError(None, None, text)
    return error
