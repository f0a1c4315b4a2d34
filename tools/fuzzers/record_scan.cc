// Fuzzes the scan of TFRecord streams (ipufeed/cc/data/record_scan.cc).
//
//   input: options (1 byte), a seed of piece sizes (2 bytes), the stream
//
// With kRepair the checksums of the stream are made right first, so that the fuzzer gets
// behind them. The oracle is a plain reader of the format, written here: the scan must
// report the same records and the same fault however the stream is cut into pieces, and
// whether the caller jumps over what it may leave out or not.
#include "ipufeed/cc/data/record_scan.cc"

#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

using ipufeed::RecordScan;
using Bytes = std::vector<unsigned char>;

enum Options : unsigned char { kRepair = 1, kCheckData = 2, kJump = 4, kSpoilData = 8 };

void check(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "record_scan: %s\n", what);
  std::abort();
}

std::uint32_t masked_crc(const unsigned char* bytes, std::size_t size) {
  const auto* text = reinterpret_cast<const char*>(bytes);
  return tsl::crc32c::Mask(tsl::crc32c::Extend(0, text, size));
}

void put_crc(unsigned char* at, std::uint32_t crc) { std::memcpy(at, &crc, 4); }

// The lengths are cut to what there is, with every fourth bit pattern left as it is.
void repair(Bytes* stream, bool spoil_data) {
  std::size_t at = 0;
  while (at + 12 <= stream->size()) {
    unsigned char* record = stream->data() + at;
    std::uint64_t length = 0;
    std::memcpy(&length, record, 8);
    const std::size_t rest = stream->size() - at - 12;
    if ((length & 3) != 3) {
      length %= std::min<std::size_t>(rest, 64) + 1;
      std::memcpy(record, &length, 8);
    }
    put_crc(record + 8, masked_crc(record, 8));
    if (rest < 4 || length > rest - 4) return;
    put_crc(record + 12 + length, masked_crc(record + 12, length));
    at += 16 + length;
    if (spoil_data && length > 0 && (length & 7) == 5) record[12] ^= 1;
  }
}

struct Expected {
  std::int64_t records = 0;
  std::int64_t data_bytes = 0;
  std::int64_t shortest = -1;
  std::int64_t longest = -1;
  std::int64_t record_at = 0;
  std::int64_t fault = RecordScan::kNone;
};

Expected read_plainly(const Bytes& stream, bool check_data) {
  Expected found;
  std::size_t at = 0;
  while (stream.size() - at >= 12) {
    const unsigned char* record = stream.data() + at;
    std::uint64_t length = 0;
    std::uint32_t crc = 0;
    std::memcpy(&length, record, 8);
    std::memcpy(&crc, record + 8, 4);
    if (crc != masked_crc(record, 8)) {
      found.fault = RecordScan::kLength;
      return found;
    }
    if (length >= std::uint64_t{1} << 40) {
      found.fault = RecordScan::kAbsurd;
      return found;
    }
    if (stream.size() - at - 12 < length + 4) return found;
    std::memcpy(&crc, record + 12 + length, 4);
    if (check_data && crc != masked_crc(record + 12, length)) {
      found.fault = RecordScan::kData;
      return found;
    }
    const auto size = static_cast<std::int64_t>(length);
    ++found.records;
    found.data_bytes += size;
    found.shortest = found.shortest < 0 ? size : std::min(found.shortest, size);
    found.longest = std::max(found.longest, size);
    at += 16 + length;
    found.record_at = static_cast<std::int64_t>(at);
  }
  return found;
}

// As ipufeed/sources/record_scan.py does it. Each piece is a copy of exactly its size, so
// that AddressSanitizer sees a byte too many.
RecordScan scan_in_pieces(const Bytes& stream, bool check_data, bool jump,
                          std::uint32_t seed) {
  RecordScan scan{};
  scan.check_data = check_data ? 1 : 0;
  scan.shortest = scan.longest = scan.length = -1;
  std::size_t at = 0;
  while (at < stream.size()) {
    seed = seed * 1664525 + 1013904223;
    const std::size_t most = 1 + (seed >> 24) % 40;
    const std::size_t size = std::min(most, stream.size() - at);
    const Bytes piece(stream.begin() + static_cast<std::ptrdiff_t>(at),
                      stream.begin() + static_cast<std::ptrdiff_t>(at + size));
    const std::int64_t skip =
        ipufeed::scan_records(&scan, piece.data(), static_cast<std::int64_t>(size));
    check((skip < 0) == (scan.fault != RecordScan::kNone), "-1 exactly with a fault");
    if (skip < 0) return scan;
    at += size;
    check(scan.at == static_cast<std::int64_t>(at), "`at` counts what was given");
    if (!jump || skip == 0) continue;
    if (static_cast<std::uint64_t>(skip) > stream.size() - at) return scan;
    scan.at += skip;
    at += static_cast<std::size_t>(skip);
  }
  return scan;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  if (size < 3) return 0;
  const unsigned char options = data[0];
  const std::uint32_t seed = data[1] + 256U * data[2];
  Bytes stream(data + 3, data + size);
  if ((options & kRepair) != 0) repair(&stream, (options & kSpoilData) != 0);
  const bool check_data = (options & kCheckData) != 0;
  const Expected wanted = read_plainly(stream, check_data);
  const RecordScan scan =
      scan_in_pieces(stream, check_data, (options & kJump) != 0, seed);
  check(scan.records == wanted.records, "as many records");
  check(scan.data_bytes == wanted.data_bytes, "as many bytes of data");
  check(scan.shortest == wanted.shortest && scan.longest == wanted.longest,
        "the same shortest and longest record");
  check(scan.record_at == wanted.record_at, "the same record under way");
  check(scan.fault == wanted.fault, "the same fault");
  return 0;
}
