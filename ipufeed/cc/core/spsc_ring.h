// A bounded ring of elements between one writer thread and one reader thread.
//
// The ring never waits: a full or an empty ring returns false, and wait.h decides how
// to wait. It knows nothing of TensorFlow, so that it compiles alone under sanitizers.
//
// Two counters, which only grow and may wrap around; slot n lives at index n & mask.
//   committed_  slots filled so far   stored by the writer only
//   released_   slots emptied so far  stored by the reader only
//   readable = committed_ - released_
//
// Memory order. Each store below has one load that it pairs with:
//   [1] commit()  -> [2] try_readable()  a reader that sees n committed slots also sees
//                                        the elements in them.
//   [3] release() -> [4] try_claim()     a writer that sees a slot released knows that
//                                        the reader's last access to it is over.
//   [5] close()   -> [6] drained()       a reader that sees the end also sees the last
//                                        commit, and all that the writer wrote before
//                                        it closed (feed.h: why it ended).
// A side loads its own counter relaxed, because only this side stores to it.
//
// Source: Le, Guatto, Cohen, Pop, "Correct and Efficient Bounded FIFO Queues", SBAC-PAD
// 2013 (this algorithm, proven in the C11 memory model). That each side keeps a copy of
// the other's counter, on a cache line of its own, is the layout of rigtorp/SPSCQueue.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

#include "core/test_hooks.h"

namespace ipufeed {

// Two lines of 64 bytes, since the adjacent-line prefetcher fetches pairs. A constant,
// not std::hardware_destructive_interference_size: that one follows -mtune, so two
// objects built with different flags would disagree on the layout.
inline constexpr std::size_t kCacheLine = 128;

template <class T>
class SpscRing {
  static_assert(std::is_default_constructible_v<T>, "an empty slot holds a T{}");
  static_assert(std::is_nothrow_move_assignable_v<T>,
                "elements are moved, and a move that throws would lose one");

 public:
  // Allocates every slot now; nothing is allocated afterwards.
  //
  // capacity: elements that fit, any number from 1 to 2^31. The slots are rounded up to
  // a power of two so that an index costs a mask; the bound stays `capacity`. start:
  // the value that both counters start from, so that tests reach the wrap-around.
  // Throws std::invalid_argument.
  explicit SpscRing(std::size_t capacity, std::uint64_t start = 0)
      : capacity_(capacity),
        mask_(slots_for(capacity) - 1),
        slots_(std::make_unique<T[]>(mask_ + 1)),
        committed_(start),
        released_seen_(start),
        released_(start),
        committed_seen_(start),
        limit_(capacity) {}
  SpscRing(const SpscRing&) = delete;
  SpscRing& operator=(const SpscRing&) = delete;

  std::size_t capacity() const noexcept { return capacity_; }

  // ---- Writer thread only ----

  // Number of free slots, at most `most`; 0 when the ring is full. Fill them through
  // claimed(0), claimed(1), ..., then commit().
  std::size_t try_claim(std::size_t most) noexcept {
    const auto committed = committed_.load(std::memory_order_relaxed);
    const std::size_t bound = limit();
    // most > bound first: with a huge `most` the sum wraps around.
    if (most > bound || committed - released_seen_ + most > bound) {
      IPUFEED_YIELD_POINT();
      released_seen_ = released_.load(IPUFEED_ORDER(4, std::memory_order_acquire));
      const auto filled = committed - released_seen_;
      const std::size_t free = filled < bound ? bound - filled : 0;
      return most < free ? most : free;
    }
    return most;
  }

  // The i-th slot that try_claim() counted.
  T& claimed(std::size_t i) noexcept {
    return slots_[(committed_.load(std::memory_order_relaxed) + i) & mask_];
  }

  // Publishes the first `count` claimed slots.
  void commit(std::size_t count) noexcept {
    const auto committed = committed_.load(std::memory_order_relaxed);
    IPUFEED_YIELD_POINT();
    committed_.store(committed + count, IPUFEED_ORDER(1, std::memory_order_release));
  }

  // Moves `element` in and returns true, or leaves it alone when the ring is full.
  bool try_push(T&& element) noexcept {
    if (try_claim(1) == 0) return false;
    claimed(0) = std::move(element);
    commit(1);
    return true;
  }

  // Uses only `limit` slots from now on, in [1, capacity]. For large elements, whose
  // bytes are the bound and not their count. Elements already inside stay.
  void set_limit(std::size_t limit) noexcept {
    limit_.store(limit < 1           ? 1
                 : limit > capacity_ ? capacity_
                                     : limit,
                 std::memory_order_relaxed);
  }

  // True when at least half of the slots in use are filled. Reads the reader's line.
  bool half_full() noexcept {
    released_seen_ = released_.load(IPUFEED_ORDER(4, std::memory_order_acquire));
    return 2 * (committed_.load(std::memory_order_relaxed) - released_seen_) >= limit();
  }

  // Closes the ring: no commit() follows. Idempotent.
  void close() noexcept {
    IPUFEED_YIELD_POINT();
    closed_.store(true, IPUFEED_ORDER(5, std::memory_order_release));
  }

