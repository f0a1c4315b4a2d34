// Which thread reads from a ring that several may read, one at a time.
//
//   reader that waits   lock(), sleeps at the ring, unlock()
//   taker               lock_now(): waits no longer than one check of the ring
//   writer              try_lock(), to move the ring's elements away
//
// A reader that sleeps at the ring holds the role until an element arrives. A taker
// wants the current elements: it makes such a reader release the role, by is_wanted(),
// and a reader that has released it waits until no taker wants it. Two waiting readers
// do not interfere.
#pragma once

#include <atomic>
#include <cstdint>

#include "core/clock.h"
#include "core/mutex.h"
#include "core/wait.h"  // kNoDeadline

namespace ipufeed {

class IPUFEED_ATTRIBUTE(capability("role")) ReaderRole {
 public:
  ReaderRole() = default;
  ReaderRole(const ReaderRole&) = delete;
  ReaderRole& operator=(const ReaderRole&) = delete;

  bool try_lock() IPUFEED_TRY_ACQUIRE(true) {
    MutexLock lock(mutex_);
    if (is_taken_ || wanted_.load(std::memory_order_relaxed) > 0) return false;
    is_taken_ = true;
    return true;
  }

  // Waits for the role. False at the deadline, or once stopped() holds: after that has
  // become true, wake() makes the waiter call it again.
  template <class Stopped>
  bool lock(std::int64_t deadline_ns, Stopped&& stopped) IPUFEED_TRY_ACQUIRE(true) {
    MutexLock lock(mutex_);
    while (is_taken_ || wanted_.load(std::memory_order_relaxed) > 0) {
      if (stopped()) return false;
      if (deadline_ns == kNoDeadline) {
        changed_.wait(mutex_);
        continue;
      }
      const std::int64_t left_ns = deadline_ns - now_ns();
      if (left_ns <= 0) return false;
      changed_.wait_for_ns(mutex_, left_ns);
    }
    is_taken_ = true;
    return true;
  }

  // Waits until the holder of the role releases it; wake_holder() makes a sleeping
  // reader check is_wanted().
  template <class WakeHolder>
  void lock_now(WakeHolder&& wake_holder) IPUFEED_ACQUIRE() {
    {
      MutexLock lock(mutex_);
      if (!is_taken_) {
        is_taken_ = true;
        return;
      }
      wanted_.fetch_add(1, std::memory_order_relaxed);
    }
    wake_holder();
    MutexLock lock(mutex_);
    while (is_taken_) changed_.wait(mutex_);
    wanted_.fetch_sub(1, std::memory_order_relaxed);
    is_taken_ = true;
  }

  void unlock() IPUFEED_RELEASE() {
    MutexLock lock(mutex_);
    is_taken_ = false;
    changed_.notify_all();
  }

  // Whether try_lock() would succeed now.
  bool is_free() {
    MutexLock lock(mutex_);
    return !is_taken_ && wanted_.load(std::memory_order_relaxed) == 0;
  }

  // Whether a taker waits. Relaxed: the number alone carries no data, and a reader that
  // goes to sleep sees it through the exchanges of wait.h.
  bool is_wanted() const { return wanted_.load(std::memory_order_relaxed) > 0; }

  // Makes waiters call their stopped() again.
  void wake() {
    MutexLock lock(mutex_);
    changed_.notify_all();
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  bool is_taken_ IPUFEED_GUARDED_BY(mutex_) = false;
  std::atomic<int> wanted_{0};
};

}  // namespace ipufeed
