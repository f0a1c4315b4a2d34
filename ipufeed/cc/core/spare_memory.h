// A cache of memory blocks for reuse: the packets of a pipeline, the copy of a
// program's writable inputs. New memory is mapped page by page by the kernel, which
// takes five times as long as a copy into memory that was written before.
//
// It keeps the last freed blocks, up to kMost bytes in total; a block is reused for a
// request of exactly its size.
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

  // Uninitialised: the caller must write all of it. Throws std::bad_alloc. Any thread.
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

  // Keeps the block if there is memory for the list: destructors call it.
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
      // Without memory for the list, blocks that were not added are freed; others stay.
    }
  }

  // Frees all kept blocks. Any thread.
  void clear() noexcept IPUFEED_EXCLUDES(mutex_) {
    std::deque<Block> old;
    MutexLock lock(mutex_);
    old.swap(blocks_);
    total_ = 0;
  }

  // The size of the kept blocks. Any thread.
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