  // ---- Reader thread only ----

  // Number of elements that can be read, at most `most`; 0 when the ring is empty. Move
  // them out through readable(0), readable(1), ..., then release().
  std::size_t try_readable(std::size_t most) noexcept {
    const auto released = released_.load(std::memory_order_relaxed);
    if (committed_seen_ - released < most) {
      IPUFEED_YIELD_POINT();
      committed_seen_ = committed_.load(IPUFEED_ORDER(2, std::memory_order_acquire));
      const std::size_t filled = committed_seen_ - released;
      return most < filled ? most : filled;
    }
    return most;
  }

  // The i-th element that try_readable() counted.
  T& readable(std::size_t i) noexcept {
    return slots_[(released_.load(std::memory_order_relaxed) + i) & mask_];
  }

  // Releases the first `count` readable slots to the writer. Elements that were not
  // moved out stay alive until the slot is written again.
  void release(std::size_t count) noexcept {
    const auto released = released_.load(std::memory_order_relaxed);
    IPUFEED_YIELD_POINT();
    released_.store(released + count, IPUFEED_ORDER(3, std::memory_order_release));
  }

  // Moves the oldest element out and returns true, or false when the ring is empty.
  bool try_pop(T* element) noexcept {
    if (try_readable(1) == 0) return false;
    *element = std::move(readable(0));
    fetch_ahead();
    release(1);
    return true;
  }

  // A lower bound of the elements inside, without touching the writer's cache line.
  std::size_t filled_at_least() const noexcept {
    return committed_seen_ - released_.load(std::memory_order_relaxed);
  }

  // half_empty() with a fresh load of the counter: reads the writer's line.
  bool half_empty_now() noexcept {
    committed_seen_ = committed_.load(IPUFEED_ORDER(2, std::memory_order_acquire));
    return half_empty();
  }

  // True once the ring is closed and empty. closed_ must be loaded first: loaded
  // second, a commit and a close between the two loads would lose the last element.
  bool drained() noexcept {
#ifdef IPUFEED_PLANT_DRAINED_ORDER  // the wrong order, to see that the tests catch it
    const bool empty = try_readable(1) == 0;
    IPUFEED_YIELD_POINT();
    return empty && closed_.load(std::memory_order_acquire);
#else
    return closed_.load(IPUFEED_ORDER(6, std::memory_order_acquire)) &&
           try_readable(1) == 0;
#endif
  }

  // True when at most half of the slots in use are filled, as far as the reader knows:
  // never false once the ring is empty.
  bool half_empty() const noexcept { return 2 * filled_at_least() <= limit(); }

  // ---- Any thread ----

  // Slots in use, as the writer last set them. Relaxed: it orders nothing.
  std::size_t limit() const noexcept { return limit_.load(std::memory_order_relaxed); }

  bool closed() const noexcept { return closed_.load(std::memory_order_relaxed); }

  // Elements inside, exact when both sides are quiet. Released is loaded first: loaded
  // second it could overtake the committed count that was seen.
  std::size_t size() const noexcept {
    const auto released = released_.load(std::memory_order_acquire);
    return committed_.load(std::memory_order_acquire) - released;
  }

 private:
  // Starts the transfer of a slot that is read kAhead pops later, if it is filled: its
  // line may lie in the writer's cache, and is then here when it is read. A slot that
  // is not filled stays with the writer. The hint keeps the code of a reader that has
  // caught up in line. ring_pointer of benchmarks/cc/ring_bench.cc: 13 to 20 ns with
  // both, 20 to 35 without the hint, 36 without either.
  void fetch_ahead() const noexcept {
    constexpr std::size_t kAhead = kCacheLine / sizeof(T);
    if constexpr (kAhead > 1) {
      if (__builtin_expect(filled_at_least() > kAhead, 0)) {
        const auto released = released_.load(std::memory_order_relaxed);
        __builtin_prefetch(&slots_[(released + kAhead) & mask_]);
      }
    }
  }

  static std::size_t slots_for(std::size_t capacity) {
    constexpr std::size_t kMost = std::size_t{1} << 31;
    if (capacity < 1 || capacity > kMost) {
      throw std::invalid_argument("capacity must be in [1, 2^31], got " +
                                  std::to_string(capacity));
    }
    std::size_t slots = 1;
    while (slots < capacity) slots *= 2;
    return slots;
  }

  const std::size_t capacity_;
  const std::size_t mask_;
  const std::unique_ptr<T[]> slots_;

  // One line each: a store by one side must not evict what the other side reads. The
  // copies have lines of their own, too; next to the counters they cost three times as
  // much.
  alignas(kCacheLine) std::atomic<std::uint64_t> committed_;
  alignas(kCacheLine) std::uint64_t released_seen_;  // writer's copy of released_
  alignas(kCacheLine) std::atomic<std::uint64_t> released_;
  alignas(kCacheLine) std::uint64_t committed_seen_;  // reader's copy of committed_
  // Both sides read these; they are hardly ever written.
  alignas(kCacheLine) std::atomic<bool> closed_{false};
  std::atomic<std::size_t> limit_;  // stored by the writer only
};

}  // namespace ipufeed
