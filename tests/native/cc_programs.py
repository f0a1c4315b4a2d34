"""Compiles and runs the test programs of tests/cc."""

import dataclasses
import functools
import hashlib
import os
import pathlib
import shutil
import subprocess
import time

import pytest
from helpers import DEADLOCK_S

CC = pathlib.Path(__file__).parents[1] / "cc"
HEADERS = pathlib.Path(__file__).parents[2] / "ipufeed" / "cc"
STANDIN = CC / "standin"
STANDIN_PROGRAMS = (
    "infeed_test",
    "outfeed_test",
    "outfeed_consumer_test",
    "replicas_test",
    "pipeline_run_test",
    "program_test",
)
STANDIN_SOURCES = (
    *(
        HEADERS / f"{name}.cc"
        for name in (
            "run/collective_runs",
            "run/device_config",
            "run/detached_work",
            "feeds/feed_table",
            "data/feeder",
            "base/guard",
            "feeds/infeed",
            "feeds/lease",
            "base/interrupt",
            "feeds/outfeed",
            "feeds/outfeed_consumer",
            "measure/measurement",
            "data/payload",
            "pipeline/pipeline",
            "run/program",
            "replicas/replicas",
            "feeds/result_store",
            "base/messages",
            "core/seeds",
            "run/stall",
            "base/trace",
        )
    ),
    STANDIN / "allocation.cc",
    STANDIN / "dataset_iterator.cc",
)
# Those that a planted bug of test_cc.py changes.
ALONE = tuple(
    HEADERS / f"{name}.cc"
    for name in (
        "feeds/infeed",
        "feeds/outfeed",
        "pipeline/pipeline",
        "replicas/replicas",
        "run/detached_work",
        "run/program",
    )
)
COMMON = ("-std=c++17", "-Wall", "-Wextra", "-Werror", "-pthread", f"-I{HEADERS}")
DELAYS = (
    "-O1",
    "-D_GLIBCXX_ASSERTIONS",
    "-DIPUFEED_TEST_DELAYS",
    "-DIPUFEED_TEST_SCALE=2",
)
THREAD = ("-O1", "-g1", "-fsanitize=thread", "-DIPUFEED_TEST_SCALE=10")
SANITIZER_OPTIONS = {
    "TSAN_OPTIONS": "halt_on_error=1:exitcode=66",
    "ASAN_OPTIONS": "detect_leaks=1",
    "UBSAN_OPTIONS": "print_stacktrace=1",
}


@dataclasses.dataclass(frozen=True)
class Mutant:
    """A bug that is planted into a source: this text, which it has once, becomes that."""

    name: str
    source: str
    text: str
    planted: str

    def applied(self) -> str:
        """The source with the bug."""
        text = (HEADERS / self.source).read_text()
        assert text.count(self.text) == 1, f"{self.source} must have once: {self.text}"
        return text.replace(self.text, self.planted)


@dataclasses.dataclass(frozen=True)
class Build:
    """One program with one set of flags."""

    program: str
    flags: tuple[str, ...]
    mutant: Mutant | None = None

    def __str__(self) -> str:
        """The name of the binary, and the id of the test."""
        words = (flag.lstrip("-").replace("=", "_") for flag in self.flags)
        mutant = () if self.mutant is None else (self.mutant.name,)
        return "-".join([self.program, *words, *mutant]).replace(",", "_")

    def objects(self) -> "list[Object]":
        """What it is linked from."""
        test = CC / f"{self.program}.cc"
        if self.program not in STANDIN_PROGRAMS:
            return [Object(test, self.flags)]
        flags = (*self.flags, f"-I{STANDIN}")
        # One unit: most of the time goes into headers that all of them include. A bug that
        # a macro plants has flags that no other build has.
        if self.flags[-1].startswith("-DIPUFEED_WEAKEN"):
            return [Object(test, flags), Object(STANDIN_SOURCES, flags)]
        # Those that have mutants are objects of their own, for all mutants to share the
        # rest.
        unit = tuple(each for each in STANDIN_SOURCES if each not in ALONE)
        mutants = {}
        if self.mutant is not None:
            mutants[HEADERS / self.mutant.source] = self.mutant
            assert mutants.keys() <= set(ALONE), (
                f"{self.mutant.source} must be in ALONE"
            )
        return [Object(test, flags), Object(unit, flags)] + [
            Object(source, flags, mutants.get(source)) for source in ALONE
        ]


