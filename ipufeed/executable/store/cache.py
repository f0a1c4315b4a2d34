"""The cache of compiled programs on disk: `<key>.poplar_exec` in --executable_cache_path.

    find(key) --trusted file exists--> Entry
        |  else
    Slot: holds <key>.compile_lock --compile--> store() --rename--> <key>.poplar_exec

Processes that start together compile a program once: the second one waits for the lock,
and finds the file. The cache has no index and never removes files: users may delete them,
and the folder, at any time. A file is written whole or not at all.

Files that are damaged or untrusted are ignored, with one warning, and replaced after the
compilation.

Threads: any, also for one folder.
"""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

from ipufeed.device.flags import flags
from ipufeed.device.log import LOGGER
from ipufeed.errors import DamagedFileError
from ipufeed.executable.program.file_format import Entry, pack, unpack
from ipufeed.executable.store import safety
from ipufeed.executable.store.counters import COUNTERS
from ipufeed.render.files import write_whole

SUFFIX = ".poplar_exec"
LOCK_SUFFIX = ".compile_lock"
# Interval of the attempts to take a lock that another process holds.
POLL_S = 0.05
# Larger files cannot be executables, and are not read.
MAX_FILE = 4 << 30


class Slot:
    """The exclusive right to compile one program, until it is released.

    Attributes:
        path: The program's file.
    """

    def __init__(self, path: Path, lock: int | None) -> None:
        self.path = path
        self._lock = lock

    def store(self, entry: Entry) -> Path:
        """Writes the file, whole or not at all; makes the folder if it was deleted.

        Raises:
            OSError: The file cannot be written. No part of it remains.
        """
        _make(self.path.parent)
        write_whole(self.path, pack(entry), mode=0o600)
        return self.path

    def release(self) -> None:
        """Releases the right. Idempotent."""
        lock, self._lock = self._lock, None
        if lock is None:
            return
        # Unlinked while the lock is held: waiting processes see that the file is gone.
        _lock_path(self.path).unlink(missing_ok=True)
        os.close(lock)


class Cache:
    """A folder of compiled programs.

    Args:
        folder: The folder; made at a lookup if it is missing, with access for this user
            only.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock = threading.Lock()  # guards the two below
        self._usable: bool | None = None
        self._warned: set[str] = set()

    def path(self, key_hex: str) -> Path:
        """Returns the file of a program."""
        return self.folder / (key_hex + SUFFIX)

    def find(
        self, key_hex: str, digest: str, stopped: Callable[[], bool]
    ) -> Entry | Slot | None:
        """Finds a program; if it is missing, waits for the right to compile it.

        Args:
            key_hex: The key, as in file names.
            digest: The program's digest, which the file must contain.
            stopped: Polled while waiting for another process; True ends the wait.

        Returns:
            The program; or the slot to store it in; or None if the folder cannot be made
            or trusted.
        """
        if not self.is_usable():
            return None
        path = self.path(key_hex)
        entry = self._read(path, digest, warn=False)
        if entry is not None:
            return entry
        slot = self.slot(key_hex, stopped)
        try:
            entry = self._read(path, digest, warn=True)
        except BaseException:
            slot.release()
            raise
        if entry is None:
            return slot
        slot.release()
        return entry

    def slot(self, key_hex: str, stopped: Callable[[], bool]) -> Slot:
        """Waits for the right to compile a program, even if its file exists.

        Args:
            key_hex: The key, as in file names.
            stopped: Polled while waiting for another process; True ends the wait.
        """
        path = self.path(key_hex)
        return Slot(path, self._acquire(_lock_path(path), stopped))

    def reject(self, path: Path, why: str) -> None:
        """Counts a file that is not used, and warns about it, once per file."""
        COUNTERS.add(refused=1)
        replaced = "" if path.is_dir() else ", and the file replaced"
        self._warn(
            str(path),
            f"The executable {path} is not used: {why}. It is compiled again{replaced}.",
        )

    def is_usable(self) -> bool:
        """Whether the folder may be trusted; makes it if it is missing."""
        with self._lock:
            if self._usable is None or (self._usable and not self.folder.is_dir()):
                self._usable = self._prepare()
            return self._usable

    def _prepare(self) -> bool:
        try:
            _make(self.folder)
            safety.check_folder(self.folder)
        except safety.UnsafeError as error:
            reason = str(error)
        except FileExistsError as error:
            reason = f"{error.filename} is not a folder; remove it, or name another"
        except OSError as error:
            reason = f"{error.filename or self.folder}: {error.strerror}"
        else:
            return True
        LOGGER.warning(
            "The executable cache %s is not used, and programs are compiled: %s.",
            self.folder,
            reason,
        )
        return False

    def _read(self, path: Path, digest: str, *, warn: bool) -> Entry | None:
        try:
            entry = read_trusted(path)
            if entry.header.get("digest") != digest:
                raise DamagedFileError(
                    "the digest in its header does not match its file name"
                )
        except FileNotFoundError:
            return None
        except (DamagedFileError, OSError) as error:
            if warn:
                self.reject(path, str(error))
            return None
        return entry

    def _acquire(self, path: Path, stopped: Callable[[], bool]) -> int | None:
        """Takes a lock; None if that fails: then two processes may compile the same."""
        while True:
            try:
                lock = os.open(
                    path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600
                )
            except OSError as error:
                self._warn(
                    "lock",
                    f"Programs are compiled without a lock: {path} cannot be made "
                    f"({error.strerror}).",
                )
                return None
            try:
                if not _wait_for_lock(lock, stopped):
                    os.close(lock)
                    return None
            except BaseException:
                os.close(lock)
                raise
            # Another process may have removed the file before this one locked it.
            try:
                if os.path.samestat(os.fstat(lock), os.stat(path)):
                    return lock
            except FileNotFoundError:
                pass
            os.close(lock)

    def _warn(self, what: str, text: str) -> None:
        with self._lock:
            if what in self._warned:
                return
            self._warned.add(what)
        LOGGER.warning("%s", text)


def cache_folder() -> Path | None:
    """Returns the folder of --executable_cache_path, or None."""
    folder = flags.get_flags().executable_cache_path
    return Path(folder).expanduser() if folder else None


def _make(folder: Path) -> None:
    """Makes a folder, with access for this user only, if it is missing."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)


def _lock_path(path: Path) -> Path:
    return path.with_suffix(LOCK_SUFFIX)


def _wait_for_lock(lock: int, stopped: Callable[[], bool]) -> bool:
    """Takes a lock; False if the file system has no locks, or `stopped` ended the wait."""
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if stopped():
                return False
            time.sleep(POLL_S)
        except OSError:
            return False
        else:
            return True


def read_trusted(path: Path) -> Entry:
    """Reads a file, provided that other users cannot have written it.

    Raises:
        FileNotFoundError: The file does not exist.
        UnsafeError: Other users may have written it.
        DamagedFileError: The file is damaged.
        OSError: The file cannot be read.
    """
    descriptor = safety.open_trusted(path)
    with os.fdopen(descriptor, "rb") as file:
        if os.fstat(file.fileno()).st_size > MAX_FILE:
            raise DamagedFileError("it is larger than an executable can be")
        return unpack(file.read())
