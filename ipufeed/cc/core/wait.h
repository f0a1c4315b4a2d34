// How one thread waits for another: a short spin, then sleep in the kernel.
//
// A WaitPoint belongs to one waiting thread. Any thread may notify it. The waiter's
// condition is its own (`ready`), and must cover every reason to stop waiting: data,
// end, cancellation. Nothing here waits without a deadline check, and nothing spins on
// a machine with one usable CPU, where the other side could not run at the same time.
//
// The handshake. word_ holds how the waiter sleeps, and is only ever touched by atomic
// read-modify-writes, so all of them form one release sequence:
//   waiter    [7] word_ = kParked   then checks ready() again, then sleeps
//   notifier      (publishes)       then [8] reads word_, and if the waiter sleeps:
//                                   word_ = kAwake, and wakes it
// Of [7] and [8] one comes first. If the notifier's does, the waiter's reads it and so
// sees what was published: it does not sleep. If the waiter's does, the notifier reads
// kParked and wakes. tests/models/feed.pml proves it for the feed, with the variants
// where an order is missing; tests/cc/wait_test.cc fails under ThreadSanitizer when
// either is weakened. A full fence on both sides would cost the same (one locked
// instruction on x86) but ThreadSanitizer does not see it.
//
// Naps. A wake-up costs the notifier about 3 us, more than a small element takes to
// make. A waiter that tolerates slightly late elements (a benchmark's consumer; never a
// device) naps: it sleeps for a bounded time in the state kNapping, in which a
// notifier wakes it only for what is urgent, such as a feed that is half full. A nap is
// always timed, so a wake-up that is left out costs time, never a hang.
//
// Why spin-then-park: endless spinning hands over in 7-11 ms once there are more
// runnable threads than CPUs, this in 3-6 us; and a thread that parks at once pays a
// wake-up of about 5 us for data that is 0.2 us away.
//
// Answers. Two threads that answer each other, one of which has slept once, would never
// leave the kernel again with that spin: each gives up while the other is still being
// woken, and sleeps as well, 14 us for a round trip that takes 0.3 us (feed_rtt of
// benchmarks/cc/ring_bench.cc). So a thread that has just woken another one spins for
// longer than a wake-up takes. Nothing else does: a long spin in each wait takes the
// CPU of threads that could run (a hand-over between the stages of a pipeline took 8 us
// with it, and 6 us without).
#pragma once

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <limits>

#include "core/clock.h"
#include "core/cpu_relax.h"
#include "core/cpus.h"
#include "core/spsc_ring.h"  // kCacheLine
#include "core/test_hooks.h"

namespace ipufeed {

inline constexpr std::int64_t kNoDeadline = std::numeric_limits<std::int64_t>::max();

// How long a thread spins for the answer of one that has just been woken: longer than a
// wake-up takes, also with a busy CPU. With a shorter spin it falls asleep while the
// other is being woken, which later does the same.
inline constexpr std::int64_t kAnswerNs = 20'000;

// The counters of a wait point; read by any thread. Counts and times only grow.
struct WaitStats {
  std::uint64_t waits = 0;     // times that the condition did not hold at once
  std::uint64_t parks = 0;     // of these, sleeps in the kernel
  std::int64_t waited_ns = 0;  // time in all waits that are over
};

class WaitPoint {
 public:
  static constexpr std::int64_t kSpinNs = 1'000;

  // spin_ns: how long to spin before sleeping, 0 for never. The default, 1 us, is what
  // a hand-over between two running threads takes at most; it is 0 on one usable CPU.
  // A thread that spins longer yields its CPU from then on. answer_ns: likewise, of a
  // thread that has woken another one no longer ago than that.
  explicit WaitPoint(std::int64_t spin_ns = usable_cpus() > 1 ? kSpinNs : 0)
      : WaitPoint(spin_ns, spin_ns > 0 ? std::max(spin_ns, kAnswerNs) : 0) {}
  WaitPoint(std::int64_t spin_ns, std::int64_t answer_ns)
      : spin_ns_(spin_ns), answer_ns_(answer_ns) {}
  WaitPoint(const WaitPoint&) = delete;
  WaitPoint& operator=(const WaitPoint&) = delete;

  // Waiter's thread only. Returns true once ready() holds, false when the monotonic
  // clock reached deadline_ns first.
  template <class Ready>
  bool wait(Ready&& ready, std::int64_t deadline_ns) {
    if (ready()) return true;
    const std::int64_t start = now_ns();
    const bool napped = may_nap_ && nap(ready, start, deadline_ns);
    const bool held = napped || (!may_nap_ && spin(ready, start, deadline_ns)) ||
                      sleep(ready, kParked, deadline_ns);
    const std::int64_t waited_ns = now_ns() - start;
    // Not by its length alone: the kernel ends a nap some 50 us late.
    may_nap_ = nap_ns_ > 0 && (napped || waited_ns < nap_ns_);
    add(&waits_, std::uint64_t{1});
    add(&waited_ns_, waited_ns);
    return held;
  }

  // Waiter's thread only. Lets wait() nap for up to nap_ns before it parks, while its
  // condition becomes true within that time. 0, the default, for never.
  void set_nap(std::int64_t nap_ns) noexcept { nap_ns_ = nap_ns; }

  // Any thread, after it has published what the waiter waits for.
  void notify() noexcept {
    notify([] { return true; });
  }

  // Likewise; a napping waiter is woken only if urgent() returns true.
  template <class Urgent>
  void notify(Urgent&& urgent) noexcept {
    wake_if([&](std::uint32_t word) { return word != kNapping || urgent(); });
  }

