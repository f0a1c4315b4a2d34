// A reusable barrier of the members of a group: no member passes before all have
// arrived, or waits for a member that has ended.
//
//   gathering --all here--> working --all have done their part--> leaving ---+
//       ^          |                                                  ^      |
//       |          +--------------- no parts to do -------------------+      |
//       +----------------------------- all gone ------------------------------+
//
// A member has one run, or several: leave() ends one. A member that waits in a run for
// one that has ended the same run gets an error, since the wait would never end. A
// member can only end a run between two collectives, and has then left all of them:
// whether a wait fails does not depend on which member was faster.
//
// Memory order: one mutex guards all that is here; a waiter spins for a moment, without
// the mutex, on a count that shows only when to take it again (change_signal.h). A
// member that leaves, and a thread that sets what stopped() returns and then calls
// wake(), take the mutex after that: each waiter has either not checked yet, and will
// see it, or waits already and is notified. What a member has written before
// arrive_and_wait() is seen by begin() and by all calls of work(), what they have
// written by all that have left the collective, through the same mutex.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <limits>
#include <vector>

#include "core/change_signal.h"
#include "core/mutex.h"
#include "core/test_hooks.h"
#include "core/wait.h"  // kNoDeadline

namespace ipufeed {

class ReplicaBarrier {
 public:
  enum class Outcome { kDone, kEnded, kStopped };

  // The state of each member, by number.
  struct Attendance {
    std::vector<std::size_t> here;
    std::vector<std::size_t> missing;
    std::vector<std::size_t> ended;  // of the missing
  };

  explicit ReplicaBarrier(std::size_t members)
      : members_(members), changed_(members), runs_(members, 0), is_here_(members) {}
  ReplicaBarrier(const ReplicaBarrier&) = delete;
  ReplicaBarrier& operator=(const ReplicaBarrier&) = delete;

  std::size_t members() const { return members_; }

  // The member's thread. Waits until all have arrived.
  //   begin()    is then called once, with the lock; whether there is work to do
  //   work()     by each member, all at once and without the lock, if there are
  //   stopped()  whether to stop waiting; see wake()
  //   patience   next_report_ns(): when to report next, kNoDeadline for never;
  //              report(attendance): without the lock, of a wait that long
  // kDone: all have arrived, and the work is complete. kEnded: a member
  // has ended that this one waits for, and `attendance` holds which member waits for
  // which. kStopped: it was stopped before all had arrived. An exception of begin()
  // propagates, and the others continue to wait; work() must not throw.
  template <class Begin, class Work, class Stopped, class Patience>
  Outcome arrive_and_wait(std::size_t member, Begin&& begin, Work&& work,
                          Stopped&& stopped, Patience&& patience,
                          Attendance* attendance) {
    IPUFEED_YIELD_POINT();
    mutex_.lock_spinning();
    MutexHeld lock(mutex_);
    // A fast member may return before all have left the previous collective, which they
    // are about to.
    while (phase_ != Phase::kGathering) {
      if (stopped()) return Outcome::kStopped;
      changed_.wait(mutex_);
    }
    is_here_[member] = true;
    ++here_;
    // If anything but the collective ends the wait, an exception included, the member
    // is absent.
    try {
      const Outcome outcome = gather(member, begin, stopped, patience, attendance);
      if (outcome != Outcome::kDone) {
        retract(member);
        return outcome;
      }
    } catch (...) {
      retract(member);
      throw;
    }
    if (phase_ == Phase::kWorking) {
      mutex_.unlock();
      IPUFEED_YIELD_POINT();
      work();
      mutex_.lock_spinning();
      if (--working_ == 0) {
        phase_ = Phase::kLeaving;
        changed_.notify_all();
      }
      // stopped() is not polled here: a member's data must stay valid while others use
      // it.
      while (phase_ != Phase::kLeaving) changed_.wait(mutex_);
    }
    is_here_[member] = false;
    if (--leaving_ == 0) {
      here_ = 0;
      phase_ = Phase::kGathering;
      changed_.notify_all();
    }
    return Outcome::kDone;
  }

