"""Common parts of the subcommands: folders, files, programs, units."""

from __future__ import annotations

import datetime
import json
import os
import re
import sys
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TextIO

from ipufeed import _quiet_import
from ipufeed.errors import DamagedFileError, NativeLibraryError
from ipufeed.executable.program.file_format import (
    MAGIC,
    MAX_HEADER,
    JsonObject,
    unpack_header,
)
from ipufeed.executable.store import safety
from ipufeed.executable.store.cache import MAX_FILE, SUFFIX, cache_folder
from ipufeed.render.terminal import paragraph
from ipufeed.render.terminal_text import printable

if TYPE_CHECKING:
    from ipufeed.executable.program.program import Program

NO_FOLDER = (
    "Which folder? Name one, or set it: "
    "TF_POPLAR_FLAGS=--executable_cache_path=/tmp/executables"
)


class CommandError(Exception):
    """A command fails; the message is for the user."""


@dataclass(frozen=True)
class File:
    """A .poplar_exec file, as described by its header.

    Attributes:
        path: The file.
        nbytes: Size in bytes.
        modified: Time of the last write, in seconds since 1970.
        header: The header (see file_format.py); empty if it cannot be read.
        problem: Why the file cannot be used, or "".
    """

    path: Path
    nbytes: int
    modified: float
    header: JsonObject = field(default_factory=dict)
    problem: str = ""

    @property
    def key(self) -> str:
        """The key in the file's name."""
        return self.path.name.removesuffix(SUFFIX)

    @property
    def is_executable(self) -> bool:
        """Whether the file has a readable header."""
        return bool(self.header)

    def text(self, name: str, default: str = "?") -> str:
        """Returns a field of the header, safe to print."""
        value = self.header.get(name)
        return printable(default if value is None else str(value))

    def why_not_here(self) -> str:
        """Returns why this machine and version cannot use the file, or ""."""
        if self.problem:
            return self.problem
        from ipufeed.executable.program.context import cpu

        context = self.header.get("surroundings")
        host = context.get("host") if isinstance(context, dict) else None
        if not isinstance(host, dict):
            return "its header has no compile context"
        for name, title, here in (
            ("tensorflow", "TensorFlow", _tensorflow_version()),
            ("ipufeed", "another build of ipufeed", _ipufeed_build()),
            ("cpu", "another CPU", cpu()),
            ("cpus", "CPUs", len(os.sched_getaffinity(0))),
        ):
            if here is not None and host.get(name) != here:
                value = printable(str(host.get(name)))
                if name == "tensorflow":
                    return f"for TensorFlow {value}, here is {here}"
                return f"for {value} CPUs, here are {here}" if name == "cpus" else title
        return ""


def _tensorflow_version() -> str | None:
    """Returns the installed version without importing TensorFlow, or None."""
    import importlib.metadata

    for name in ("tensorflow", "tensorflow-cpu"):
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return None


def _ipufeed_build() -> str | None:
    """Returns the hash of the native sources in keys; None without a library."""
    from ipufeed import _native

    try:
        return str(_native.build_info(_native.find_library())["sources"])[:16]
    except NativeLibraryError:
        return None


def folder_of(options: Namespace) -> Path:
    """Returns DIR, or the folder in TF_POPLAR_FLAGS.

    Raises:
        CommandError: Neither is given, or it is not a folder.
    """
    folder = Path(options.dir).expanduser() if options.dir else cache_folder()
    if folder is None:
        raise CommandError(NO_FOLDER)
    if folder.exists() and not folder.is_dir():
        raise CommandError(f"{folder} is a file: name the folder that it is in.")
    if not folder.is_dir():
        raise CommandError(
            f"There is no folder {folder}. It is made when the first program is compiled "
            f"with TF_POPLAR_FLAGS=--executable_cache_path={folder}"
        )
    return folder


def files_in(folder: Path) -> Iterator[File]:
    """Yields the .poplar_exec files of a folder, by name.

    Raises:
        CommandError: The folder cannot be read.
    """
    try:
        paths = sorted(each for each in folder.iterdir() if each.name.endswith(SUFFIX))
    except OSError as error:
        raise CommandError(f"{folder} cannot be read: {error.strerror}") from error
    for path in paths:
        file = _describe(path)
        if file is not None:
            yield file