  // Likewise; a waiter, however it sleeps, is woken only if worth() returns true. A
  // caller whose worth() returned false must notify again once it is worth it.
  template <class Worth>
  void notify_if(Worth&& worth) noexcept {
    wake_if([&](std::uint32_t) { return worth(); });
  }

  // Any thread.
  WaitStats stats() const noexcept {
    return {waits_.load(std::memory_order_relaxed),
            parks_.load(std::memory_order_relaxed),
            waited_ns_.load(std::memory_order_relaxed)};
  }

 private:
  // When this thread has last woken another one, at any point.
  static inline thread_local std::int64_t last_wake_ns =
      std::numeric_limits<std::int64_t>::min();

  static constexpr std::uint32_t kAwake = 0;
  static constexpr std::uint32_t kParked = 1;
  static constexpr std::uint32_t kNapping = 2;
  // After this many consecutive waits that spun without success the other side is slow,
  // and spinning only takes its CPU; one wait in kSpinAgain tests whether that has
  // changed.
  static constexpr std::uint32_t kVainSpins = 8;
  static constexpr std::uint32_t kSpinAgain = 64;

  // Wakes the waiter if it sleeps and decide(how it sleeps) returns true.
  template <class Decide>
  void wake_if(Decide&& decide) noexcept {
    IPUFEED_YIELD_POINT();
    const auto word =
        word_.fetch_add(0, IPUFEED_ORDER(8, std::memory_order_acq_rel));  // [8]
    if (word == kAwake || !decide(word)) return;
    // In the release sequence of [7] and [8], like each exchange that wakes the waiter.
    if (word_.exchange(kAwake, std::memory_order_acq_rel) != kAwake) {
      futex(FUTEX_WAKE_PRIVATE, 1, nullptr);
      last_wake_ns = now_ns();
    }
  }

  template <class Ready>
  bool spin(Ready&& ready, std::int64_t start, std::int64_t deadline_ns) {
    // Not a sum: before its first wake-up a thread has the least of all times.
    const std::int64_t spin_ns =
        last_wake_ns > start - answer_ns_ ? answer_ns_ : spin_ns_;
    if (spin_ns == 0) return false;
    if (vain_spins_ >= kVainSpins && ++unspun_ % kSpinAgain != 0) return false;
    const std::int64_t budget_end = start + spin_ns;
    const std::int64_t end = budget_end < deadline_ns ? budget_end : deadline_ns;
    for (;;) {
      for (int i = 0; i < 16; ++i) {  // reading the clock costs as much as 16 pauses
        cpu_relax();
        if (ready()) {
          vain_spins_ = 0;
          return true;
        }
      }
      const std::int64_t now = now_ns();
      if (now >= end) break;
      if (now >= start + kSpinNs) sched_yield();
    }
    ++vain_spins_;
    return false;
  }

  template <class Ready>
  bool nap(Ready&& ready, std::int64_t start, std::int64_t deadline_ns) {
    const std::int64_t nap_end = start + nap_ns_;
    return sleep(ready, kNapping, nap_end < deadline_ns ? nap_end : deadline_ns);
  }

  // Returns ready(), at the latest when the clock reaches until_ns.
  template <class Ready>
  bool sleep(Ready&& ready, std::uint32_t how, std::int64_t until_ns) {
    const timespec until = {static_cast<time_t>(until_ns / 1'000'000'000),
                            static_cast<long>(until_ns % 1'000'000'000)};
    for (;;) {
      word_.exchange(how, IPUFEED_ORDER(7, std::memory_order_acq_rel));  // [7]
      IPUFEED_YIELD_POINT();
      if (ready()) break;
      if (until_ns != kNoDeadline && now_ns() >= until_ns) {
        word_.exchange(kAwake, std::memory_order_acq_rel);
        return ready();
      }
      add(&parks_, std::uint64_t{1});
      // Returns at once when word_ is no longer `how`; wakes without cause are fine.
      futex(FUTEX_WAIT_BITSET_PRIVATE, how, until_ns == kNoDeadline ? nullptr : &until);
    }
    word_.exchange(kAwake, std::memory_order_acq_rel);
    return true;
  }

  // For FUTEX_WAIT_BITSET the time-out is absolute, on the monotonic clock.
  void futex(int operation, std::uint32_t value, const timespec* timeout) noexcept {
    static_assert(sizeof(word_) == sizeof(std::uint32_t));
    syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word_), operation, value,
            timeout, nullptr, FUTEX_BITSET_MATCH_ANY);
  }

  // For the statistics, which only the waiter stores to: no read-modify-write is
  // needed.
  template <class Number>
  static void add(std::atomic<Number>* sum, Number number) noexcept {
    sum->store(sum->load(std::memory_order_relaxed) + number,
               std::memory_order_relaxed);
  }

  // The notifier's exchange at each publication stays in its own cache as long as the
  // waiter does not park: hence one line for the word, and another for the waiter's
  // data.
  alignas(kCacheLine) std::atomic<std::uint32_t> word_{kAwake};
  alignas(kCacheLine) const std::int64_t spin_ns_;
  const std::int64_t answer_ns_;
  std::int64_t nap_ns_ = 0;
  bool may_nap_ = false;
  std::uint32_t vain_spins_ = 0;
  std::uint32_t unspun_ = 0;
  std::atomic<std::uint64_t> waits_{0};
  std::atomic<std::uint64_t> parks_{0};
  std::atomic<std::int64_t> waited_ns_{0};
};

}  // namespace ipufeed
