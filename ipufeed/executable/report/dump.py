"""XLA_FLAGS=--xla_dump_to=DIR: writes each compiled program under Graphcore's file names.

    module_0003.0000.IPU.before_optimizations.txt
    module_0003.0001.IPU.after_optimizations.txt        .dot with --xla_dump_hlo_as_dot

0003 is the program's number, unique in the folder and growing. XLA's CPU compiler dumps
further files there under its own names. Passes of an IPU's compiler do not exist here;
for the last ones, which the guide names, the program is written as it is at the end,
if --xla_dump_hlo_pass_re selects one of the two passes of a file:

    module_0003.0000.IPU.after_allocation-finder.before_forward-allocation.txt
    module_0003.0001.IPU.after_forward-allocation.before_hlo-memory-scheduler.txt

Then `after_optimizations` has the next number.

Source: Graphcore's user guide, "XLA graph file naming".
"""

from __future__ import annotations

import itertools
import re
import threading
from dataclasses import dataclass
from pathlib import Path

from ipufeed.device.flags import environment
from ipufeed.device.log import LOGGER
from ipufeed.executable.hlo.compiled_code import CompiledCode
from ipufeed.executable.hlo.hlo import Module
from ipufeed.executable.hlo.shard_colours import coloured
from ipufeed.executable.hlo.text import hlo_dot, hlo_text

NAME = re.compile(r"module_(\d+)\.")
BEFORE, AFTER = "before_optimizations", "after_optimizations"
LAST_PASSES = ("allocation-finder", "forward-allocation", "hlo-memory-scheduler")
_lock = threading.Lock()


@dataclass(frozen=True)
class DumpOptions:
    """The dump that XLA_FLAGS requests.

    Attributes:
        folder: The folder to write to.
        text: Whether to write text, which is the default.
        dot: Whether to write a graph.
        passes: The regular expression that selects passes, or None.
        colours: Whether nodes of a graph have the colour of their IPU.
        modules: The regular expression that selects programs by name, or None.
    """

    folder: Path
    text: bool
    dot: bool
    passes: str | None = None
    colours: bool = False
    modules: str | None = None

    def stages(self) -> list[tuple[int, str]]:
        """Returns the stages that are written, in their order: number and name."""
        names = [(0, BEFORE)]
        pattern = _pattern("xla_dump_hlo_pass_re", self.passes)
        for number, (one, other) in enumerate(itertools.pairwise(LAST_PASSES)):
            if pattern is not None and (pattern.search(one) or pattern.search(other)):
                names.append((number, f"after_{one}.before_{other}"))
        return [*names, (names[-1][0] + 1, AFTER)]


def dump_options() -> DumpOptions | None:
    """Returns the requested dump; None for none, or for stdout, which XLA handles."""
    try:
        words = environment.xla_flags()
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
    passes = flags.get("xla_dump_hlo_pass_re") or None
    colours = on("xla_hlo_graph_sharding_color")
    modules = flags.get("xla_dump_hlo_module_re") or None
    return DumpOptions(Path(folder), text or not dot, dot, passes, colours, modules)


def _pattern(flag: str, text: str | None) -> re.Pattern[str] | None:
    """Returns a flag's regular expression, or None; warns about an invalid one."""
    try:
        return re.compile(text) if text else None
    except re.error as error:
        LOGGER.warning("--%s=%s is not a regular expression: %s.", flag, text, error)
        return None


def dump(options: DumpOptions, before: bytes, after: bytes) -> None:
    """Writes a program before and after XLA's optimisations; warns if that fails."""
    try:
        if options.modules:
            pattern = _pattern("xla_dump_hlo_module_re", options.modules)
            if pattern is None or not pattern.search(Module.parse(before).name):
                return
        options.folder.mkdir(parents=True, exist_ok=True)
        optimised = CompiledCode.parse(after).proto if after else b""
        number = _claim(options)
        for index, stage in options.stages():
            module = before if stage == BEFORE else optimised
            if not module:
                continue
            stem = f"module_{number:04d}.{index:04d}.IPU.{stage}"
            if options.text:
                (options.folder / f"{stem}.txt").write_text(hlo_text(module))
            if options.dot:
                graph = hlo_dot(module)
                if options.colours:
                    graph = coloured(graph)
                (options.folder / f"{stem}.dot").write_text(graph)
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
            name = f"module_{number:04d}.0000.IPU.{BEFORE}.{suffix}"
            try:
                (options.folder / name).open("x").close()
            except FileExistsError:
                number += 1
            else:
                return number
