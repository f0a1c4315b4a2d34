"""What check_tfrecord finds: each kind of damage, at its place, in each compression."""

import gzip
import os
import threading

import pytest
from sources.records import (
    DAMAGED,
    DATA_BYTES,
    END,
    GOOD,
    RECORD_BYTES,
    RECORDS,
    compress,
    flipped,
    header,
    record,
)

from ipufeed.errors import DamagedFileError, SourceError
from ipufeed.sources import check_tfrecord
from ipufeed.sources.record_scan import LONG_JUMP, PIECE_BYTES, ScanStoppedError

COMPRESSIONS = [None, "GZIP", "ZLIB"]


@pytest.fixture
def write(tmp_path):
    """Writes the bytes into a file, and gives its path."""

    def write(data, name="a.tfrecord"):
        path = tmp_path / name
        path.write_bytes(data)
        return str(path)

    return write


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_a_whole_file_has_no_fault(write, compression):
    """Records, bytes and extremes are counted exactly."""
    packed = compress(GOOD + record(b"") + record(b"long" * 99), compression)
    report = check_tfrecord(write(packed), compression=compression, data=True)

    assert report.ok
    report.raise_for_fault()
    assert report.records == RECORDS + 2
    assert report.data_bytes == RECORDS * DATA_BYTES + 396
    assert (report.shortest, report.longest) == (0, 396)
    assert report.file_bytes == len(packed)
    assert report.stream_bytes == END + 16 + 16 + 396


def test_an_empty_file_is_whole(write):
    """An empty file has no record, and no fault; there are no extremes of nothing."""
    report = check_tfrecord(write(b""))

    assert (report.ok, report.records, report.shortest) == (True, 0, None)


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("name", DAMAGED)
def test_each_damage_is_found_at_its_place(write, name, compression):
    """Kind, record and offset are right; the error carries them with the path."""
    data, kind, number = DAMAGED[name]
    path = write(compress(data, compression))
    report = check_tfrecord(path, compression=compression)

    assert report.fault is not None
    assert (report.fault.kind, report.fault.record) == (kind, number)
    assert report.fault.offset == number * RECORD_BYTES
    assert report.records == number
    with pytest.raises(DamagedFileError) as caught:
        report.raise_for_fault()
    error = caught.value
    assert (error.path, error.offset, error.record) == (
        path,
        number * RECORD_BYTES,
        number,
    )
    assert f"{path}, record {number} (from 0) at byte {number * RECORD_BYTES}" in str(
        error
    )


def test_damaged_data_is_found_on_request(write):
    """A flipped bit of the data passes the headers' check, and not the full one."""
    path = write(flipped(2 * RECORD_BYTES + 12 + 50))

    assert check_tfrecord(path).ok
    fault = check_tfrecord(path, data=True).fault
    assert (fault.kind, fault.record) == ("damaged data", 2)


def test_a_truncated_file_can_be_cut_to_its_whole_records(write):
    """The message's own command makes the file whole."""
    path = write(GOOD[:-20])
    fault = check_tfrecord(path).fault
    command = fault.message.rsplit(": ", 1)[1]

    assert command == f"truncate -s {4 * RECORD_BYTES} {path}"
    os.truncate(path, int(command.split()[2]))
    report = check_tfrecord(path, data=True)
    assert (report.ok, report.records) == (True, 4)


def test_a_compressed_stream_that_breaks_off_is_truncated(write):
    """Even where it breaks off between two records."""
    packed = gzip.compress(GOOD)
    fault = check_tfrecord(write(packed[:-8]), compression="GZIP").fault

    assert fault.kind == "truncated stream"


def test_gzip_files_that_follow_each_other_are_one_stream(write):
    """As `cat a.gz b.gz` makes them, with a record across the seam."""
    packed = gzip.compress(GOOD[:250]) + gzip.compress(GOOD[250:])
    report = check_tfrecord(write(packed), compression="GZIP", data=True)

    assert (report.ok, report.records) == (True, RECORDS)


@pytest.mark.parametrize(
    ("is_", "given", "words"),
    [
        ("GZIP", None, "It looks like a GZIP file: give compression='GZIP'"),
        ("ZLIB", None, "It looks like a ZLIB file: give compression='ZLIB'"),
        (None, "GZIP", "does not look like a GZIP file: leave out `compression`"),
        ("ZLIB", "GZIP", "It looks like a ZLIB file: give compression='ZLIB'"),
    ],
)
def test_another_compression_is_named(write, is_, given, words):
    """Of a forgotten or a wrong compression the message says which it is."""
    fault = check_tfrecord(write(compress(GOOD, is_)), compression=given).fault

    assert words in fault.message


def test_pieces_end_anywhere_in_a_record(write):
    """Records that straddle the pieces, and jumps of all lengths, are counted right.

    Lengths around the piece's and the jump's sizes put the edges of the pieces into
    headers, data and CRCs.
    """
    around = [PIECE_BYTES, PIECE_BYTES // 2, LONG_JUMP, 4096]
    lengths = [size + more for size in around for more in range(-20, 21, 3)]
    body = b"".join(header(each) + bytes(each) + b"1234" for each in lengths)
    report = check_tfrecord(write(body))

    assert report.ok
    assert report.records == len(lengths)
    assert report.data_bytes == sum(lengths)
    cut = check_tfrecord(write(body[:-1]))
    assert (cut.fault.kind, cut.records) == ("truncated data", len(lengths) - 1)


def test_a_check_can_be_stopped(write):
    """A huge file does not delay a program that ends."""
    stop = threading.Event()
    stop.set()

    for compression in COMPRESSIONS:
        with pytest.raises(ScanStoppedError):
            check_tfrecord(
                write(compress(GOOD, compression)), compression=compression, stop=stop
            )


def test_what_is_not_a_file_is_refused(tmp_path):
    """A folder, a path that is not there, an unknown compression."""
    with pytest.raises(SourceError, match=r"gone is not there: check_tfrecord takes"):
        check_tfrecord(tmp_path / "gone")
    with pytest.raises(SourceError, match="is not a file: check_tfrecord takes"):
        check_tfrecord(tmp_path)
    with pytest.raises(ValueError, match=r"'GZIP', 'ZLIB' or None, got 'bz2'"):
        check_tfrecord(tmp_path / "a", compression="bz2")


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"path": 5}, TypeError, "`path` must be a path, got int 5"),
        ({"compression": []}, ValueError, r"'GZIP', 'ZLIB' or None, got \[\]"),
        ({"stop": 5}, TypeError, "`stop` must be a threading.Event or None, got int 5"),
    ],
)
def test_bad_arguments_are_named(arguments, error, words):
    """Before the file is opened."""
    with pytest.raises(error, match=words):
        check_tfrecord(**{"path": "file", **arguments})
