// The offer of a ring's reader to take its next element without the ring: the writer
// copies it to where the reader wants it, and the ring carries only a mark.
//
//   reader: offer(n, where) --> waits at the ring --> retract(n) if it gives up
//   writer: claim(n) --> copies to what claim() has returned --> pushes the mark
//
// Both count the elements of the ring from 0. The number keeps an offer for element n
// from a writer that is at another one, which the reader does not see: it may have
// pushed element n just before the offer. A claimed offer is always followed by its
// mark, for which the ring has room, since the reader has all elements before it.
//
// Proven: tests/models/direct_copy.pml.
#pragma once

#include <atomic>
#include <cstdint>

#include "core/spsc_ring.h"  // kCacheLine
#include "core/test_hooks.h"

namespace ipufeed {

template <class Where>
class DirectCopy {
 public:
  // ---- Reader thread only ----

  // `where` stays valid until element `number` has been popped or retract() has
  // succeeded. The release [9] gives the writer `where` and orders what the reader has
  // done with the memory before what the writer does.
  void offer(std::uint64_t number, const Where* where) noexcept {
    where_ = where;
    state_.store(tag_of(number), IPUFEED_ORDER(9, std::memory_order_release));  // [9]
  }

  // Takes the offer back; false if the writer has claimed it, whose mark then comes:
  // the reader must pop it, without a condition to stop. Relaxed: the mark orders the
  // copy.
  bool retract(std::uint64_t number) noexcept {
    std::uint64_t expected = tag_of(number);
    return state_.compare_exchange_strong(expected, kNone, std::memory_order_relaxed);
  }

  // ---- Writer thread only ----

  // What the reader offers for element `number`, or null. The acquire [10] pairs with
  // [9].
  const Where* claim(std::uint64_t number) noexcept {
    std::uint64_t expected = tag_of(number);
    if (state_.load(std::memory_order_relaxed) != expected) return nullptr;
    if (!state_.compare_exchange_strong(
            expected, kNone, IPUFEED_ORDER(10, std::memory_order_acquire),  // [10]
            std::memory_order_relaxed)) {
      return nullptr;
    }
    return where_;
  }

 private:
  static constexpr std::uint64_t kNone = 0;
  static std::uint64_t tag_of(std::uint64_t number) noexcept { return number + 1; }

  alignas(kCacheLine) std::atomic<std::uint64_t> state_{kNone};
  const Where* where_ = nullptr;  // written by the reader before [9]
};

}  // namespace ipufeed