  // The member's thread, between two collectives: ends its run, or its last one.
  void leave(std::size_t member) {
    IPUFEED_YIELD_POINT();
#ifndef IPUFEED_PLANT_UNLOCKED_LEAVE  // without it, to see that the tests catch it
    MutexLock lock(mutex_);
#endif
    if (runs_[member] != kForGood) ++runs_[member];
    changed_.notify_all();
  }
  void leave_for_good(std::size_t member) {
    IPUFEED_YIELD_POINT();
    MutexLock lock(mutex_);
    runs_[member] = kForGood;
    changed_.notify_all();
  }

  // Any thread, after the result of stopped() has changed.
  void wake() {
    MutexLock lock(mutex_);
    changed_.notify_all();
  }

 private:
  enum class Phase { kGathering, kWorking, kLeaving };

  static constexpr std::int64_t kForGood = std::numeric_limits<std::int64_t>::max();

  // Until the collective has begun, or this member waits no more.
  template <class Begin, class Stopped, class Patience>
  Outcome gather(std::size_t member, Begin&& begin, Stopped&& stopped,
                 Patience&& patience, Attendance* attendance) IPUFEED_REQUIRES(mutex_) {
    while (phase_ == Phase::kGathering) {
      if (is_behind(member)) {
        *attendance = attendance_of(member);
        return Outcome::kEnded;
      }
      if (here_ == members() && is_level()) {
        phase_ = begin() ? Phase::kWorking : Phase::kLeaving;
        working_ = leaving_ = members();
        changed_.notify_all();
        break;
      }
      if (stopped()) return Outcome::kStopped;
      wait(patience);
    }
    return Outcome::kDone;
  }

  bool is_behind(std::size_t member) const IPUFEED_REQUIRES(mutex_) {
    for (const std::int64_t runs : runs_) {
      if (runs > runs_[member]) return true;
    }
    return false;
  }

  // False while one has arrived from a later run than another one, which gets an error.
  bool is_level() const IPUFEED_REQUIRES(mutex_) {
    for (const std::int64_t runs : runs_) {
      if (runs != runs_[0]) return false;
    }
    return true;
  }

  void retract(std::size_t member) IPUFEED_REQUIRES(mutex_) {
    is_here_[member] = false;
    --here_;
  }

  // From the member's view: one that is in a later run is absent.
  Attendance attendance_of(std::size_t member) const IPUFEED_REQUIRES(mutex_) {
    Attendance found;
    for (std::size_t m = 0; m < members(); ++m) {
      const bool ended = runs_[m] > runs_[member];
      if (is_here_[m] && !ended) {
        found.here.push_back(m);
        continue;
      }
      found.missing.push_back(m);
      if (ended) found.ended.push_back(m);
    }
    return found;
  }

  // Sleeps until a change, or until a report is due.
  template <class Patience>
  void wait(Patience&& patience) IPUFEED_REQUIRES(mutex_) {
    const std::int64_t deadline_ns = patience.next_report_ns();
    if (deadline_ns == kNoDeadline) {
      changed_.wait(mutex_);
      return;
    }
    changed_.wait_for_ns(mutex_, deadline_ns - now_ns());
    if (now_ns() < deadline_ns || phase_ != Phase::kGathering) return;
    Attendance attendance;
    for (std::size_t m = 0; m < members(); ++m) {
      (is_here_[m] ? attendance.here : attendance.missing).push_back(m);
    }
    MutexUnlock unlocked(mutex_);
    try {
      patience.report(attendance);
    } catch (const std::exception&) {
      // The collective, which may have begun by now, does not depend on a report.
    }
  }

  const std::size_t members_;
  Mutex mutex_;
  ChangeSignal changed_;
  Phase phase_ IPUFEED_GUARDED_BY(mutex_) = Phase::kGathering;
  // The number of runs that each member has ended, or kForGood.
  std::vector<std::int64_t> runs_ IPUFEED_GUARDED_BY(mutex_);
  std::vector<bool> is_here_ IPUFEED_GUARDED_BY(mutex_);
  std::size_t here_ IPUFEED_GUARDED_BY(mutex_) = 0;
  std::size_t working_ IPUFEED_GUARDED_BY(mutex_) = 0;
  std::size_t leaving_ IPUFEED_GUARDED_BY(mutex_) = 0;
};

}  // namespace ipufeed
