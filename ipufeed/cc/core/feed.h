// A feed: one ring, the waits of both its sides, and its terminal state.
//
//   writer --push()--> [ ring ] --pop()--> reader        any thread: cancel()
//
// push() wakes a parked reader; pop() wakes a parked writer, once the ring is half
// empty (made_room). A reader that naps is woken early only for a ring that is half
// full.
//
// A caller may also pass its own condition to stop waiting, `stopped()`, which ends
// that wait only: the thread that sets it wakes the side (wake_reader,
// wake_writer).
//
// One terminal state, set once: open -> ended | failed | cancelled. Elements inside are
// still delivered after ended and failed; after cancelled they are not, and
// undelivered() counts them. Every wait of either side sees the deadline and the end.
//
// `Error` is what the writer passes when it fails (absl::Status in the product, a
// string in the tests): the feed hands it to the reader without interpreting it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "core/spsc_ring.h"
#include "core/test_hooks.h"
#include "core/wait.h"

namespace ipufeed {

enum class FeedState : std::uint32_t { kOpen, kEnded, kFailed, kCancelled };

// The outcome of a push() or pop(). kDone: the element was moved.
enum class FeedOutcome : std::uint32_t {
  kDone,
  kEnded,
  kFailed,
  kCancelled,
  kTimedOut,
  kStopped
};

// Never stops a wait: for callers without a condition.
struct NeverStopped {
  bool operator()() const noexcept { return false; }
};

template <class T, class Error>
class Feed {
 public:
  // capacity: see SpscRing. spin_ns: see WaitPoint. Throws std::invalid_argument.
  explicit Feed(std::size_t capacity, std::uint64_t start = 0)
      : ring_(capacity, start) {}
  Feed(std::size_t capacity, std::uint64_t start, std::int64_t spin_ns)
      : ring_(capacity, start), reader_(spin_ns), writer_(spin_ns) {}

  std::size_t capacity() const noexcept { return ring_.capacity(); }

  // ---- Writer thread only ----

  // Moves `element` in; unless the outcome is kDone the caller keeps it. Waits
  // while the feed is full. kEnded and kFailed: the writer itself has ended the feed.
  FeedOutcome push(T&& element, std::int64_t deadline_ns = kNoDeadline) {
    return push(std::move(element), deadline_ns, NeverStopped{});
  }
  template <class Stopped>
  FeedOutcome push(T&& element, std::int64_t deadline_ns, Stopped&& stopped) {
    if (state() != FeedState::kOpen) return outcome();
    if (!ring_.try_push(std::move(element))) {
      const bool woken = writer_.wait(
          [&] {
            return ring_.try_claim(1) != 0 || state() != FeedState::kOpen || stopped();
          },
          deadline_ns);
      if (state() != FeedState::kOpen) return outcome();
      if (!ring_.try_push(std::move(element))) {
        return woken ? FeedOutcome::kStopped : FeedOutcome::kTimedOut;
      }
    }
    reader_.notify([this] { return ring_.half_full(); });
    return FeedOutcome::kDone;
  }

  // Likewise, without waiting: kTimedOut if the feed is full.
  FeedOutcome try_push(T&& element) {
    if (state() != FeedState::kOpen) return outcome();
    if (!ring_.try_push(std::move(element))) return FeedOutcome::kTimedOut;
    reader_.notify([this] { return ring_.half_full(); });
    return FeedOutcome::kDone;
  }

  // No push() follows. Does nothing if the feed has been cancelled.
  void end() { finish(FeedState::kEnded); }

  // Likewise, and the reader gets `error` after the last element.
  void fail(Error error) {
    if (state() != FeedState::kOpen) return;  // the reader may be reading error_
    error_ = std::move(error);
    finish(FeedState::kFailed);
  }

  // See SpscRing.
  void set_limit(std::size_t limit) noexcept { ring_.set_limit(limit); }

  // ---- Reader thread only ----

  // Moves the oldest element out. Waits while the feed is empty and open. After it has
  // returned kEnded, kFailed or kCancelled it returns the same at once.
  FeedOutcome pop(T* element, std::int64_t deadline_ns = kNoDeadline) {
    return pop(element, deadline_ns, NeverStopped{});
  }
  template <class Stopped>
  FeedOutcome pop(T* element, std::int64_t deadline_ns, Stopped&& stopped) {
    if (state() == FeedState::kCancelled) return FeedOutcome::kCancelled;
    if (!ring_.try_pop(element)) {
      const bool woken = wait_readable(deadline_ns, stopped);
      if (state() == FeedState::kCancelled) return FeedOutcome::kCancelled;
      if (!ring_.try_pop(element)) {
        if (ring_.drained()) return outcome();
        // Woken by closed(), a relaxed load; the acquire load in drained() makes the
        // last element visible.
        if (!ring_.try_pop(element)) {
          return woken ? FeedOutcome::kStopped : FeedOutcome::kTimedOut;
        }
      }
    }
    made_room();
    return FeedOutcome::kDone;
  }

