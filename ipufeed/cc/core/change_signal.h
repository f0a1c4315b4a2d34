// A condition variable whose waiters spin for a change before they sleep.
//
//   MutexLock lock(mutex);                        MutexLock lock(mutex);
//   while (!ready) changed.wait(mutex);           ready = true; changed.notify_all();
//
// For threads that run at the same time and wait for each other often, such as
// replicas: a wake-up by the kernel takes some 5 us on an idle CPU, the change itself a
// fraction of one.
//
// Memory order: what is guarded is read under the mutex alone. The count of changes
// shows a waiter only that locking the mutex again may be worth it, so it is relaxed.
// It changes under the mutex, where a waiter compares it before it sleeps: a change
// that a spinning waiter has missed keeps it from sleeping.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/clock.h"
#include "core/cpu_relax.h"
#include "core/cpus.h"
#include "core/mutex.h"
#include "core/wait.h"  // kAnswerNs, kNoDeadline

namespace ipufeed {

class ChangeSignal {
 public:
  // waiters: the number of threads that wait for each other. None spins if they cannot
  // run all at once.
  explicit ChangeSignal(std::size_t waiters)
      : spin_ns_(waiters <= static_cast<std::size_t>(usable_cpus()) ? kAnswerNs : 0) {}
  ChangeSignal(const ChangeSignal&) = delete;
  ChangeSignal& operator=(const ChangeSignal&) = delete;

  // Unlocks the mutex while it waits. May return without a notification.
  void wait(Mutex& mutex) IPUFEED_REQUIRES(mutex) {
    if (!spin(mutex, spin_ns_)) sleep(mutex, kNoDeadline);
  }

  // Likewise, for that long at most.
  void wait_for_ns(Mutex& mutex, std::int64_t ns) IPUFEED_REQUIRES(mutex) {
    const std::int64_t spin_ns = std::min(spin_ns_, ns);
    if (!spin(mutex, spin_ns)) sleep(mutex, ns - spin_ns);
  }

  // With the mutex held.
  void notify_all() noexcept {
    changes_.store(changes_.load(std::memory_order_relaxed) + 1,
                   std::memory_order_relaxed);
    if (sleepers_ > 0) condition_.notify_all();
  }

 private:
  // Consecutive spins without success after which a waiter sleeps at once, and how many
  // waits later the next one tries again.
  static constexpr std::uint32_t kVainSpins = 8;
  static constexpr std::uint32_t kSpinAgain = 64;

  // Whether there was a change. Counters and `sleepers_` are guarded by the mutex.
  bool spin(Mutex& mutex, std::int64_t ns) IPUFEED_REQUIRES(mutex) {
    if (ns <= 0) return false;
    if (vain_spins_ >= kVainSpins && ++unspun_ % kSpinAgain != 0) return false;
    const std::uint64_t seen = changes_.load(std::memory_order_relaxed);
    mutex.unlock();
    const std::int64_t end_ns = now_ns() + ns;
    bool is_over = false;
    while (!is_over) {
      // Reading the clock costs as much as 16 pauses.
      for (int i = 0; i < 16 && !is_over; ++i) {
        cpu_relax();
        is_over = changes_.load(std::memory_order_relaxed) != seen;
      }
      is_over = is_over || now_ns() >= end_ns;
    }
    mutex.lock_spinning();
    const bool has_changed = changes_.load(std::memory_order_relaxed) != seen;
    vain_spins_ = has_changed ? 0 : vain_spins_ + 1;
    return has_changed;
  }

  void sleep(Mutex& mutex, std::int64_t ns) IPUFEED_REQUIRES(mutex) {
    ++sleepers_;
    if (ns == kNoDeadline) {
      condition_.wait(mutex);
    } else {
      condition_.wait_for_ns(mutex, ns);
    }
    --sleepers_;
  }

  const std::int64_t spin_ns_;
  std::atomic<std::uint64_t> changes_{0};
  CondVar condition_;
  std::uint32_t sleepers_ = 0;
  std::uint32_t vain_spins_ = 0;
  std::uint32_t unspun_ = 0;
};

}  // namespace ipufeed
