// A cache of memory blocks for reuse: large tensors of IPUs, what programs compute in,
// the packets of a pipeline. New memory is mapped page by page by the kernel, which
// takes five times as long as a copy into memory that was written before.
//
//   a run's results --take()--> old blocks of its variables
//   old values of variables --give()--> the cache
//
// It keeps the last freed blocks, up to kMost bytes in total; a block is reused for a
// request that leaves less than an eighth of it unused.
#pragma once

#include <malloc.h>

#include <cstddef>
#include <cstdlib>
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
  struct Free {
    void operator()(std::byte* block) const noexcept { std::free(block); }
  };
  // Aligned as XLA's kernels and TensorFlow's tensors need it; of malloc's kind.
  using Bytes = std::unique_ptr<std::byte[], Free>;

  static constexpr std::size_t kAlignment = 64;
  static constexpr std::size_t kLarge = 64 << 10;  // malloc keeps smaller ones itself
  static constexpr std::size_t kMost = std::size_t{1} << 30;
  static constexpr std::size_t kMostBlocks = 256;

  static SpareMemory& get() {
    static auto* const spare = new SpareMemory;  // threads may outlive static objects
    return *spare;
  }

  // Uninitialised: the caller must write all of it. Throws std::bad_alloc. Any thread.
  Bytes take(std::size_t bytes) IPUFEED_EXCLUDES(mutex_) {
    Bytes found = find(bytes);
    if (found != nullptr || bytes == 0) return found;
    const std::size_t whole = (bytes + kAlignment - 1) / kAlignment * kAlignment;
    found.reset(static_cast<std::byte*>(std::aligned_alloc(kAlignment, whole)));
    if (found == nullptr) throw std::bad_alloc();
    return found;
  }

  // A kept block, or null. Any thread.
  Bytes find(std::size_t bytes) noexcept IPUFEED_EXCLUDES(mutex_) {
    if (bytes < kLarge) return nullptr;
    MutexLock lock(mutex_);
    for (auto each = blocks_.rbegin(); each != blocks_.rend(); ++each) {
      if (each->size < bytes || each->size - bytes >= each->size / 8) continue;
      Bytes found = std::move(each->bytes);
      total_ -= each->size;
      blocks_.erase(std::next(each).base());
      return found;
    }
    return nullptr;
  }

  // Keeps the block if there is memory for the list: destructors call it.
  // Any thread.
  void give(Bytes bytes) noexcept IPUFEED_EXCLUDES(mutex_) {
    if (bytes == nullptr) return;
    const std::size_t size = malloc_usable_size(bytes.get());
    if (size < kLarge || size > kMost) return;
    std::vector<Block> old;  // freed without the lock
    try {
      MutexLock lock(mutex_);
      blocks_.push_back({std::move(bytes), size});
      total_ += size;
      while (total_ > kMost || blocks_.size() > kMostBlocks) {
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
