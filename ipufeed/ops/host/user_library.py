"""Users' shared libraries, loaded by their content.

    /path/lib.so --SHA-256--> <temporary folder>/ipufeed-libraries-<user>/<key>/lib.so

The system's loader knows a loaded library by its file: a library that is rebuilt at its
path would not be loaded again in a process, or its code would change under a running
program. So each content gets a private copy, which is loaded. The copy's path is the same
in all processes of a user, so that the cache of executables finds compiled programs. A
library that cannot be loaded from another folder, since it needs files next to it, is
loaded from its own path, once. Copies that no process has loaded for a week are removed by
the next process that loads a library; a process that still has one mapped keeps its code.

Threads: any.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import hashlib
import os
import shutil
import stat
import tempfile
import threading
import time
from collections.abc import Iterator
from typing import NamedTuple, NoReturn

API_LEVEL = 5  # kApiLevel of ipufeed/cc/host/library_call.cc
KEPT_S = 7 * 24 * 3600.0  # a copy, after it was loaded last
_NAME = "custom_op_api_level"
_DECLARATION = f'extern "C" int32_t {_NAME} = {API_LEVEL};'


class Library(NamedTuple):
    """A loaded library.

    Attributes:
        path: The user's path, absolute.
        loaded: The path that was loaded.
        digest: SHA-256 of the content.
        handle: Its symbols.
    """

    path: str
    loaded: str
    digest: str
    handle: ctypes.CDLL

    def check(self, symbol: str) -> None:
        """Checks the level of the interface, and that the library has a function.

        Raises:
            tf.errors.InternalError: The library has another level.
            tf.errors.NotFoundError: It does not have the function.
        """
        from tensorflow.python.framework import errors

        level = 0
        with contextlib.suppress(ValueError):
            level = ctypes.c_int32.in_dll(self.handle, _NAME).value
        if level != API_LEVEL:
            # The first sentence is Graphcore's.
            raise errors.InternalError(
                None,
                None,
                f"Api level of module {self.path}, op name {symbol} is {level}, expected "
                f"{API_LEVEL}. Level {API_LEVEL} is the only one that is supported (0: "
                f"none is declared): write `{_DECLARATION}` in the library, give the "
                "function that level's arguments (docs/operations.md), and compile again.",
            )
        try:
            self.handle[symbol]
        except AttributeError:
            raise errors.NotFoundError(
                None,
                None,
                f"{self.path}: undefined symbol: {symbol}. Define the function as "
                f'`extern "C" void {symbol}(...)`, see docs/operations.md, or give '
                "`op_name` the name of one that the library has.",
            ) from None


def load(path: str) -> Library:
    """Loads the library that is at a path now; one that was loaded before is kept.

    Raises:
        tf.errors.NotFoundError: It cannot be read or loaded.
        tf.errors.FailedPreconditionError: It was rebuilt, and only its own path loads it.
    """
    path = os.path.abspath(path)
    try:
        now = os.stat(path)
        if not stat.S_ISREG(now.st_mode):
            _fail(path, "it is not a file")
        return _load(path, now.st_ino, now.st_size, now.st_mtime_ns, now.st_ctime_ns)
    except OSError as error:
        _fail(path, error.strerror or str(error))


def _fail(path: str, reason: str) -> NoReturn:
    from tensorflow.python.framework import errors

    raise errors.NotFoundError(
        None, None, f"{path}: {reason}: give a shared library."
    ) from None


_lock = threading.Lock()
# The digests of libraries that were loaded from their own paths.
_in_place: dict[str, str] = {}


@functools.lru_cache(64)
def _load(path: str, *_state: int) -> Library:
    """Loads a library; while `_state`, of the file, is the same, the file is not read."""
    with _lock:
        for _ in range(2):
            copy, digest = _copied(path)
            with contextlib.suppress(OSError):
                return Library(path, copy, digest, _opened(copy))
            if os.path.exists(copy):  # else another process has just removed it
                break
        known = _in_place.get(path)
        if known is not None and known != digest:
            from tensorflow.python.framework import errors

            raise errors.FailedPreconditionError(
                None,
                None,
                f"{path} was rebuilt after this process had loaded it, and a copy of it "
                "in another folder cannot be loaded: restart the process, or set TMPDIR to "
                "a folder whose files may be executed, or link the library so that it "
                "needs no files next to it.",
            )
        try:
            handle = _opened(path)
        except OSError as error:
            _fail(path, str(error).removeprefix(f"{path}: "))
        _in_place[path] = digest
        return Library(path, path, digest, handle)


def _opened(path: str) -> ctypes.CDLL:
    return ctypes.CDLL(path, mode=os.RTLD_NOW | os.RTLD_LOCAL)


def _copied(path: str) -> tuple[str, str]:
    """Copies a file to the path of its content; returns that path, and the digest."""
    try:
        return _copy(path)
    except FileNotFoundError:
        # Another process has removed the folder of this copy, which was KEPT_S old, at
        # this instant. Now it has a new one, which stays.
        return _copy(path)


def _copy(path: str) -> tuple[str, str]:
    folder = _folder()
    digest = hashlib.sha256()
    handle, temporary = tempfile.mkstemp(dir=folder)
    try:
        with os.fdopen(handle, "wb") as target:
            for block in _blocks(path):
                digest.update(block)
                target.write(block)
        # The same content at two paths is two libraries, with their own variables.
        key = hashlib.sha256(f"{path}\0{digest.hexdigest()}".encode()).hexdigest()[:32]
        copy = os.path.join(folder, key, os.path.basename(path))
        os.makedirs(os.path.dirname(copy), mode=0o700, exist_ok=True)
        os.utime(os.path.dirname(copy))
        if os.path.exists(copy):
            os.unlink(temporary)  # a process may have mapped the one that exists
        else:
            os.chmod(temporary, 0o500)
            os.replace(temporary, copy)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
    return copy, digest.hexdigest()


def _blocks(path: str) -> Iterator[bytes]:
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            yield block


@functools.cache
def _folder() -> str:
    """Returns the folder of the copies, which only this user can write to.

    Where another user has created one of that name, the process has its own.
    """
    folder = os.path.join(tempfile.gettempdir(), f"ipufeed-libraries-{os.getuid()}")
    with contextlib.suppress(OSError):
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder, 0o700)
        found = os.lstat(folder)
        is_own = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()
        if is_own and not found.st_mode & 0o077:
            _remove_old(folder)
            return folder
    own = tempfile.mkdtemp(prefix="ipufeed-libraries-")
    atexit.register(_remove, own, os.getpid())
    return own


def _remove_old(folder: str) -> None:
    """Removes the copies that were not loaded for KEPT_S.

    Other processes may do the same at the same time.
    """
    oldest = time.time() - KEPT_S
    for entry in os.scandir(folder):
        with contextlib.suppress(OSError):
            if entry.stat(follow_symlinks=False).st_mtime >= oldest:
                continue
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path)
            else:
                os.unlink(entry.path)  # of a process that ended while it copied


def _remove(folder: str, process: int) -> None:
    if os.getpid() == process:  # not in a fork of it
        shutil.rmtree(folder, ignore_errors=True)