@dataclasses.dataclass(frozen=True)
class Object:
    """One source, or several as one unit, compiled with one set of flags."""

    source: pathlib.Path | tuple[pathlib.Path, ...]
    flags: tuple[str, ...]
    mutant: Mutant | None = None

    @property
    def stem(self) -> str:
        """The beginning of the object's name."""
        return "unit" if isinstance(self.source, tuple) else self.source.stem

    def text(self) -> str:
        """What is compiled."""
        if isinstance(self.source, tuple):
            return "".join(each.read_text() for each in self.source)
        if self.mutant is None:
            return self.source.read_text()
        return self.mutant.applied()

    def file(self, folder: pathlib.Path) -> pathlib.Path:
        """What the compiler is given, in `folder` where it is made for it."""
        if isinstance(self.source, tuple):
            made = folder / f"{self.name()}.cc"
            made.write_text("".join(f'#include "{each}"\n' for each in self.source))
            return made
        if self.mutant is None:
            return self.source
        made = folder / f"{self.mutant.name}-{self.source.name}"
        made.write_text(self.text())
        return made

    def name(self) -> str:
        """Another one for each other text, header, set of flags or compiler."""
        made_of = [self.text(), *COMMON, *self.flags, headers_and_compiler()]
        key = hashlib.sha256("\0".join(made_of).encode()).hexdigest()[:24]
        return f"{self.stem}-{key}.o"


@functools.cache
def headers_and_compiler() -> str:
    """What all objects are made of."""
    headers = sorted([*HEADERS.rglob("*.h"), *CC.rglob("*.h")])
    version = subprocess.run(
        ["g++", "--version"], check=True, capture_output=True, text=True
    )
    return "\0".join([version.stdout, *(each.read_text() for each in headers)])


def builds(programs, flags):
    return [pytest.param(Build(p, flags), id=p) for p in programs]


def planted(program, macro):
    return pytest.param(Build(program, (*THREAD, f"-D{macro}")), id=macro)


def mutants(flags, *planted):
    """Each a program, and a mutant of one of the sources that it is linked with."""
    return [
        pytest.param(Build(program, flags, Mutant(*what)), id=what[0])
        for program, *what in planted
    ]


def run_compiler(*arguments):
    command = ["g++", *COMMON, *map(str, arguments)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=DEADLOCK_S, check=False
    )
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stderr}"


def compile_object(each, folder, kept):
    """The object in the folder `kept`, made unless it is there."""
    made = kept / each.name()
    if made.exists():
        os.utime(made)  # it is still of use
        return made
    # Eigen alone: a name that the stand-in has not must not be found in TensorFlow.
    include = folder / "eigen"
    temporary = folder / made.name
    run_compiler(
        *each.flags, f"-isystem{include}", "-c", each.file(folder), "-o", temporary
    )
    shutil.move(temporary, made)
    return made


def link(build, objects, folder):
    binary = folder / str(build)
    files = [objects[each].result() for each in build.objects()]
    run_compiler(*build.flags, *files, "-o", binary)
    return binary


def drop_old(kept):
    """Forgets the objects that no run has used for a week."""
    for each in kept.iterdir():
        if each.stat().st_mtime < time.time() - 7 * 24 * 3600:
            each.unlink()


def run_limited(command):
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=DEADLOCK_S,
        check=False,
        env=os.environ | SANITIZER_OPTIONS,
    )
