"""Output files: checked before anything is measured, and written atomically."""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from pathlib import Path
from typing import BinaryIO


def is_stdout(path: str) -> bool:
    """Returns whether a path is stdout's file, which must not get the result twice.

    Call it before take_stdout().
    """
    try:
        return path == "-" or os.path.samestat(os.stat(path), os.fstat(1))
    except OSError:
        return False


def is_stream(path: str) -> bool:
    """Returns whether to write a path in place: a device, a pipe, an open descriptor.

    Any other file is replaced by a new one. For /dev/stderr that would replace the file
    that stderr is redirected to, or the link in /dev itself.
    """
    there = os.path.abspath(path)
    if not os.path.exists(there) or os.path.isdir(there):
        return False
    return not os.path.isfile(there) or there.startswith(("/dev/", "/proc/"))


def open_stream(path: str) -> BinaryIO:
    """Opens a file for which is_stream() is true, for appending.

    A descriptor of this process (/dev/stderr) is duplicated: opened again, it would have a
    position of its own, and the next output would overwrite the result.
    """
    named = re.fullmatch(r"/(?:dev|proc/self)/fd/(\d+)", path)
    number = 2 if path == "/dev/stderr" else int(named[1]) if named else None
    file = path if number is None else os.dup(number)
    return open(file, "ab")


def write_whole(
    path: str | os.PathLike[str], content: bytes, *, mode: int | None = None
) -> None:
    """Writes a file atomically.

    Args:
        path: The file. Without a mode, a stream is written in place, and the target of a
            link is replaced; with a mode, the link itself.
        content: The file's content.
        mode: The file's permissions. Default: those of the umask.

    Raises:
        OSError: It cannot be written; the previous content is unchanged.
    """
    target = Path(path)
    if mode is None:
        if is_stream(os.fspath(path)):
            with open_stream(os.fspath(path)) as stream:
                stream.write(content)
            return
        target = target.resolve()
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=".ipufeed-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if mode is None:
            umask = os.umask(0)
            os.umask(umask)
            mode = 0o666 & ~umask
        os.chmod(name, mode)
        os.replace(name, target)
    except BaseException:
        os.unlink(name)
        raise


def same_file(path: str, other: str) -> bool:
    """Returns whether writing one replaces the other; not so for devices and pipes."""
    real = os.path.realpath(path)
    return real == os.path.realpath(other) and not is_stream(path)


def why_not_writable(path: str) -> str | None:
    """Returns why a result cannot be written to `path`, or None. Changes no file."""
    if not path:
        return "must be the name of a file, got an empty one"
    try:
        if is_stream(path):
            allowed = os.access(path, os.W_OK)
            return None if allowed else f"cannot be written: {path}: Permission denied"
        real = os.path.realpath(path)
        folder = os.path.dirname(real)
        if os.path.isdir(real) or not os.path.isdir(folder) or path.endswith("/"):
            return f"must be a file in a folder that exists: {path}"
        with contextlib.suppress(FileNotFoundError):
            os.stat(real)  # refuses a name that is too long
        # As write_whole() does: into a new file in the same folder.
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".ipufeed-"):
            return None
    except OSError as error:
        return f"cannot be written: {path}: {error.strerror or error}"
