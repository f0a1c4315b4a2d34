"""Checks the native core with clang: `python tools/analyze.py`. Changes nothing.

    ipufeed/cc --> bundles --> clang-tidy    the checks of .clang-tidy, and locks
                                             (-Wthread-safety, ipufeed/cc/core/mutex.h)

Nearly all of the time goes into TensorFlow's headers, so that the sources are read in two
bundles, each of one kind: names in unnamed namespaces have to differ within one. Needs
clang-tidy (`apt-get install clang-tidy`).
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import tensorflow_flags

ROOT = Path(__file__).parents[1]
SOURCES = tensorflow_flags.SOURCES
XLA = ("xla/", "tensorflow/compiler/")
WARNINGS = ("-Wall", "-Wextra", "-Wno-unused-parameter", "-Wthread-safety")
# Bundles include sources.
CHECKS = "-bugprone-suspicious-include"
LIMIT_S = 1200  # only a hang gets there


def included(path: Path, sources: Path, seen: set[str]) -> set[str]:
    """Returns the headers that a source includes, itself or through ours."""
    for name in re.findall(r'^#include "(.+)"', path.read_text(), re.MULTILINE):
        if name not in seen:
            seen.add(name)
            if (sources / name).exists():
                included(sources / name, sources, seen)
    return seen


def write_bundles(folder: Path, sources: Path) -> list[Path]:
    """Writes bundles of all sources: those of XLA, and the others."""
    xla: list[Path] = []
    others: list[Path] = []
    for source in sorted(sources.rglob("*.cc")):
        needs_xla = any(
            name.startswith(XLA) for name in included(source, sources, set())
        )
        (xla if needs_xla else others).append(source)
    bundles = []
    for name, members in (("xla", xla), ("others", others)):
        bundle = folder / f"{name}.cc"
        bundle.write_text("".join(f'#include "{each}"\n' for each in members))
        bundles.append(bundle)
    return bundles


def flags_for(sources: Path) -> list[str]:
    # build_info.cc keeps a text that the build describes itself with.
    info = '-DIPUFEED_BUILD_INFO="{}"'
    return [*tensorflow_flags.compile_flags(), f"-iquote{sources}", info]


def check(bundle: Path, sources: Path) -> list[str]:
    return [
        *("clang-tidy", "--quiet", f"--config-file={ROOT / '.clang-tidy'}"),
        *(f"--checks={CHECKS}", f"--header-filter={re.escape(str(sources))}/.*"),
        *(str(bundle), "--", *flags_for(sources), *WARNINGS),
    ]


def run(command: list[str]) -> tuple[bool, str]:
    """Returns whether the command found nothing, and its output."""
    start = time.monotonic()
    done = subprocess.run(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    took = f"{Path(command[0]).name}: {time.monotonic() - start:.0f} s\n"
    lines = done.stdout.splitlines(keepends=True)
    text = "".join(
        line
        for line in lines
        if not re.match(r"^(\d+ warnings? |Suppressed |Use -header-filter)", line)
    )
    return done.returncode == 0, took + text


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sources", type=Path, default=SOURCES, help=argparse.SUPPRESS)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args(arguments)
    if shutil.which("clang-tidy") is None:
        parser.error("clang-tidy must be installed: apt-get install clang-tidy")
    sources = options.sources.resolve()
    with tempfile.TemporaryDirectory() as folder:
        bundles = write_bundles(Path(folder), sources)
        commands = [check(bundle, sources) for bundle in bundles]
        with ThreadPoolExecutor(options.jobs) as pool:
            results = list(pool.map(run, commands))
    for _, text in results:
        print(text, end="")
    return 0 if all(well for well, _ in results) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
