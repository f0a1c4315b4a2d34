"""Drops files from the page cache, and counts the bytes of a file in it.

    drop(path)      fsync, then posix_fadvise(DONTNEED); needs no root
    resident(path)  bytes of the file in memory, by mincore

The kernel keeps pages that a process has mapped and touched, and all files of a file system
in memory (tmpfs), so `resident` is called after each `drop`.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import mmap
import os
from pathlib import Path

PIECE_BYTES = 1 << 30
MAP_FAILED = ctypes.c_void_p(-1).value
IN_MEMORY = frozenset({"tmpfs", "ramfs", "hugetlbfs"})


@functools.cache
def _libc() -> ctypes.CDLL:
    """Returns C's mmap and mincore: a Python mmap object has no address."""
    library = ctypes.CDLL(None, use_errno=True)
    size, address = ctypes.c_size_t, ctypes.c_void_p
    library.mmap.restype = address
    library.mmap.argtypes = [
        address,
        size,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_int64,
    ]
    library.munmap.argtypes = [address, size]
    library.mincore.argtypes = [address, size, ctypes.c_char_p]
    return library


def drop(path: str) -> None:
    """Asks the kernel to drop the file's pages.

    Raises:
        OSError: The file cannot be opened.
    """
    handle = os.open(path, os.O_RDONLY)
    try:
        # Dirty pages are not dropped. Some file systems refuse fsync of a read-only file.
        with contextlib.suppress(OSError):
            os.fsync(handle)
        os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(handle)


def resident(path: str) -> int | None:
    """Returns the bytes of the file in the page cache, in whole pages; None if unknown.

    The kernel answers only the file's owner and users with write permission; to others all
    of it seems to be in memory.

    Raises:
        OSError: The file cannot be opened or mapped.
    """
    handle = os.open(path, os.O_RDONLY)
    try:
        status = os.fstat(handle)
        if status.st_uid != os.geteuid() and not os.access(path, os.W_OK):
            return None
        return sum(
            _resident_piece(handle, start, min(PIECE_BYTES, status.st_size - start))
            for start in range(0, status.st_size, PIECE_BYTES)
        )
    finally:
        os.close(handle)


def _resident_piece(handle: int, start: int, size: int) -> int:
    """Returns the same for a part of a file; `start` is a multiple of the page size."""
    library = _libc()
    address = library.mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, handle, start)
    if address in (None, MAP_FAILED):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    try:
        pages = ctypes.create_string_buffer(-(-size // mmap.PAGESIZE))
        if library.mincore(address, size, pages) != 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    finally:
        library.munmap(address, size)
    # Only the lowest bit of each byte has a meaning.
    count = sum(byte & 1 for byte in pages.raw) if any(pages.raw) else 0
    return min(size, count * mmap.PAGESIZE)


def file_system(path: str) -> str | None:
    """Returns the type of a file's file system, such as `ext4`, or None."""
    target = os.path.realpath(path)
    best, found = "", None
    try:
        mounts = Path("/proc/mounts").read_text().splitlines()
    except OSError:
        return None
    for line in mounts:
        _, point, kind, *_ = line.split()
        point = point.encode().decode("unicode_escape")  # spaces are \040
        inside = target == point or target.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best):
            best, found = point, kind
    return found
