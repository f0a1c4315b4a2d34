// A contiguous block of bytes that grows. A large block grows without a copy: the
// kernel remaps its pages to a larger address range (mremap).
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstring>
#include <new>

#include "core/spsc_ring.h"  // kCacheLine

namespace ipufeed {

class GrowingBlock {
 public:
  static constexpr std::size_t kMapped = 128 << 10;  // larger blocks are mapped pages

  GrowingBlock() = default;
  ~GrowingBlock() { release(data_, room_); }
  GrowingBlock(const GrowingBlock&) = delete;
  GrowingBlock& operator=(const GrowingBlock&) = delete;

  // Aligned to a cache line at least; moves when it grows.
  std::byte* data() noexcept { return data_; }
  std::size_t room() const noexcept { return room_; }

  // Grows to `room` bytes, more than it has, and keeps the first `used` bytes. False if
  // memory is lacking: it is then unchanged.
  bool grow(std::size_t room, std::size_t used) noexcept {
    std::byte* data = nullptr;
    if (room_ >= kMapped) {
      void* const moved = mremap(data_, room_, room, MREMAP_MAYMOVE);
      if (moved == MAP_FAILED) return false;
      data = static_cast<std::byte*>(moved);
    } else {
      data = acquire(room);
      if (data == nullptr) return false;
      if (used > 0) std::memcpy(data, data_, used);
      release(data_, room_);
    }
    data_ = data;
    room_ = room;
    return true;
  }

 private:
  static constexpr std::align_val_t kAlign{kCacheLine};

  static std::byte* acquire(std::size_t room) noexcept {
    if (room < kMapped) {
      return static_cast<std::byte*>(::operator new(room, kAlign, std::nothrow));
    }
    void* const pages =
        mmap(nullptr, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return pages == MAP_FAILED ? nullptr : static_cast<std::byte*>(pages);
  }

  static void release(std::byte* data, std::size_t room) noexcept {
    if (data == nullptr) return;
    if (room < kMapped) {
      ::operator delete(data, kAlign);
    } else {
      munmap(data, room);
    }
  }

  std::byte* data_ = nullptr;
  std::size_t room_ = 0;
};

}  // namespace ipufeed
