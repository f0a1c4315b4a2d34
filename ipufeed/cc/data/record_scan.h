// Reads the headers of a TFRecord stream, as the bytes arrive.
//
//   length (8 bytes, little-endian)  CRC of the length (4)  data  CRC of the data (4)
//
// The caller reads or decompresses, in pieces of any size; the scan returns how much of
// what follows it need not see, so that a file's data can be jumped over. Nothing is
// allocated whatever a length field holds, and no byte beyond the piece is touched.
//
// Source: tsl/lib/io/record_reader.cc of TensorFlow for the format. What that reader
// does with a damaged file is in docs/sources.md.
#pragma once

#include <cstdint>

namespace ipufeed {

// Python has the same struct: ipufeed/sources/record_scan.py. A multiple of 8 bytes
// throughout, so that no compiler pads it.
struct RecordScan {
  enum Fault : std::int64_t { kNone = 0, kLength = 1, kAbsurd = 2, kData = 3 };

  std::int64_t check_data;  // in: whether the CRCs of data are compared, too
  std::int64_t records;     // whole ones
  std::int64_t record_at;   // offset in the stream of the record that is under way
  std::int64_t at;          // offset of the next byte that the scan has not had
  std::int64_t data_bytes;  // of whole records
  std::int64_t shortest;    // data of the shortest whole record; -1 before the first
  std::int64_t longest;     // likewise; -1
  std::int64_t length;      // of the record under way, once its header is read; else -1
  std::int64_t fault;       // what is wrong with the record under way
  std::int64_t have;        // bytes that `part` holds
  std::uint64_t crc;        // of the data so far
  unsigned char part[16];   // of a header, or of the CRC after the data
};

// Goes on with `size` bytes from offset `scan->at`. Returns how many bytes after them
// can be left out (0: none), or -1 when scan->fault is set. What is left out must be
// added to scan->at by the caller.
std::int64_t scan_records(RecordScan* scan, const unsigned char* bytes,
                          std::int64_t size);

}  // namespace ipufeed
