// Reads and writes the fields of serialised protocol buffers, without making messages
// of them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include "absl/container/inlined_vector.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"

namespace ipufeed {

// How a field is written: the low bits of its tag.
enum class ProtoWire : std::uint32_t {
  kVarint = 0,
  kFixed64 = 1,
  kBytes = 2,
  kFixed32 = 5
};

// One field of a serialised message.
struct ProtoField {
  int number = 0;
  std::uint64_t value = 0;  // of a varint
  std::string_view bytes;   // of a string, a message or packed numbers
  std::string_view whole;   // with its tag
};

// The fields of a serialised message, one after the other.
class ProtoFields {
 public:
  explicit ProtoFields(std::string_view message)
      : message_(message),
        stream_(reinterpret_cast<const std::uint8_t*>(message.data()),
                static_cast<int>(message.size())) {}

  // False at the end, and for what is not a message: see whole().
  bool next(ProtoField* field) {
    const int start = stream_.CurrentPosition();
    const std::uint32_t tag = stream_.ReadTag();
    if (tag == 0) return false;
    *field = ProtoField();
    field->number = static_cast<int>(tag >> 3);
    if (!read(static_cast<ProtoWire>(tag & 7), field)) return false;
    field->whole = message_.substr(start, stream_.CurrentPosition() - start);
    read_to_ = stream_.CurrentPosition();
    return true;
  }

  // Whether all of the message has been read.
  bool whole() const { return read_to_ == static_cast<int>(message_.size()); }

 private:
  bool read(ProtoWire wire, ProtoField* field) {
    std::uint32_t size = 0;
    switch (wire) {
      case ProtoWire::kVarint:
        return stream_.ReadVarint64(&field->value);
      case ProtoWire::kFixed64:
        return stream_.Skip(8);
      case ProtoWire::kFixed32:
        return stream_.Skip(4);
      case ProtoWire::kBytes:
        if (!stream_.ReadVarint32(&size)) return false;
        if (size > message_.size() - stream_.CurrentPosition()) return false;
        field->bytes = message_.substr(stream_.CurrentPosition(), size);
        return stream_.Skip(static_cast<int>(size));
    }
    return false;
  }

  const std::string_view message_;
  google::protobuf::io::CodedInputStream stream_;
  int read_to_ = 0;
};

// Calls `take` with each field. False for what is not a message, or if `take` returns
// false.
template <typename Take>
bool each_proto_field(std::string_view message, Take take) {
  ProtoFields fields(message);
  ProtoField field;
  while (fields.next(&field)) {
    if (!take(field)) return false;
  }
  return fields.whole();
}

using ProtoNumbers = absl::InlinedVector<std::int64_t, 4>;

// Appends the numbers of a repeated field, packed or one of them.
inline bool append_proto_numbers(const ProtoField& field, ProtoNumbers* numbers) {
  if (field.bytes.data() == nullptr) {
    numbers->push_back(static_cast<std::int64_t>(field.value));
    return true;
  }
  google::protobuf::io::CodedInputStream stream(
      reinterpret_cast<const std::uint8_t*>(field.bytes.data()),
      static_cast<int>(field.bytes.size()));
  std::uint64_t value = 0;
  while (stream.CurrentPosition() < static_cast<int>(field.bytes.size())) {
    if (!stream.ReadVarint64(&value)) return false;
    numbers->push_back(static_cast<std::int64_t>(value));
  }
  return true;
}

// Writes serialised fields.
class ProtoWriter {
 public:
  explicit ProtoWriter(std::string* out) : stream_(out), coded_(&stream_) {}

  void copy(std::string_view bytes) {
    coded_.WriteRaw(bytes.data(), static_cast<int>(bytes.size()));
  }

  // All fields of a message but some.
  void copy_without(std::string_view message, std::initializer_list<int> numbers) {
    each_proto_field(message, [&](const ProtoField& field) {
      if (std::find(numbers.begin(), numbers.end(), field.number) == numbers.end()) {
        copy(field.whole);
      }
      return true;
    });
  }

  void number(int field, std::int64_t value) {
    write_tag(field, ProtoWire::kVarint);
    coded_.WriteVarint64(static_cast<std::uint64_t>(value));
  }

  void bytes(int field, std::string_view value) {
    write_tag(field, ProtoWire::kBytes);
    coded_.WriteVarint32(static_cast<std::uint32_t>(value.size()));
    copy(value);
  }

 private:
  void write_tag(int field, ProtoWire wire) {
    coded_.WriteTag(static_cast<std::uint32_t>(field) << 3 |
                    static_cast<std::uint32_t>(wire));
  }

  google::protobuf::io::StringOutputStream stream_;
  google::protobuf::io::CodedOutputStream coded_;
};

}  // namespace ipufeed
