// The queue of a program's results: a ring, and a store for what does not fit.
//
//   device --enqueue()--> [ ring ] ---next(), wait(), take()---> reader
//               |            |                                     ^
//               |            +--full: moved by the device--> [ store ]
//               +--straight, while something is stored-------------^
//
// The ring passes elements without a lock while it is read. When it is full and not
// read, the device itself moves its elements into the store, and then writes there
// directly: a program whose results are read after its end needs no third thread that
// would take its CPU, and a waiting reader is woken directly by the device.
//
// A thread that reads from the ring, or accesses the store, holds role_. Elements in
// the store are older than those in the ring. The store is bounded in bytes. When it is
// full the device waits as at a full ring. No wait polls the clock: the thread that
// releases the role, makes room in the store or lifts its limit wakes the device, and
// readers that wait for the role are notified.
//
// It knows nothing of TensorFlow: Store has append(T&&), append(Store&&), pop(T*),
// bytes() and empty(), and moves. An append() or a pop() that throws must leave the
// store unchanged; no element is lost then.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "core/feed.h"
#include "core/mutex.h"
#include "core/reader_role.h"

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
    Whole whole{&element};
    return enqueue_from(whole, deadline_ns, stopped);
  }

  // Likewise, of a source that is not a T yet. Source has store(Store*), which appends
  // it to the store directly, and element(), a T to move into the ring; both leave it
  // unchanged unless it was taken.
  template <class Source, class Stopped>
  FeedOutcome enqueue_from(Source& source, std::int64_t deadline_ns,
                           Stopped&& stopped) {
    FeedOutcome outcome = FeedOutcome::kDone;
    // Relaxed: only this side makes it other than 0, and if a reader has emptied the
    // store since, the element is still read in order from there.
    if (stored_bytes() == 0 || !store_straight(source)) {
      outcome = feed_.try_push(std::move(source.element()));
      while (outcome == FeedOutcome::kTimedOut) {
        if (store_straight(source)) {
          outcome = FeedOutcome::kDone;
          break;
        }
        // A reader holds the ring, and makes room; or the store is full.
        bool stops = false;
        outcome = feed_.push(std::move(source.element()), deadline_ns, [&] {
          stops = stopped();
          return stops || may_store();
        });
        if (outcome == FeedOutcome::kTimedOut || stops) break;
        if (outcome == FeedOutcome::kStopped) outcome = FeedOutcome::kTimedOut;
      }
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
    role_.lock_now([this] { feed_.wake_reader(); });
    const Reading reading(*this);
    drain();
    Store taken = std::move(store_);
    store_ = Store();
    note_stored();
    return taken;
  }

  // Puts back what take() has returned, as the oldest elements.
  void put_back(Store&& taken) {
    role_.lock_now([this] { feed_.wake_reader(); });
    const Reading reading(*this);
    taken.append(std::move(store_));
    store_ = std::move(taken);
    note_stored();
  }

  // Waits until there is an element or stopped() holds: wake_reader() makes the waiter
  // check. False if neither happened before deadline_ns.
  template <class Stopped>
  bool wait(std::int64_t deadline_ns, Stopped&& stopped) {
    for (;;) {
      if (!acquire(deadline_ns, stopped)) return stopped();
      const Reading reading(*this);
      if (!is_drained()) return true;
      bool wanted = false;
      const bool woken = feed_.wait_readable(deadline_ns, [&] {
        if (stopped()) return true;
        return wanted = role_.is_wanted();
      });
      if (!woken) return false;
      if (!wanted || stopped() || in_ring() > 0) return true;
    }
  }

  // Waits likewise, and moves the oldest element out: kDone. kStopped: nothing was
  // there when stopped() held.
  template <class Stopped>
  FeedOutcome next(T* element, std::int64_t deadline_ns, Stopped&& stopped) {
    for (;;) {
      if (!acquire(deadline_ns, stopped)) {
        return stopped() ? FeedOutcome::kStopped : FeedOutcome::kTimedOut;
      }
      const Reading reading(*this);
      if (!is_drained()) {
        pop_stored(element);
        return FeedOutcome::kDone;
      }
      bool stops = false;
      bool wanted = false;
      const FeedOutcome outcome = feed_.pop(element, deadline_ns, [&] {
        stops = stopped();
        wanted = !stops && role_.is_wanted();
        return stops || wanted;
      });
      if (outcome != FeedOutcome::kStopped || !wanted) return outcome;
    }
  }

  // While a caller waits for all results of a program that still runs, the store has no
  // limit: the program would wait for the caller that waits for it. Calls come in
  // pairs.
  void lift_limit() noexcept {
    lifted_.fetch_add(1, std::memory_order_relaxed);
    feed_.wake_writer();
  }
  void restore_limit() noexcept { lifted_.fetch_sub(1, std::memory_order_relaxed); }

  // Both sides return at once, and at every later call.
  void cancel() {
    feed_.cancel();
    role_.wake();
  }

  void wake_reader() {
    feed_.wake_reader();
    role_.wake();
  }
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
  // An element that the caller of enqueue() has.
  struct Whole {
    T* whole;
    T& element() { return *whole; }
    void store(Store* store) { store->append(std::move(*whole)); }
  };

  // Holds the role for its lifetime; the caller has acquired it.
  class IPUFEED_ATTRIBUTE(scoped_lockable) Reading {
   public:
    explicit Reading(ResultQueue& queue) IPUFEED_REQUIRES(queue.role_)
        : queue_(queue) {}
    ~Reading() IPUFEED_RELEASE() {
      queue_.role_.unlock();
      queue_.feed_.wake_writer();  // it may have waited for the role, or for room
    }
    Reading(const Reading&) = delete;
    Reading& operator=(const Reading&) = delete;

   private:
    ResultQueue& queue_;
  };

  // The same for the writer, which needs no wake-up.
  class IPUFEED_ATTRIBUTE(scoped_lockable) Writing {
   public:
    explicit Writing(ResultQueue& queue) IPUFEED_REQUIRES(queue.role_)
        : queue_(queue) {}
    ~Writing() IPUFEED_RELEASE() { queue_.role_.unlock(); }
    Writing(const Writing&) = delete;
    Writing& operator=(const Writing&) = delete;

   private:
    ResultQueue& queue_;
  };

  // Makes its caller the reader. False at the deadline, or when stopped() holds first.
  // With a deadline in the past it only checks the current elements.
  template <class Stopped>
  bool acquire(std::int64_t deadline_ns, Stopped&& stopped)
      IPUFEED_TRY_ACQUIRE(true, role_) {
    if (deadline_ns > now_ns()) return role_.lock(deadline_ns, stopped);
    role_.lock_now([this] { feed_.wake_reader(); });
    return true;
  }

  bool has_room() const {
    return stored_bytes() < limit_bytes_ || lifted_.load(std::memory_order_relaxed) > 0;
  }

  // The further condition of a writer that waits at the ring.
  bool may_store() { return has_room() && role_.is_free(); }

  // Writer's thread: moves the ring's elements into the store, and then the element.
  // False if a reader holds the role, or the store has no room, or the feed was
  // cancelled.
  template <class Source>
  bool store_straight(Source& source) {
    if (!has_room() || feed_.state() != FeedState::kOpen || !role_.try_lock()) {
      return false;
    }
    const Writing writing(*this);
    drain();
    // Cancelled since: the remaining elements stay in the ring, and none follows. Or
    // the store is full now, and the ring has room.
    if (feed_.state() != FeedState::kOpen || !has_room()) return false;
    source.store(&store_);
    note_stored();
    return true;
  }

  // Whether the ring has the oldest element.
  bool is_drained() const IPUFEED_REQUIRES(role_) {
    return store_.empty() && !has_refused_;
  }

  // The oldest element that is not in the ring; there is one.
  void pop_stored(T* element) IPUFEED_REQUIRES(role_) {
    if (store_.empty()) {
      *element = std::move(refused_);
      refused_ = T();
      has_refused_ = false;
      return;
    }
    store_.pop(element);
    note_stored();
  }

  // An element at which the store has thrown stays, and is the first to move next time.
  void drain() IPUFEED_REQUIRES(role_) {
    while (has_refused_ || feed_.try_pop(&refused_) == FeedOutcome::kDone) {
      has_refused_ = true;
      store_.append(std::move(refused_));
      has_refused_ = false;
      refused_ = T();  // the store has copied it, not moved
    }
    note_stored();
  }

  void note_stored() IPUFEED_REQUIRES(role_) {
    stored_bytes_.store(store_.bytes(), std::memory_order_relaxed);
  }

  const std::int64_t limit_bytes_;
  Feed<T, int> feed_;
  ReaderRole role_;
  Store store_ IPUFEED_GUARDED_BY(role_);
  T refused_ IPUFEED_GUARDED_BY(role_);
  bool has_refused_ IPUFEED_GUARDED_BY(role_) = false;
  std::atomic<std::int64_t> stored_bytes_{0};
  std::atomic<int> lifted_{0};
  std::atomic<std::uint64_t> enqueued_{0};
};

}  // namespace ipufeed