def _describe(path: Path) -> File | None:
    """Returns the description of a file; None if it does not exist any more."""
    try:
        status = path.lstat()
    except OSError:
        return None
    size, modified = status.st_size, status.st_mtime
    try:
        descriptor = safety.open_trusted(path)
        with os.fdopen(descriptor, "rb") as file:
            header = _read_header(file)
    except FileNotFoundError:
        return None
    except (DamagedFileError, OSError) as error:
        return File(path, size, modified, problem=printable(str(error)))
    problem = ""
    if size > MAX_FILE:
        problem = "it is larger than an executable can be"
    elif header.get("key") != path.name.removesuffix(SUFFIX):
        problem = "the digest in its header does not match its file name"
    return File(path, size, modified, header, problem)


def _read_header(file: BinaryIO) -> JsonObject:
    """Reads the header of an open file.

    Raises:
        DamagedFileError: The file has no valid header.
    """
    start = file.read(len(MAGIC) + 40)
    if start.startswith(MAGIC) and len(start) == len(MAGIC) + 40:
        length = int.from_bytes(start[len(MAGIC) : len(MAGIC) + 8], "little")
        start += file.read(min(length, MAX_HEADER))
    return unpack_header(start)[0]


def recency(file: File) -> tuple[float, float]:
    """Returns the times of compilation and of the file, in seconds since 1970."""
    try:
        created = datetime.datetime.fromisoformat(str(file.header["created"]))
    except (KeyError, ValueError):
        return file.modified, file.modified
    return created.timestamp(), file.modified  # the first has a resolution of a second


def load(reference: str) -> Program:
    """Returns the program of a file or key, importing TensorFlow without its messages.

    Raises:
        LookupError, ValueError, OSError: The program is missing, or its file is damaged.
    """
    with _quiet_import.quiet_stderr("3"):
        from tensorflow.compiler.xla.service import hlo_pb2  # noqa: F401
    from ipufeed.executable.explanation.explain import find_program

    return find_program(reference)


def last_two(folder: Path | None = None) -> tuple[File, File]:
    """Returns the last two versions of the latest program that has two.

    Raises:
        CommandError: No program was compiled twice.
    """
    folder = folder or cache_folder()
    if folder is None:
        raise CommandError(
            "Which programs? Name two, by file or key, or a folder that has them: "
            "TF_POPLAR_FLAGS=--executable_cache_path=/tmp/executables"
        )
    files = [
        file for file in files_in(folder) if file.is_executable and not file.problem
    ]
    files.sort(key=recency)
    found: dict[str, File] = {}
    for file in reversed(files):
        name = str(file.header.get("name"))
        if name in found:
            return file, found[name]
        found[name] = file
    raise CommandError(
        f"No program in {folder} has been compiled twice: {len(files)} programs, all of "
        "other names. Name two, by file or key."
    )


UNITS_S = {"s": 1, "min": 60, "h": 3600, "d": 86400, "w": 604800}
UNITS_B = {"": 1, "B": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}


def duration(text: str) -> float:
    """Parses a duration such as "30d" into seconds; raises ValueError."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?) *(s|min|h|d|w)", text)
    if match is None:
        raise ValueError(f"must be a number and s, min, h, d or w (30d), got {text!r}")
    return float(match[1]) * UNITS_S[match[2]]


def size(text: str) -> float:
    """Parses a size such as "1G" into bytes; raises ValueError."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?) *([kMGT]?)i?B?", text)
    if match is None:
        raise ValueError(f"must be a number and k, M, G or T (1G), got {text!r}")
    return float(match[1]) * UNITS_B[match[2]]


def wrapped(
    text: str, indent: str = "", first: str | None = None, stream: TextIO | None = None
) -> str:
    """Wraps a paragraph to the width of the terminal.

    Args:
        text: The paragraph.
        indent: Prefix of its lines.
        first: Prefix of the first line. Default: `indent`.
        stream: The stream to print to. Default: sys.stdout.
    """
    stream = sys.stdout if stream is None else stream
    first = indent if first is None else first
    return "\n".join(paragraph(text, stream, first, indent, words_break=True))


def shortened(text: str, most: int) -> str:
    """Cuts a text to at most `most` characters."""
    return text if len(text) <= most else text[: most - 3] + "..."


def as_json(value: object) -> str:
    """Formats JSON, as ASCII: it cannot contain a terminal's control characters."""
    return json.dumps(value, indent=2)
