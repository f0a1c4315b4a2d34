"""XLA_FLAGS=--xla_dump_to=DIR: writes each compiled program under Graphcore's file names.

    module_0003.0000.IPU.before_optimizations.txt
    module_0003.0001.IPU.after_optimizations.txt        .dot with --xla_dump_hlo_as_dot

0003 is the program's number, unique in the folder and growing. XLA's CPU compiler dumps
further files there under its own names. Passes of an IPU's compiler do not exist here.

Source: Graphcore's user guide, "XLA graph file naming".
"""

from __future__ import annotations

import os
import re
import shlex
import threading
from dataclasses import dataclass
from pathlib import Path

from ipufeed.device.log import LOGGER
from ipufeed.executable.hlo.compiled_code import CompiledCode
from ipufeed.executable.hlo.text import hlo_dot, hlo_text

NAME = re.compile(r"module_(\d+)\.")
STAGES = ("before_optimizations", "after_optimizations")
_lock = threading.Lock()


@dataclass(frozen=True)
class DumpOptions:
    """The dump that XLA_FLAGS requests.

    Attributes:
        folder: The folder to write to.
        text: Whether to write text, which is the default.
        dot: Whether to write a graph.
    """

    folder: Path
    text: bool
    dot: bool


def dump_options() -> DumpOptions | None:
    """Returns the requested dump; None for none, or for stdout, which XLA handles."""
    try:
        words = shlex.split(os.environ.get("XLA_FLAGS", ""))
    except ValueError:
        return None
    flags = {}
    for word in words:
        name, _, value = word.lstrip("-").partition("=")
        flags[name] = value
    folder = flags.get("xla_dump_to", "")
    if folder in ("", "-"):
        return None

    def on(name: str) -> bool:
        return name in flags and flags[name].lower() not in ("false", "0")

    dot, text = on("xla_dump_hlo_as_dot"), on("xla_dump_hlo_as_text")
    return DumpOptions(Path(folder), text or not dot, dot)


def dump(options: DumpOptions, before: bytes, after: bytes) -> None:
    """Writes a program before and after XLA's optimisations; warns if that fails."""
    try:
        options.folder.mkdir(parents=True, exist_ok=True)
        optimised = CompiledCode.parse(after).proto if after else b""
        modules = [each for each in (before, optimised) if each]
        number = _claim(options)
        for index, (stage, module) in enumerate(zip(STAGES, modules, strict=False)):
            stem = f"module_{number:04d}.{index:04d}.IPU.{stage}"
            if options.text:
                (options.folder / f"{stem}.txt").write_text(hlo_text(module))
            if options.dot:
                (options.folder / f"{stem}.dot").write_text(hlo_dot(module))
    except (OSError, ValueError) as error:
        LOGGER.warning("A program cannot be dumped to %s: %s.", options.folder, error)


def _claim(options: DumpOptions) -> int:
    """Reserves an unused number, also against other processes, by creating a file."""
    suffix = "txt" if options.text else "dot"
    with _lock:
        used = [
            int(found[1])
            for path in options.folder.iterdir()
            if ".IPU." in path.name and (found := NAME.match(path.name))
        ]
        number = max(used, default=-1) + 1
        while True:
            name = f"module_{number:04d}.0000.IPU.{STAGES[0]}.{suffix}"
            try:
                (options.folder / name).open("x").close()
            except FileExistsError:
                number += 1
            else:
                return number
