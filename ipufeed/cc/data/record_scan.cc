#include "data/record_scan.h"

#include <algorithm>
#include <cstring>

#include "xla/tsl/lib/hash/crc32c.h"

namespace ipufeed {
namespace {

namespace crc32c = tsl::crc32c;

constexpr std::int64_t kHeader = 12;
constexpr std::int64_t kFooter = 4;
// No writer holds such a record in memory. TensorFlow's reader allocates what a length
// claims, and crashes when it does not get it.
constexpr std::uint64_t kAbsurdLength = std::uint64_t{1} << 40;

std::uint32_t crc_at(const unsigned char* bytes) {
  std::uint32_t crc;
  std::memcpy(&crc, bytes, sizeof(crc));  // little-endian, as this machine is
  return crc32c::Unmask(crc);
}

std::uint64_t extend(std::uint64_t crc, const unsigned char* bytes, std::int64_t size) {
  return crc32c::Extend(static_cast<std::uint32_t>(crc),
                        reinterpret_cast<const char*>(bytes),
                        static_cast<std::size_t>(size));
}

void read_header(RecordScan* scan, const unsigned char* header) {
  std::uint64_t length;
  std::memcpy(&length, header, sizeof(length));
  if (extend(0, header, 8) != crc_at(header + 8)) {
    scan->fault = RecordScan::kLength;
  } else if (length >= kAbsurdLength) {
    scan->fault = RecordScan::kAbsurd;
  }
  scan->length = static_cast<std::int64_t>(length);
  scan->crc = 0;
}

void end_record(RecordScan* scan) {
  ++scan->records;
  scan->data_bytes += scan->length;
  scan->shortest =
      scan->shortest < 0 ? scan->length : std::min(scan->shortest, scan->length);
  scan->longest = std::max(scan->longest, scan->length);
  scan->record_at = scan->at;
  scan->length = -1;
}

}  // namespace

std::int64_t scan_records(RecordScan* scan, const unsigned char* bytes,
                          std::int64_t size) {
  // Gives `wanted` bytes in one piece, from earlier calls and this one; nullptr when
  // they are not all there yet.
  const auto take = [&](std::int64_t wanted) -> const unsigned char* {
    if (scan->have == 0 && size >= wanted) {
      const unsigned char* whole = bytes;
      bytes += wanted, size -= wanted, scan->at += wanted;
      return whole;
    }
    const std::int64_t more = std::min(size, wanted - scan->have);
    if (more > 0) std::memcpy(scan->part + scan->have, bytes, more);
    scan->have += more;
    bytes += more, size -= more, scan->at += more;
    if (scan->have < wanted) return nullptr;
    scan->have = 0;
    return scan->part;
  };
  while (true) {
    if (scan->length < 0) {
      const unsigned char* header = take(kHeader);
      if (header == nullptr) return 0;
      read_header(scan, header);
      if (scan->fault != RecordScan::kNone) return -1;
    }
    const std::int64_t data_end = scan->record_at + kHeader + scan->length;
    if (scan->at < data_end) {
      const std::int64_t here = std::min(size, data_end - scan->at);
      if (scan->check_data) scan->crc = extend(scan->crc, bytes, here);
      bytes += here, size -= here, scan->at += here;
      if (scan->at < data_end) {
        // The last byte of the data is left in, so that a file that is cut within the
        // data cannot seem to end after it.
        return scan->check_data ? 0 : data_end - scan->at - 1;
      }
    }
    const unsigned char* footer = take(kFooter);
    if (footer == nullptr) return 0;
    if (scan->check_data && scan->crc != crc_at(footer)) {
      scan->fault = RecordScan::kData;
      return -1;
    }
    end_record(scan);
  }
}

}  // namespace ipufeed
