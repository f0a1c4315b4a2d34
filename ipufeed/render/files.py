"""Where a result goes: checked before anything is measured, and written whole."""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from pathlib import Path
from typing import BinaryIO


def is_stdout(path: str) -> bool:
    """Whether a file is what stdout already is; the result must not stand there twice.

    To be asked before take_stdout().
    """
    try:
        return path == "-" or os.path.samestat(os.stat(path), os.fstat(1))
    except OSError:
        return False


def is_stream(path: str) -> bool:
    """Whether it is written to as it is: a device, a pipe, an open file's descriptor.

    Any other file is replaced by a new one. Done to /dev/stderr that would take away the
    file which stderr has been redirected to, or the link in /dev itself.
    """
    there = os.path.abspath(path)
    if not os.path.exists(there) or os.path.isdir(there):
        return False
    return not os.path.isfile(there) or there.startswith(("/dev/", "/proc/"))


def open_stream(path: str) -> BinaryIO:
    """Opens what is_stream() is true of, for writing behind what is there.

    A descriptor of this process (/dev/stderr) is used as it is: opened again, it would have
    a position of its own, and whatever is printed next would be written over the result.
    """
    named = re.fullmatch(r"/(?:dev|proc/self)/fd/(\d+)", path)
    number = 2 if path == "/dev/stderr" else int(named[1]) if named else None
    file = path if number is None else os.dup(number)
    return open(file, "ab")


def write_whole(path: str, content: bytes) -> None:
    """Writes a file whole or not at all; a stream as it is.

    Raises:
        OSError: It cannot be written; what stood there before still does.
    """
    if is_stream(path):
        with open_stream(path) as stream:
            stream.write(content)
        return
    target = Path(path).resolve()  # a link stays one
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=".ipufeed-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(name, 0o666 & ~umask)
        os.replace(name, target)
    except BaseException:
        os.unlink(name)
        raise


def why_not_writable(path: str) -> str | None:
    """What keeps a result from being written to `path`, or None.

    Nothing is left behind, and a file that is there is not touched.
    """
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
        # As the result is written: into a new file, which then takes the other's place.
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".ipufeed-"):
            return None
    except OSError as error:
        return f"cannot be written: {path}: {error.strerror or error}"
