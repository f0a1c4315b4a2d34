"""autoReport: writes a folder with the report of each compiled program.

    tf_report__2026-01-31T12-00-00.123__4711/
        framework.json   TensorFlow, this system
        profile.json     memory by purpose, flops and bytes, estimated cycles
        graph.svg        the compiled program
        profile.pop      a copy of profile.json, under the name that scripts expect

A program read from the cache gets no folder, so that the number of folders is the number
of compiled programs. If a program is compiled again, such as after a reset of the
configuration, its report is replaced.

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

from ipufeed import _version
from ipufeed.device.log import LOGGER
from ipufeed.device.system import system
from ipufeed.executable.program.context import cpu_fields
from ipufeed.executable.program.engine_options import report_options
from ipufeed.executable.program.events import Figures, Lowered
from ipufeed.executable.program.file_format import JsonObject
from ipufeed.executable.program.names import variables_of
from ipufeed.executable.program.program import Program
from ipufeed.executable.report import dump, limits
from ipufeed.process_state import STATE
from ipufeed.render.files import write_whole

FRAMEWORK, PROFILE, GRAPH = "framework.json", "profile.json", "graph.svg"
# Graphcore's file name, by which scripts find reports. PopVision cannot read this format.
POP = "profile.pop"


@dataclass
class _Folders:
    """The report folders of this process, by parent folder and program hash."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    known: dict[tuple[Path, str], Path] = field(default_factory=dict)


_folders = _Folders()


@STATE.part("folders")
def _forget_folders() -> None:
    with _folders.lock:
        _folders.known.clear()


@dataclass(frozen=True)
class Request:
    """The reports and checks that are requested for a program.

    Attributes:
        folder: The parent of the reports' folders; None for no report.
        dump: The dump of XLA_FLAGS, or None.
        limits: The memory available to the program.
        variables: Numbers of the parameters that are variables.
    """

    folder: Path | None
    dump: dump.DumpOptions | None
    limits: limits.Limits
    variables: frozenset[int] = frozenset()


def request(lowered: Lowered) -> Request:
    """Returns what the options request for a program.

    Raises:
        tf.errors.InternalError: An option of the engine is invalid.
    """
    options = report_options()
    available = limits.limits_of(lowered)
    if not options.wanted:
        return Request(None, dump.dump_options(), available)
    folder = options.folder.absolute()
    return Request(folder, dump.dump_options(), available, variables_of(lowered))


def write(
    request: Request, program: Program, figures: Figures, executable: bytes
) -> None:
    """Writes the report and the dump; a failure is a warning, and the program runs."""
    if request.dump is not None:
        dump.dump(request.dump, program.hlo, executable)
    if request.folder is None:
        return
    try:
        _write_report(request, program, figures, executable)
    # Any error: the program itself has been compiled.
    except Exception as error:
        LOGGER.warning(
            "The report of %s cannot be written to %s: %s",
            program.name,
            request.folder,
            error,
        )


def _write_report(
    request: Request, program: Program, figures: Figures, executable: bytes
) -> None:
    """Writes the files of a report.

    Raises:
        OSError: A file cannot be written.
        ValueError: The executable cannot be read.
    """
    # Most programs have no report, and these modules would be a quarter of what the
    # first program imports.
    from ipufeed.executable.hlo.compiled_code import CompiledCode
    from ipufeed.executable.report import graph_svg, profile

    assert request.folder is not None
    code = CompiledCode.parse(executable)
    now = datetime.datetime.now(datetime.timezone.utc)
    about = {
        "name": program.name,
        "hash": program.key.hex,
        "compile_seconds": figures.duration_s,
        "arguments": list(program.arguments),
        "target": program.context["target"],
        "created": now.isoformat(timespec="seconds"),
        "process": os.getpid(),
    }
    found = profile.profile_of(
        code, program.arguments, request.variables, request.limits
    )
    svg = graph_svg.draw(code.module)
    folder = _folder_of(request.folder, program.key.hex)
    _write_json(folder / FRAMEWORK, _framework())
    write_whole(folder / GRAPH, svg.encode(), mode=0o600)
    # The profile is last: a folder with a profile is complete.
    for name in (PROFILE, POP):
        _write_json(folder / name, {"program": about, **found})
    LOGGER.info("The report of %s is in %s", program.name, folder)


def _write_json(path: Path, value: JsonObject) -> None:
    write_whole(path, json.dumps(value, indent=1).encode(), mode=0o600)


def _folder_of(parent: Path, program: str) -> Path:
    """Returns the folder of a program (its hash), which is made at its first use.

    Raises:
        OSError: The folder cannot be made.
    """
    with _folders.lock:
        folder = _folders.known.get((parent, program))
        if folder is None:
            parent.mkdir(parents=True, exist_ok=True)
            folder = _folders.known[parent, program] = _new_folder(parent)
        folder.mkdir(parents=True, exist_ok=True)  # users may have removed it
        return folder


def _new_folder(parent: Path) -> Path:
    """Makes a folder with a new name, without colons, which not all systems allow."""
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


def _framework() -> JsonObject:
    """Describes TensorFlow and this system, with Graphcore's names."""
    import tensorflow as tf

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
            "Nominal CPU frequency [GHz]": _cpu_ghz(),
            "Number of total cpus": os.cpu_count() or 0,
        },
        "ipufeed": {"Version": _version.__version__},
    }


def _cpu_ghz() -> float:
    return round(float(cpu_fields().get("cpu MHz", 0.0)) / 1000, 3)
