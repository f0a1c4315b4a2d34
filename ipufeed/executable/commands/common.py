"""Common parts of the subcommands: folders, files, headers, units."""

from __future__ import annotations

import datetime
import json
import os
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ipufeed.executable.program.file_format import (
    MAGIC,
    MAX_HEADER,
    DamagedFileError,
    unpack_header,
)
from ipufeed.executable.store import safety
from ipufeed.executable.store.cache import MAX_FILE, SUFFIX, cache_folder
from ipufeed.render.terminal import paragraph
from ipufeed.render.terminal_text import printable

OK, FOUND_BAD, BAD_INPUT = 0, 1, 2

NO_FOLDER = (
    "Which folder? Name one, or set it: "
    "TF_POPLAR_FLAGS=--executable_cache_path=/tmp/executables"
)


class CommandError(Exception):
    """A command cannot be done; the message is for the user."""


@dataclass(frozen=True)
class File:
    """A .poplar_exec file, as far as its header describes it.

    Attributes:
        path: Of it.
        nbytes: Its size.
        modified: When it was written, in seconds since 1970.
        header: See file_format.py; empty if it cannot be read.
        problem: Why it cannot be used, or "".
    """

    path: Path
    nbytes: int
    modified: float
    header: dict[str, Any] = field(default_factory=dict)
    problem: str = ""

    @property
    def key(self) -> str:
        """The key, which is the file's name."""
        return self.path.name.removesuffix(SUFFIX)

    @property
    def is_executable(self) -> bool:
        """Whether its header is one of ours."""
        return bool(self.header)

    def text(self, name: str, default: str = "?") -> str:
        """A field of the header, fit for a terminal."""
        value = self.header.get(name)
        return printable(default if value is None else str(value))

    def why_not_here(self) -> str:
        """Why this machine and version would not use it, or ""."""
        if self.problem:
            return self.problem
        from ipufeed.executable.program.context import cpu

        surroundings = self.header.get("surroundings")
        host = surroundings.get("host") if isinstance(surroundings, dict) else None
        if not isinstance(host, dict):
            return "it has no purpose in its header"
        for name, title, here in (
            ("tensorflow", "TensorFlow", tensorflow_version()),
            ("ipufeed", "another build of ipufeed", ipufeed_build()),
            ("cpu", "another CPU", cpu()),
            ("cpus", "CPUs", len(os.sched_getaffinity(0))),
        ):
            if here is not None and host.get(name) != here:
                value = printable(str(host.get(name)))
                if name == "tensorflow":
                    return f"for TensorFlow {value}, here is {here}"
                return f"for {value} CPUs, here are {here}" if name == "cpus" else title
        return ""


def tensorflow_version() -> str | None:
    """The installed version, without importing it; None if there is none."""
    import importlib.metadata

    for name in ("tensorflow", "tensorflow-cpu"):
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return None


def ipufeed_build() -> str | None:
    """This library's part of programs' keys; None if it is not built."""
    from ipufeed import _native
    from ipufeed.errors import NativeLibraryError

    try:
        return str(_native.build_info(_native.find_library())["sources"])[:16]
    except NativeLibraryError:
        return None


def folder_of(options: Any) -> Path:
    """The folder that a command is about: DIR, else that of TF_POPLAR_FLAGS.

    Raises:
        CommandError: There is none.
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
    """All .poplar_exec files of a folder, by name.

    Raises:
        CommandError: It cannot be read.
    """
    try:
        paths = sorted(each for each in folder.iterdir() if each.name.endswith(SUFFIX))
    except OSError as error:
        raise CommandError(f"{folder} cannot be read: {error.strerror}") from error
    for path in paths:
        file = look_at(path)
        if file is not None:
            yield file


def look_at(path: Path) -> File | None:
    """What a file is; None if it is gone meanwhile."""
    try:
        status = path.lstat()
    except OSError:
        return None
    size, modified = status.st_size, status.st_mtime
    try:
        descriptor = safety.open_trusted(path)
        with os.fdopen(descriptor, "rb") as file:
            header = read_header(file)
    except FileNotFoundError:
        return None
    except (DamagedFileError, OSError) as error:
        return File(path, size, modified, problem=printable(str(error)))
    problem = ""
    if size > MAX_FILE:
        problem = "it is larger than an executable can be"
    elif header.get("key") != path.name.removesuffix(SUFFIX):
        problem = "it is of another program than that of its name"
    return File(path, size, modified, header, problem)


def read_header(file: Any) -> dict[str, Any]:
    """The header at the beginning of a file.

    Raises:
        DamagedFileError: There is none.
    """
    start = file.read(len(MAGIC) + 40)
    if start.startswith(MAGIC) and len(start) == len(MAGIC) + 40:
        length = int.from_bytes(start[len(MAGIC) : len(MAGIC) + 8], "little")
        start += file.read(min(length, MAX_HEADER))
    return unpack_header(start)[0]


def recency(file: File) -> tuple[float, float]:
    """When a program was compiled and its file written, in seconds since 1970."""
    try:
        created = datetime.datetime.fromisoformat(str(file.header["created"]))
    except (KeyError, ValueError):
        return file.modified, file.modified
    return created.timestamp(), file.modified  # the first is in whole seconds


UNITS_S = {"s": 1, "min": 60, "h": 3600, "d": 86400, "w": 604800}
UNITS_B = {"": 1, "B": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}


def duration(text: str) -> float:
    """Seconds of "30d"; raises ValueError."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?) *(s|min|h|d|w)", text)
    if match is None:
        raise ValueError(f"must be a number and s, min, h, d or w (30d), got {text!r}")
    return float(match[1]) * UNITS_S[match[2]]


def size(text: str) -> float:
    """Bytes of "1G"; raises ValueError."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?) *([kMGT]?)i?B?", text)
    if match is None:
        raise ValueError(f"must be a number and k, M, G or T (1G), got {text!r}")
    return float(match[1]) * UNITS_B[match[2]]


def wrapped(
    text: str, indent: str = "", first: str | None = None, stream: Any = None
) -> str:
    """Returns a paragraph, as wide as the terminal that it goes to.

    Args:
        text: The paragraph.
        indent: What stands before its lines.
        first: What stands before the first instead. Default: `indent`.
        stream: Where it is going to be printed. Default: sys.stdout.
    """
    stream = sys.stdout if stream is None else stream
    first = indent if first is None else first
    return "\n".join(paragraph(text, stream, first, indent, words_break=True))


def shortened(text: str, most: int) -> str:
    """A text that fits into a column."""
    return text if len(text) <= most else text[: most - 3] + "..."


def as_json(value: Any) -> str:
    """JSON for programs; ASCII, so that nothing of it steers a terminal."""
    return json.dumps(value, indent=2)
