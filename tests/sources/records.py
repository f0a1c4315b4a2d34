"""Writes TFRecord files, whole and damaged, byte by byte.

The CRC here is the textbook's, bit by bit, so that it shares no line with what it checks.
"""

import gzip
import struct
import zlib

MASK = 0xFFFFFFFF
RECORDS = 5
DATA_BYTES = 100
RECORD_BYTES = 12 + DATA_BYTES + 4
END = RECORDS * RECORD_BYTES


def crc32c(data):
    crc = MASK
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ MASK


def masked(data):
    crc = crc32c(data)
    return struct.pack("<I", (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & MASK)


def header(length):
    packed = struct.pack("<Q", length)
    return packed + masked(packed)


def record(data):
    return header(len(data)) + data + masked(data)


GOOD = b"".join(record(bytes([number]) * DATA_BYTES) for number in range(RECORDS))


def flipped(at):
    return GOOD[:at] + bytes([GOOD[at] ^ 1]) + GOOD[at + 1 :]


# What each file is, what is wrong with it, at which record.
DAMAGED = {
    "one byte of a header": (GOOD + b"\x64", "truncated header", 5),
    "eleven bytes of a header": (GOOD + header(9)[:11], "truncated header", 5),
    "a header alone": (GOOD + header(9), "truncated data", 5),
    "an empty record's header": (GOOD + header(0), "truncated data", 5),
    "half of the data": (GOOD + header(100) + b"x" * 50, "truncated data", 5),
    "all but a byte of the data": (GOOD[:-5], "truncated data", 4),
    "all but the data's CRC": (GOOD[:-4], "truncated data", 4),
    "all but the last byte": (GOOD[:-1], "truncated data", 4),
    "more than the file has": (GOOD + header(8 << 30) + b"x", "truncated data", 5),
    "a flipped length": (flipped(2 * RECORD_BYTES), "damaged length", 2),
    "a flipped CRC of a length": (flipped(3 * RECORD_BYTES + 8), "damaged length", 3),
    "text": (b"this is not a TFRecord file\n" * 9, "damaged length", 0),
    "2^62 bytes": (GOOD + header(1 << 62) + b"x" * 99, "absurd length", 5),
    "2^64 - 1 bytes": (GOOD + header(2**64 - 1) + b"x" * 99, "absurd length", 5),
    "2^64 - 20 bytes": (GOOD + header(2**64 - 20) + b"x" * 99, "absurd length", 5),
    "2^40 bytes": (GOOD + header(1 << 40), "absurd length", 5),
}


def compress(data, compression):
    return {None: bytes, "GZIP": gzip.compress, "ZLIB": zlib.compress}[compression](
        data
    )
