// The source of a transfer to a device: page-aligned, grown as needed, and of bounded
// size, like memory that a driver has pinned.
//
// A larger component is copied through it in rounds. The memory must be mapped once:
// with the bound that takes at most about 0.1 s; for an element of 1.2 GB it would take
// seconds, in which the dataset would be blocked.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <new>

namespace ipufeed {

class TransferBuffer {
 public:
  // Far above any cache, so that a copy takes as long as one to fresh memory.
  static constexpr std::size_t kMostBytes = std::size_t{64} << 20;

  // Makes room for `bytes`, or for kMostBytes of them, and touches it, so that no copy
  // includes the kernel's time to map memory.
  void reserve(std::size_t bytes) {
    const std::size_t wanted = std::min(bytes, kMostBytes);
    if (wanted <= size_) return;
    // Doubles at each growth, so that slowly growing sizes cause few growths.
    const std::size_t grown = std::min(std::max(wanted, 2 * size_), kMostBytes);
    memory_.reset();  // first, so that both never exist at the same time
    size_ = at_ = 0;
    memory_.reset(static_cast<char*>(::operator new(grown, kPage)));
    size_ = grown;
    for (std::size_t i = 0; i < grown; i += kPageBytes) memory_.get()[i] = 0;
  }

  // The next write() goes to the beginning.
  void rewind() { at_ = 0; }

  // Copies to the position after the last write, and wraps around at the end. There
  // must be room: reserve().
  void write(const char* from, std::size_t bytes) {
    while (bytes > 0) {
      const std::size_t part = std::min(bytes, size_ - at_);
      std::memcpy(memory_.get() + at_, from, part);
      from += part;
      bytes -= part;
      at_ = at_ + part == size_ ? 0 : at_ + part;
    }
  }

  const char* data() const { return memory_.get(); }
  std::size_t size() const { return size_; }

 private:
  struct Free {
    void operator()(char* memory) const { ::operator delete(memory, kPage); }
  };
  static constexpr std::size_t kPageBytes = 4096;
  static constexpr std::align_val_t kPage{kPageBytes};
  std::unique_ptr<char, Free> memory_;
  std::size_t size_ = 0;
  std::size_t at_ = 0;  // below size_, or 0
};

}  // namespace ipufeed
