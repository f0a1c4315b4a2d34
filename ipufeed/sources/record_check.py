"""Checks whether a TFRecord file is whole, and finds where it is not."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass

from ipufeed.checks import as_path, flags_checked
from ipufeed.errors import DamagedFileError, SourceError
from ipufeed.sources.record_scan import FORMATS, Scan, scan_file

HEADER_BYTES, FOOTER_BYTES = 12, 4
# What TensorFlow 2.21 does with each fault (tests/sources/test_record_files.py).
TENSORFLOW = {
    "truncated header": "ends there without an error, as if the file were whole",
    "truncated data": "fails there, with the offset but not the file",
    "truncated stream": "ends there without an error, or fails in the middle of a record",
    "damaged length": "fails there, with the offset but not the file",
    "damaged data": "fails there, with the offset but not the file",
    "absurd length": "tries to allocate that much, and may crash",
    "damaged stream": "fails, with an offset but not the file",
}


@dataclass(frozen=True, kw_only=True)
class RecordFault:
    """A fault of a TFRecord file.

    Attributes:
        kind: `truncated header`, `truncated data`, `truncated stream` (a compressed file
            that ends early), `damaged length` (it does not match its CRC), `absurd length`
            (it matches its CRC, and is 1 TiB or more), `damaged data`, `damaged stream`.
        offset: Start of the record in bytes; of the decompressed data, if the file is
            compressed.
        record: Number of the record, from 0.
        message: The fault in words, and what to do.
    """

    kind: str
    offset: int
    record: int
    message: str


@dataclass(frozen=True, kw_only=True)
class RecordReport:
    """The report of check_tfrecord.

    Attributes:
        path: The file.
        compression: As given.
        file_bytes: Size of the file.
        stream_bytes: Bytes scanned: more than file_bytes if it is compressed.
        records: Whole records before the fault, or all.
        data_bytes: Bytes of their data, without headers and CRCs.
        shortest: Bytes of the shortest of them; None without a record.
        longest: Bytes of the longest of them, likewise.
        data_checked: Whether the CRCs of the data were compared.
        seconds: Duration of the check.
        fault: The first fault, or None.
    """

    path: str
    compression: str | None
    file_bytes: int
    stream_bytes: int
    records: int
    data_bytes: int
    shortest: int | None
    longest: int | None
    data_checked: bool
    seconds: float
    fault: RecordFault | None

    @property
    def ok(self) -> bool:
        """Whether the file has no fault."""
        return self.fault is None

    def raise_for_fault(self) -> None:
        """Raises the fault, if there is one.

        Raises:
            DamagedFileError: With the path, the offset and the record.
        """
        if self.fault is not None:
            raise DamagedFileError(
                self.fault.message, self.path, self.fault.offset, self.fault.record
            )


@flags_checked
def check_tfrecord(
    path: str | os.PathLike[str],
    *,
    compression: str | None = None,
    data: bool = False,
    stop: threading.Event | None = None,
) -> RecordReport:
    """Scans the headers of a TFRecord file, and returns a report of its faults.

    TensorFlow's reader takes a file that is truncated inside a record's header for one that
    has ended, so that records are lost without an error, and may crash on an absurd length.
    This function reads the lengths and their CRCs, skips the data, and allocates no memory
    by sizes from the file.

    Args:
        path: A local file.
        compression: `GZIP`, `ZLIB`, or None for a plain file. All of a compressed file is
            decompressed.
        data: Compare the CRCs of the data as well, which reads every byte.
        stop: Ends the check soon after it is set, with ScanStoppedError.

    Returns:
        The report; a damaged file is a report with a `fault`, and not an exception.

    Raises:
        TypeError: An argument is of another type.
        ValueError: `compression` is another value.
        SourceError: The path is not a file that can be read.

    Threads: any; bytes are read and scanned without the GIL.

    Source: the format is that of tsl/lib/io/record_writer.h in TensorFlow.
    """
    path = as_path("path", path)
    compression = compression_of(compression)
    if stop is not None and not hasattr(stop, "is_set"):
        raise TypeError(
            f"`stop` must be a threading.Event or None, got {type(stop).__name__} {stop!r}."
        )
    if not os.path.isfile(path):
        raise SourceError(
            f"{path} is {'not a file' if os.path.exists(path) else 'not there'}: "
            "check_tfrecord takes a TFRecord file."
        )
    start = time.perf_counter()
    try:
        scan, kind, size = scan_file(path, compression, data, stop or threading.Event())
    except OSError as error:
        raise SourceError(f"cannot read {path}: {error.strerror or error}.") from error
    fault = None
    if kind is not None:
        fault = RecordFault(
            kind=kind,
            offset=scan.record_at,
            record=scan.records,
            message=_message_of(path, compression, scan, kind, size),
        )
    return RecordReport(
        path=path,
        compression=compression,
        file_bytes=size,
        stream_bytes=min(scan.at, size) if compression is None else scan.at,
        records=scan.records,
        data_bytes=scan.data_bytes,
        shortest=scan.shortest if scan.records else None,
        longest=scan.longest if scan.records else None,
        data_checked=data,
        seconds=time.perf_counter() - start,
        fault=fault,
    )


def compression_of(compression: str | None) -> str | None:
    """Checks a `compression`; TensorFlow's "" is None."""
    if compression is None:
        return None
    if not isinstance(compression, str) or compression not in ("", *FORMATS):
        raise ValueError(
            f"`compression` must be 'GZIP', 'ZLIB' or None, got {compression!r}."
        )
    return compression or None


