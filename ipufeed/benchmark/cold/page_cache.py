"""Drops files from the page cache, and looks at what of them is in it.

    drop(path)      fsync, then posix_fadvise(DONTNEED): no root is needed
    resident(path)  bytes of the file in memory, by mincore

The kernel keeps pages that a process has mapped and touched, and all of a file system
that lives in memory (tmpfs). Hence the second look.
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
def libc() -> ctypes.CDLL:
    """C's own mmap and mincore: Python's mmap object gives no address."""
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
    """Asks the kernel to forget the file's pages.

    Raises:
        OSError: The file cannot be opened.
    """
    handle = os.open(path, os.O_RDONLY)
    try:
        # Pages that are not on disk yet stay. Not every file system can, read-only.
        with contextlib.suppress(OSError):
            os.fsync(handle)
        os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(handle)


def resident(path: str) -> int | None:
    """Bytes of the file that are in the page cache, in whole pages; None: not to be known.

    The kernel answers only the file's owner and users with write permission; to others all
    of it seems to be there.

    Raises:
        OSError: The file cannot be opened or mapped.
    """
    handle = os.open(path, os.O_RDONLY)
    try:
        status = os.fstat(handle)
        if status.st_uid != os.geteuid() and not os.access(path, os.W_OK):
            return None
        return sum(
            resident_piece(handle, start, min(PIECE_BYTES, status.st_size - start))
            for start in range(0, status.st_size, PIECE_BYTES)
        )
    finally:
        os.close(handle)


def resident_piece(handle: int, start: int, size: int) -> int:
    """The same for a part of a file; `start` is a multiple of a page."""
    library = libc()
    address = library.mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, handle, start)
    if address in (None, MAP_FAILED):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    try:
        pages = ctypes.create_string_buffer(-(-size // mmap.PAGESIZE))
        if library.mincore(address, size, pages) != 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    finally:
        library.munmap(address, size)
    # The lowest bit alone has a meaning.
    there = sum(byte & 1 for byte in pages.raw) if any(pages.raw) else 0
    return min(size, there * mmap.PAGESIZE)


def file_system(path: str) -> str | None:
    """The type of the file system that a file is on, such as `ext4`, or None."""
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
