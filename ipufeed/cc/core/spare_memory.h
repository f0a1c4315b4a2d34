// Memory that was used and will be again: the packets of a pipeline, the copy of what a
// program may write to. New memory comes page by page from the kernel, which takes five
// times as long as to copy into memory that was written before.
//
// What is kept are the last blocks given, up to kMost bytes of all together; a block is
// used again for as many bytes as it has, no more and no fewer.
#pragma once

#include <cstddef>
#include <deque>
#include <iterator>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "core/mutex.h"

namespace ipufeed {

class SpareMemory {
 public:
  using Bytes = std::unique_ptr<std::byte[]>;

  static constexpr std::size_t kLarge = 64 << 10;  // malloc keeps smaller ones itself
  static constexpr std::size_t kMost = std::size_t{1} << 30;

  static SpareMemory& get() {
    static auto* const spare = new SpareMemory;  // threads may outlive static objects
    return *spare;
  }

  // Uninitialised: all of it is to be written. Throws std::bad_alloc. Any thread.
  Bytes take(std::size_t bytes) IPUFEED_EXCLUDES(mutex_) {
    if (bytes >= kLarge) {
      MutexLock lock(mutex_);
      for (auto each = blocks_.rbegin(); each != blocks_.rend(); ++each) {
        if (each->size != bytes) continue;
        Bytes found = std::move(each->bytes);
        blocks_.erase(std::next(each).base());
        total_ -= bytes;
        return found;
      }
    }
    return Bytes(new std::byte[bytes]);
  }

  // Keeps the last ones, as far as there is memory for the list: destructors call it.
  // Any thread.
  void give(Bytes bytes, std::size_t size) noexcept IPUFEED_EXCLUDES(mutex_) {
    if (bytes == nullptr || size < kLarge || size > kMost) return;
    std::vector<Block> old;  // freed without the lock
    try {
      MutexLock lock(mutex_);
      blocks_.push_back({std::move(bytes), size});
      total_ += size;
      while (total_ > kMost) {
        old.push_back(std::move(blocks_.front()));
        total_ -= old.back().size;
        blocks_.pop_front();
      }
    } catch (const std::bad_alloc&) {
      // What did not get into the list is freed; what did not get out of it stays.
    }
  }

  // Frees all that is kept. Any thread.
  void clear() noexcept IPUFEED_EXCLUDES(mutex_) {
    std::deque<Block> old;
    MutexLock lock(mutex_);
    old.swap(blocks_);
    total_ = 0;
  }

  // Bytes that are kept. Any thread.
  std::size_t kept() IPUFEED_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return total_;
  }

 private:
  struct Block {
    Bytes bytes;
    std::size_t size;
  };

  Mutex mutex_;
  std::deque<Block> blocks_ IPUFEED_GUARDED_BY(mutex_);
  std::size_t total_ IPUFEED_GUARDED_BY(mutex_) = 0;
};

}  // namespace ipufeed
