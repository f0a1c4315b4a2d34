// What a program enqueues, until a reader takes it: a ring, and a store behind it.
//
//   device --enqueue()--> [ ring ] ----wait(), take()----> reader
//                            |                               ^
//                            +--full: moved by the device--> [ store ]
//
// The ring hands over without a lock while it is read. When it is not read and is full,
// the device itself moves what is in it into the store, so that a program whose results
// are read when it is over needs no third thread that would take its CPU, and a reader
// that waits is woken directly by the device.
//
// A thread that reads from the ring holds mutex_: its holder is the ring's one reader.
// The store is bounded in bytes. When it is full the device waits, in the ring's own
// way.
//
// It knows nothing of TensorFlow: Store has append(T&&), append(Store&&), bytes() and
// empty(), and moves. An append() that throws has changed nothing, and loses nothing
// here.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <utility>

#include "core/feed.h"
#include "core/mutex.h"

namespace ipufeed {

template <class T, class Store>
class ResultQueue {
 public:
  // capacity: elements in the ring. limit_bytes: see above.
  ResultQueue(std::size_t capacity, std::int64_t limit_bytes)
      : limit_bytes_(limit_bytes), feed_(capacity) {}

  // ---- Writer thread only ----

  // Moves `element` in; unless the outcome is kDone the caller still owns it.
  // kTimedOut: there was no room until deadline_ns.
  template <class Stopped>
  FeedOutcome enqueue(T&& element, std::int64_t deadline_ns, Stopped&& stopped) {
    FeedOutcome outcome = feed_.try_push(std::move(element));
    while (outcome == FeedOutcome::kTimedOut) {
      if (spill()) {
        outcome = feed_.try_push(std::move(element));
        continue;
      }
      // A reader has the ring, and makes room; or the store is full. The pause is short
      // because the reader may have looked at the ring just before it was full.
      const std::int64_t pause_end = now_ns() + kPauseNs;
      const std::int64_t end = pause_end < deadline_ns ? pause_end : deadline_ns;
      outcome = feed_.push(std::move(element), end, stopped);
      if (outcome == FeedOutcome::kTimedOut && end == deadline_ns) break;
    }
    if (outcome == FeedOutcome::kDone) {
      enqueued_.store(enqueued_.load(std::memory_order_relaxed) + 1,
                      std::memory_order_relaxed);
    }
    return outcome;
  }

  // ---- Any thread ----

  // All that has been enqueued since the last take(), in order.
  Store take() {
    MutexLock lock(mutex_);
    drain();
    Store taken = std::move(store_);
    store_ = Store();
    stored_bytes_.store(0, std::memory_order_relaxed);
    return taken;
  }

  // What take() has given comes first again.
  void put_back(Store&& taken) {
    MutexLock lock(mutex_);
    taken.append(std::move(store_));
    store_ = std::move(taken);
    stored_bytes_.store(store_.bytes(), std::memory_order_relaxed);
  }

  // Waits until there is something to take or stopped() holds: wake_reader() makes the
  // waiter look. False if neither came before deadline_ns.
  template <class Stopped>
  bool wait(std::int64_t deadline_ns, Stopped&& stopped) {
    if (!acquire(deadline_ns, stopped)) return stopped();
    MutexHeld held(mutex_);
    return !is_drained() || feed_.wait_readable(deadline_ns, stopped);
  }

  // Waits likewise, and moves the oldest element out without the way through the store:
  // kDone. kStopped if stopped() holds and the ring is empty, or if older elements lie
  // in the store: take() has them.
  template <class Stopped>
  FeedOutcome next(T* element, std::int64_t deadline_ns, Stopped&& stopped) {
    if (!acquire(deadline_ns, stopped)) {
      return stopped() ? FeedOutcome::kStopped : FeedOutcome::kTimedOut;
    }
    MutexHeld held(mutex_);
    if (!is_drained()) return FeedOutcome::kStopped;
    return feed_.pop(element, deadline_ns, stopped);
  }

  // While a caller waits for all results of a program that still runs, the store has no
  // limit: the program would wait for the caller that waits for it. Calls come in
  // pairs.
  void lift_limit() noexcept { lifted_.fetch_add(1, std::memory_order_relaxed); }
  void restore_limit() noexcept { lifted_.fetch_sub(1, std::memory_order_relaxed); }

  // Both sides return at once, and at every later call.
  void cancel() noexcept { feed_.cancel(); }

  void wake_reader() noexcept { feed_.wake_reader(); }
  void wake_writer() noexcept { feed_.wake_writer(); }

  std::size_t capacity() const noexcept { return feed_.capacity(); }
  std::uint64_t enqueued() const noexcept {
    return enqueued_.load(std::memory_order_relaxed);
  }
  std::int64_t stored_bytes() const noexcept {
    return stored_bytes_.load(std::memory_order_relaxed);
  }
  // Elements in the ring; what is in the store is not counted.
  std::size_t in_ring() const noexcept { return feed_.undelivered(); }
  WaitStats reader_stats() const noexcept { return feed_.reader_stats(); }
  WaitStats writer_stats() const noexcept { return feed_.writer_stats(); }

 private:
  static constexpr std::int64_t kPauseNs = 1'000'000;

  // Makes its caller the reader. False at the deadline, or when stopped() holds first.
  template <class Stopped>
  bool acquire(std::int64_t deadline_ns, Stopped&& stopped)
      IPUFEED_TRY_ACQUIRE(true, mutex_) {
    while (!mutex_.try_lock()) {  // another reader waits or takes: rare
      if (stopped() || now_ns() >= deadline_ns) return false;
      std::this_thread::sleep_for(std::chrono::nanoseconds(kPauseNs));
    }
    return true;
  }

  // Writer's thread. False if a reader is at it, or the store has no room.
  bool spill() {
    const bool lifted = lifted_.load(std::memory_order_relaxed) > 0;
    if (stored_bytes() >= limit_bytes_ && !lifted) return false;
    if (!mutex_.try_lock()) return false;
    MutexHeld held(mutex_);
    drain();
    return true;
  }

  // Whether nothing is older than what is in the ring.
  bool is_drained() const IPUFEED_REQUIRES(mutex_) {
    return store_.empty() && !has_refused_;
  }

  // An element that the store has refused, with an exception, stays
  // and is the first of the next time.
  void drain() IPUFEED_REQUIRES(mutex_) {
    while (has_refused_ || feed_.try_pop(&refused_) == FeedOutcome::kDone) {
      has_refused_ = true;
      store_.append(std::move(refused_));
      has_refused_ = false;
    }
    refused_ = T();  // what the store has copied, and not taken
    stored_bytes_.store(store_.bytes(), std::memory_order_relaxed);
  }

  const std::int64_t limit_bytes_;
  Feed<T, int> feed_;
  Mutex mutex_;
  Store store_ IPUFEED_GUARDED_BY(mutex_);
  T refused_ IPUFEED_GUARDED_BY(mutex_);
  bool has_refused_ IPUFEED_GUARDED_BY(mutex_) = false;
  std::atomic<std::int64_t> stored_bytes_{0};
  std::atomic<int> lifted_{0};
  std::atomic<std::uint64_t> enqueued_{0};
};

}  // namespace ipufeed