  // Likewise, without waiting: kTimedOut if the feed is empty and open.
  FeedOutcome try_pop(T* element) {
    if (state() == FeedState::kCancelled) return FeedOutcome::kCancelled;
    if (!ring_.try_pop(element)) {
      if (!ring_.drained()) return FeedOutcome::kTimedOut;
      return outcome();
    }
    made_room();
    return FeedOutcome::kDone;
  }

  // Waits until pop() has something to return or stopped() holds; false at the
  // deadline.
  template <class Stopped>
  bool wait_readable(std::int64_t deadline_ns, Stopped&& stopped) {
    return reader_.wait(
        [&] {
          return ring_.try_readable(1) != 0 || ring_.closed() ||
                 state() == FeedState::kCancelled || stopped();
        },
        deadline_ns);
  }

  // After cancel(): drops the elements inside, which pop() no longer returns.
  void drop_elements() {
    for (;;) {
      T element{};  // a new one each time: a move may swap
      if (!ring_.try_pop(&element)) return;
    }
  }

  // Lets pop() wait up to nap_ns longer than it must while elements come fast, so that
  // the writer need not wake the reader for each. See wait.h.
  void set_reader_nap(std::int64_t nap_ns) noexcept { reader_.set_nap(nap_ns); }

  // The error of the writer; valid once pop() has returned kFailed.
  const Error& error() const noexcept { return error_; }

  // ---- Any thread ----

  // Both sides return at once, and at every later call. Does nothing after the end.
  void cancel() noexcept {
    become(FeedState::kCancelled);
    reader_.notify();
    writer_.notify();
  }

  // Makes a waiting side check its stopped() again; to be called after that was set.
  void wake_reader() noexcept { reader_.notify(); }
  void wake_writer() noexcept { writer_.notify(); }

  // Relaxed: the state alone carries no data. A side that parks sees it through the
  // exchanges of wait.h; what goes with ended and failed is read after drained().
  FeedState state() const noexcept { return state_.load(std::memory_order_relaxed); }

  // Elements that fit at the moment: see SpscRing::set_limit.
  std::size_t limit() const noexcept { return ring_.limit(); }

  // Elements inside: after kCancelled those that are not delivered, once both sides are
  // quiet.
  std::size_t undelivered() const noexcept { return ring_.size(); }

  WaitStats reader_stats() const noexcept { return reader_.stats(); }
  WaitStats writer_stats() const noexcept { return writer_.stats(); }

 private:
  bool become(FeedState state) noexcept {
    auto open = FeedState::kOpen;
    return state_.compare_exchange_strong(open, state, std::memory_order_relaxed);
  }

  // The ring's close() publishes state_ and error_ to the reader.
  void finish(FeedState state) {
    if (!become(state)) return;
    ring_.close();
    reader_.notify();
  }

  // Hysteresis: a parked writer sleeps on until the ring is half empty, so that it is
  // woken for many elements and not for each. The reader's own wait has no such
  // threshold. The reader's copy of the counter is stale: before a wake-up, which costs
  // 3 us, it reloads it. While the writer sleeps nothing is added, so that a later call
  // finds the ring half empty.
  void made_room() noexcept {
    if (!ring_.half_empty()) return;
    writer_.notify_if([this] { return ring_.half_empty_now(); });
  }

  FeedOutcome outcome() const noexcept { return static_cast<FeedOutcome>(state()); }

  SpscRing<T> ring_;
  WaitPoint reader_;
  WaitPoint writer_;
  Error error_{};
  alignas(kCacheLine) std::atomic<FeedState> state_{FeedState::kOpen};
};

static_assert(static_cast<int>(FeedState::kEnded) ==
              static_cast<int>(FeedOutcome::kEnded));
static_assert(static_cast<int>(FeedState::kFailed) ==
              static_cast<int>(FeedOutcome::kFailed));
static_assert(static_cast<int>(FeedState::kCancelled) ==
              static_cast<int>(FeedOutcome::kCancelled));

}  // namespace ipufeed
