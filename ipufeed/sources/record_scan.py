"""Runs the native scan of a TFRecord file: reads, decompresses, skips data.

    file --pread--> [zlib] --> ipufeed_scan_records --> how far to jump

The data of the records is only read if its CRCs are to be compared, or if the file is
compressed. `stop` is checked after each piece of at most 256 KiB.
"""

from __future__ import annotations

import ctypes
import io
import os
import threading
import zlib

from ipufeed import _native

PIECE_BYTES = 256 * 1024
# After a jump of more than LONG_JUMP the next header is probably far away, too, and a
# large piece would read data to skip.
LONG_JUMP = 64 * 1024
SMALL_PIECE_BYTES = 4096
# wbits of zlib.decompressobj
FORMATS = {"GZIP": 31, "ZLIB": 15}


class Scan(ctypes.Structure):
    """RecordScan of ipufeed/cc/data/record_scan.h, which documents the fields."""

    _fields_ = (
        ("check_data", ctypes.c_int64),
        ("records", ctypes.c_int64),
        ("record_at", ctypes.c_int64),
        ("at", ctypes.c_int64),
        ("data_bytes", ctypes.c_int64),
        ("shortest", ctypes.c_int64),
        ("longest", ctypes.c_int64),
        ("length", ctypes.c_int64),
        ("fault", ctypes.c_int64),
        ("have", ctypes.c_int64),
        ("crc", ctypes.c_uint64),
        ("part", ctypes.c_ubyte * 16),
    )


FAULTS = {1: "damaged length", 2: "absurd length", 3: "damaged data"}


class ScanStoppedError(Exception):
    """The scan was stopped by its event."""


def scan_file(
    path: str, compression: str | None, data: bool, stop: threading.Event
) -> tuple[Scan, str | None, int]:
    """Scans a file.

    Returns:
        The scan; the fault of the record where it stopped, or None; the file's size in
        bytes.

    Raises:
        OSError: The file cannot be read.
        ScanStoppedError: `stop` was set.
    """
    scan = Scan(check_data=int(data), shortest=-1, longest=-1, length=-1)
    with open(path, "rb", buffering=0) as file:
        size = os.fstat(file.fileno()).st_size
        if compression is None:
            fault = _scan_plain(file.fileno(), size, scan, stop)
        else:
            fault = _scan_compressed(file, compression, scan, stop)
    return scan, fault or _fault_at_end(scan), size


def _scan_plain(
    handle: int, size: int, scan: Scan, stop: threading.Event
) -> str | None:
    """Reads headers, and skips the data unless its CRCs are to be compared."""
    feed = _native.entry().ipufeed_scan_records
    buffer = bytearray(PIECE_BYTES)
    whole = memoryview(buffer)
    first = (ctypes.c_char * PIECE_BYTES).from_buffer(buffer)
    address, state = ctypes.addressof(first), ctypes.addressof(scan)
    wanted = PIECE_BYTES
    while scan.at < size:
        if stop.is_set():
            raise ScanStoppedError
        got = os.preadv(handle, [whole[:wanted]], scan.at)
        if got == 0:  # the file was truncated during the scan
            break
        jump = feed(state, address, got)
        if jump < 0:
            return FAULTS[scan.fault]
        scan.at += jump
        wanted = SMALL_PIECE_BYTES if jump > LONG_JUMP else PIECE_BYTES
    return None


def _scan_compressed(
    file: io.FileIO, compression: str, scan: Scan, stop: threading.Event
) -> str | None:
    """Decompresses the whole file, and scans the records."""
    feed = _native.entry().ipufeed_scan_records
    state = ctypes.addressof(scan)
    stream = zlib.decompressobj(FORMATS[compression])
    left = 0  # of a jump
    while raw := file.read(PIECE_BYTES):
        while raw:
            if stop.is_set():
                raise ScanStoppedError
            if stream.eof:  # a file can hold several gzip streams
                stream = zlib.decompressobj(FORMATS[compression])
            try:
                piece = stream.decompress(raw, 4 * PIECE_BYTES)
            except zlib.error:
                return "damaged stream"
            raw = stream.unused_data if stream.eof else stream.unconsumed_tail
            passed = min(left, len(piece))
            left -= passed
            scan.at += passed
            if passed < len(piece):
                rest = piece[passed:] if passed else piece
                left = feed(state, rest, len(rest))
                if left < 0:
                    return FAULTS[scan.fault]
    return None if stream.eof else "truncated stream"


def _fault_at_end(scan: Scan) -> str | None:
    """Returns the fault of a stream that ends here, or None."""
    if scan.length >= 0:
        return "truncated data"
    return "truncated header" if scan.have else None
