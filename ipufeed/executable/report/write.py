"""autoReport: a folder for each compiled program, with what became of it.

    tf_report__2026-01-31T12-00-00.123__4711/
        framework.json   TensorFlow, this system
        profile.json     memory by purpose, flops and bytes, estimated cycles
        graph.svg        the compiled program
        profile.pop      the same as profile.json, where scripts look for a report

A program that comes from the cache gets none: the number of folders is the number of
programs that were compiled. The same program again, such as after the configuration was
reset, replaces what is in its folder.

`python -m ipufeed.executable report FOLDER --html FILE` makes a page of them.
"""

from __future__ import annotations

import datetime
import json
import os
import platform
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ipufeed.device.log import LOGGER
from ipufeed.device.system import system
from ipufeed.executable.hlo.compiled_code import CompiledCode
from ipufeed.executable.program.engine_options import report_options
from ipufeed.executable.program.events import Figures, Lowered
from ipufeed.executable.program.program import Program
from ipufeed.executable.report import dump, graph_svg, limits, profile
from ipufeed.executable.store.cache import write_whole
from ipufeed.process_state import STATE

FRAMEWORK, PROFILE, GRAPH = "framework.json", "profile.json", "graph.svg"
# The original's name for it: scripts find reports by it. Its viewer cannot read ours.
POP = "profile.pop"


@dataclass
class _Folders:
    """The folder of each program in this process, by its hash."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    known: dict[tuple[Path, str], Path] = field(default_factory=dict)


_folders = _Folders()


@STATE.part("folders")
def _forget_folders() -> None:
    with _folders.lock:
        _folders.known.clear()


@dataclass(frozen=True)
class Request:
    """What is wanted of a program once it has been compiled.

    Attributes:
        folder: That the reports' folders are made in; None for no report.
        dump: Of XLA_FLAGS, or None.
        limits: The memory that there is for it.
        variables: The numbers of the parameters that are variables.
    """

    folder: Path | None
    dump: dump.DumpOptions | None
    limits: limits.Limits
    variables: frozenset[int] = frozenset()


def request(lowered: Lowered) -> Request:
    """What the options ask for of a program.

    Raises:
        tf.errors.InternalError: An option of the engine is invalid.
    """
    options = report_options()
    available = limits.limits_of(lowered)
    if not options.wanted:
        return Request(None, dump.dump_options(), available)
    folder = options.folder.absolute()
    return Request(folder, dump.dump_options(), available, variables_of(lowered))


def variables_of(lowered: Lowered) -> frozenset[int]:
    """The numbers of a program's parameters that are variables."""
    from tensorflow.core.framework import function_pb2, types_pb2

    function = function_pb2.FunctionDef.FromString(lowered.function)
    given = function.signature.input_arg
    return frozenset(
        number
        for number, argument in enumerate(lowered.arguments)
        if 0 <= argument < len(given) and given[argument].type == types_pb2.DT_RESOURCE
    )


def check(wanted: Request, program: Program, executable: bytes) -> None:
    """Compares the program with the memory that there is for it: see limits.check.

    Raises:
        tf.errors.ResourceExhaustedError: It does not fit, and that is to be an error.
    """
    limits.check(wanted.limits, program.name, executable)


def write(
    wanted: Request, program: Program, figures: Figures, executable: bytes
) -> None:
    """Writes what is wanted; a program runs all the same if that fails, with a warning."""
    if wanted.dump is not None:
        dump.dump(wanted.dump, program.hlo, executable)
    if wanted.folder is None:
        return
    try:
        write_report(wanted, program, figures, executable)
    # Whatever it is, the program has been compiled and is not to blame.
    except Exception as error:
        LOGGER.warning(
            "The report of %s cannot be written to %s: %s",
            program.name,
            wanted.folder,
            error,
        )


def write_report(
    wanted: Request, program: Program, figures: Figures, executable: bytes
) -> None:
    """Writes the files of a report.

    Raises:
        OSError: There is no room, or no right to.
        ValueError: The executable cannot be read.
    """
    assert wanted.folder is not None
    code = CompiledCode.parse(executable)
    now = datetime.datetime.now(datetime.timezone.utc)
    about = {
        "name": program.name,
        "hash": program.key.hex,
        "compile_seconds": figures.duration_s,
        "arguments": list(program.arguments),
        "target": program.surroundings["target"],
        "created": now.isoformat(timespec="seconds"),
        "process": os.getpid(),
    }
    found = profile.profile_of(code, program.arguments, wanted.variables, wanted.limits)
    svg = graph_svg.draw(code.module)
    folder = folder_of(wanted.folder, program.key.hex)
    write_json(folder / FRAMEWORK, framework())
    write_whole(folder / GRAPH, svg.encode())
    # Last: a folder with a profile is whole.
    for name in (PROFILE, POP):
        write_json(folder / name, {"program": about, **found})
    LOGGER.info("The report of %s is in %s", program.name, folder)


def write_json(path: Path, value: Any) -> None:
    """Writes a file in one piece."""
    write_whole(path, json.dumps(value, indent=1).encode())


def folder_of(parent: Path, program: str) -> Path:
    """The folder of a program (its hash) in this process; made at its first use.

    Raises:
        OSError: It cannot be made.
    """
    with _folders.lock:
        folder = _folders.known.get((parent, program))
        if folder is None:
            parent.mkdir(parents=True, exist_ok=True)
            folder = _folders.known[parent, program] = new_folder(parent)
        folder.mkdir(parents=True, exist_ok=True)  # it may have been removed
        return folder


def new_folder(parent: Path) -> Path:
    """A folder of a name that there is not yet; colons do harm in file names."""
    moment = datetime.datetime.now()
    while True:
        stamp = moment.isoformat(timespec="milliseconds").replace(":", "-")
        folder = parent / f"tf_report__{stamp}__{os.getpid()}"
        try:
            folder.mkdir()
        except FileExistsError:
            moment += datetime.timedelta(milliseconds=1)
        else:
            return folder


def framework() -> dict[str, Any]:
    """TensorFlow and this system, under the names of the original."""
    import tensorflow as tf

    from ipufeed import _version

    order = system.configured().selection_order
    return {
        "TensorFlow": {
            "Version": tf.version.VERSION,
            "Githash": tf.version.GIT_VERSION,
            "Cluster": os.environ.get("TF_CONFIG", ""),
            "IpuSelectionOrder": getattr(order, "name", str(order)),
        },
        "System Information": {
            "Operating system": platform.system(),
            "Operating system version": platform.release(),
            "Machine": platform.machine(),
            "Nominal CPU frequency [GHz]": cpu_ghz(),
            "Number of total cpus": os.cpu_count() or 0,
        },
        "ipufeed": {"Version": _version.__version__},
    }


def cpu_ghz() -> float:
    """The CPU's frequency, as the kernel reports it; 0.0 if it does not."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return 0.0
    for line in text.splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "cpu MHz":
            return round(float(value) / 1000, 3)
    return 0.0