def _message_of(
    path: str, compression: str | None, scan: Scan, kind: str, size: int
) -> str:
    """Returns place and kind of a fault, what TensorFlow does, and what to do."""
    where = f"{path}, record {scan.records:,} (from 0) at byte {scan.record_at:,}"
    if compression is not None:
        where += " of what it decompresses to"
    texts = {
        "truncated header": f"the file ends {scan.have} bytes into the record's header, "
        f"which has {HEADER_BYTES}",
        "truncated data": f"the record's data has {scan.length:,} bytes by its header, "
        f"and the file ends {_missing(scan, size, compression):,} bytes too early",
        "truncated stream": f"the {compression} stream breaks off",
        "damaged length": "the CRC of the record's length does not fit it",
        "damaged data": "the CRC of the record's data does not fit it",
        "absurd length": f"the record's length is {scan.length % 2**64:,} bytes, by a "
        "CRC that fits it",
        "damaged stream": f"the bytes there are not {compression} data",
    }[kind]
    return (
        f"{where}: {kind}: {texts}. TensorFlow's reader {TENSORFLOW[kind]}. "
        f"{_remedy(path, compression, scan, kind)}"
    )


def _missing(scan: Scan, size: int, compression: str | None) -> int:
    """Returns the bytes between the end of the stream and that of the record."""
    end = scan.record_at + HEADER_BYTES + scan.length + FOOTER_BYTES
    return int(end - (size if compression is None else scan.at))


def _remedy(path: str, compression: str | None, scan: Scan, kind: str) -> str:
    if scan.records == 0 and scan.record_at == 0:
        other = _looks_like(path)
        if other != compression:
            return (
                f"It looks like a {other} file: give compression={other!r}."
                if other
                else f"It does not look like a {compression} file: leave out `compression`."
            )
        if kind == "damaged length":
            return "Is it a TFRecord file?"
    again = "Copy or write the file again"
    if scan.records == 0:
        return f"{again}: it has no whole record before."
    if compression is None and kind.startswith("truncated"):
        return (
            f"{again}, or keep the {scan.records:,} whole records before it: "
            f"truncate -s {scan.record_at} {path}"
        )
    return f"{again}; {scan.records:,} whole records are before it."


def _looks_like(path: str) -> str | None:
    """Returns the compression that a file's first two bytes indicate."""
    with open(path, "rb") as file:
        start = file.read(2)
    if start == b"\x1f\x8b":
        return "GZIP"
    # RFC 1950: deflate with a window of 32 KiB, and a check in the low bits.
    if len(start) == 2 and start[0] == 0x78 and int.from_bytes(start, "big") % 31 == 0:
        return "ZLIB"
    return None
