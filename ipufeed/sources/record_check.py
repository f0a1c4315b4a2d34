"""Whether a TFRecord file is whole, and where it is not."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass
from typing import Any

from ipufeed.checks import flags_checked
from ipufeed.errors import DamagedFileError, SourceError
from ipufeed.sources.record_scan import FORMATS, Scan, scan_file

HEADER_BYTES, FOOTER_BYTES = 12, 4
# What TensorFlow 2.21 does with each, found by trying: tests/sources/test_tensorflow.py.
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
    """What is wrong with a TFRecord file.

    Attributes:
        kind: `truncated header`, `truncated data`, `truncated stream` (a compressed file
            that ends early), `damaged length` (its CRC does not fit), `absurd length`
            (its CRC fits, and it is 1 TiB or more), `damaged data`, `damaged stream`.
        offset: In bytes, where the record begins; in what comes out of the file, if it
            is compressed.
        record: The number of that record, from 0.
        message: All of it in words, with the way out.
    """

    kind: str
    offset: int
    record: int
    message: str


@dataclass(frozen=True, kw_only=True)
class RecordReport:
    """What check_tfrecord found.

    Attributes:
        path: The file.
        compression: As it was given.
        file_bytes: The file's size.
        stream_bytes: What was scanned: more than file_bytes if it was compressed.
        records: Whole records before the fault, or all.
        data_bytes: What these records hold, without headers and CRCs.
        shortest: Bytes of the shortest of them, None if there is none.
        longest: Likewise.
        data_checked: Whether the CRCs of the records' data were compared.
        seconds: What the check took.
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
        """Whether nothing is wrong."""
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
    """Goes through the headers of a TFRecord file, and reports what is wrong with it.

    TensorFlow's reader takes a file that ends within a record's header for one that has
    ended, so that records are lost without a word, and may crash on a length that is
    absurd. This one reads the lengths and their CRCs, jumps over the data, and allocates
    nothing that a file asks for.

    Args:
        path: A local file.
        compression: `GZIP`, `ZLIB`, or None for a plain file. A compressed file is
            decompressed, all of it.
        data: Compare the CRCs of the data as well, which reads every byte.
        stop: Ends the check soon after it is set, with ScanStoppedError.

    Returns:
        The report; a damaged file is a report with a `fault`, and no exception.

    Raises:
        ValueError: `compression` is none of these.
        SourceError: The path is not a file that can be read.

    Threads: any; no lock of Python's is held while bytes are read or looked at.

    Source: the format is that of tsl/lib/io/record_writer.h in TensorFlow.
    """
    path = os.fspath(path)
    compression = compression_of(compression)
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
            message=describe(path, compression, scan, kind, size),
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


def compression_of(compression: Any) -> str | None:
    """`GZIP`, `ZLIB` or None, from what TensorFlow takes: "" is None, too."""
    if compression is None or compression == "":
        return None
    if compression not in FORMATS:
        raise ValueError(
            f"`compression` must be 'GZIP', 'ZLIB' or None, got {compression!r}."
        )
    return str(compression)


def describe(
    path: str, compression: str | None, scan: Scan, kind: str, size: int
) -> str:
    """The fault in words: where, what, what TensorFlow does, the way out."""
    where = f"{path}, record {scan.records:,} (from 0) at byte {scan.record_at:,}"
    if compression is not None:
        where += " of what it decompresses to"
    texts = {
        "truncated header": f"the file ends {scan.have} bytes into the record's header, "
        f"which has {HEADER_BYTES}",
        "truncated data": f"the record's data has {scan.length:,} bytes by its header, "
        f"and the file ends {missing(scan, size, compression):,} bytes too early",
        "truncated stream": f"the {compression} stream breaks off",
        "damaged length": "the CRC of the record's length does not fit it",
        "damaged data": "the CRC of the record's data does not fit it",
        "absurd length": f"the record's length is {scan.length % 2**64:,} bytes, by a "
        "CRC that fits it",
        "damaged stream": f"what stands there is no {compression} data",
    }[kind]
    return (
        f"{where}: {kind}: {texts}. TensorFlow's reader {TENSORFLOW[kind]}. "
        f"{way_out(path, compression, scan, kind)}"
    )


def missing(scan: Scan, size: int, compression: str | None) -> int:
    """Bytes between the end of the stream and that of the record."""
    end = scan.record_at + HEADER_BYTES + scan.length + FOOTER_BYTES
    return int(end - (size if compression is None else scan.at))


def way_out(path: str, compression: str | None, scan: Scan, kind: str) -> str:
    """What to do about it."""
    if scan.records == 0 and scan.record_at == 0:
        other = looks_like(path)
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
        return f"{again}: no whole record stands before it."
    if compression is None and kind.startswith("truncated"):
        return (
            f"{again}, or keep the {scan.records:,} whole records before it: "
            f"truncate -s {scan.record_at} {path}"
        )
    return f"{again}; {scan.records:,} whole records stand before it."


def looks_like(path: str) -> str | None:
    """The compression that a file's first two bytes speak of."""
    with open(path, "rb") as file:
        start = file.read(2)
    if start == b"\x1f\x8b":
        return "GZIP"
    # RFC 1950: deflate with a window of 32 KiB, and a check in the low bits.
    if len(start) == 2 and start[0] == 0x78 and int.from_bytes(start, "big") % 31 == 0:
        return "ZLIB"
    return None
