// What the barrier of replicas promises: all or none, and no wait for a member that has
// ended. What comes of it is the same however fast each member is:
// -DIPUFEED_TEST_DELAYS must not change it. -DIPUFEED_PLANT_UNLOCKED_LEAVE must be a
// race.
#include "core/replica_barrier.h"

#include <algorithm>
#include <memory>
#include <mutex>
#include <numeric>

#include "check.h"

namespace {

using ipufeed::kNoDeadline;
using ipufeed::now_ns;
using ipufeed::ReplicaBarrier;
using Outcome = ReplicaBarrier::Outcome;

constexpr std::size_t kMembers = 4;
constexpr int kCollectives = check::scaled(4'000);
constexpr int kLives = check::scaled(3'000);

// Of a member that never reports.
struct Silent {
  std::int64_t next_report_ns() { return kNoDeadline; }
  void report(const ReplicaBarrier::Attendance&) { CHECK(false); }
};

// What one member has seen of its life.
struct Seen {
  int passed = 0;
  Outcome last = Outcome::kDone;
  ReplicaBarrier::Attendance attendance;
};

Outcome pass(ReplicaBarrier* barrier, std::size_t member, Seen* seen,
             const std::atomic<bool>& stopped) {
  Silent silent;
  seen->last = barrier->arrive_and_wait(
      member, [] { return false; }, [] {}, [&] { return stopped.load(); }, silent,
      &seen->attendance);
  if (seen->last == Outcome::kDone) ++seen->passed;
  return seen->last;
}

// Runs part(member) for each, all at once.
template <class Part>
void all(Part part) {
  std::vector<std::thread> threads;
  for (std::size_t m = 0; m < kMembers; ++m) threads.emplace_back([&, m] { part(m); });
  for (auto& thread : threads) thread.join();
}

}  // namespace

TEST(no_member_goes_on_before_all_have_done_their_part) {
  ReplicaBarrier barrier(kMembers);
  // Plain: only the barrier orders them.
  std::vector<int> brought(kMembers), shares(kMembers);
  int begun = 0;
  all([&](std::size_t own) {
    Silent silent;
    ReplicaBarrier::Attendance attendance;
    for (int n = 1; n <= kCollectives; ++n) {
      brought[own] = n;
      const bool shared = n % 3 != 0;
      const Outcome outcome = barrier.arrive_and_wait(
          own,
          [&] {
            ++begun;
            for (const int each : brought) CHECK_EQ(each, n);
            if (!shared) std::fill(shares.begin(), shares.end(), n);
            return shared;
          },
          [&] { shares[own] = brought[(own + 1) % kMembers]; }, [] { return false; },
          silent, &attendance);
      CHECK_EQ(outcome, Outcome::kDone);
      CHECK_EQ(begun, n);  // the next one waits for this member
      CHECK_EQ(shares[(own + 1) % kMembers], n);
    }
  });
}

TEST(a_wait_for_a_member_that_has_ended_is_an_error_at_once) {
  check::Random random(check::seed());
  for (int life = 0; life < kLives; ++life) {
    ReplicaBarrier barrier(kMembers);
    std::vector<int> wanted(kMembers);
    for (int& each : wanted) each = static_cast<int>(random.below(4));
    const int least = *std::min_element(wanted.begin(), wanted.end());
    const std::atomic<bool> stopped{false};
    std::vector<Seen> seen(kMembers);
    all([&](std::size_t own) {
      while (seen[own].passed < wanted[own]) {
        if (pass(&barrier, own, &seen[own], stopped) != Outcome::kDone) return;
      }
      barrier.leave_for_good(own);
    });
    for (std::size_t m = 0; m < kMembers; ++m) {
      CHECK_EQ(seen[m].passed, least);
      CHECK_EQ(seen[m].last, wanted[m] == least ? Outcome::kDone : Outcome::kEnded);
      if (wanted[m] == least) continue;
      const auto& [here, missing, ended] = seen[m].attendance;
      CHECK(!ended.empty());
      for (const std::size_t other : ended) CHECK_EQ(wanted[other], least);
      CHECK(std::count(here.begin(), here.end(), m) == 1);
      CHECK_EQ(here.size() + missing.size(), kMembers);
    }
  }
}

TEST(a_run_that_a_member_has_ended_is_not_waited_for) {
  check::Random random(check::seed() + 1);
  for (int life = 0; life < kLives; ++life) {
    ReplicaBarrier barrier(kMembers);
    constexpr int kRuns = 3;
    // In one run of some lives one member comes less often than the others.
    const int odd_run = static_cast<int>(random.below(kRuns + 1));
    const std::size_t odd = random.below(kMembers);
    std::atomic<bool> stopped{false};
    std::vector<Seen> seen(kMembers);
    all([&](std::size_t own) {
      for (int run = 0; run < kRuns; ++run) {
        const int wanted = run == odd_run && own == odd ? 1 : 2;
        for (int n = 0; n < wanted; ++n) {
          if (pass(&barrier, own, &seen[own], stopped) == Outcome::kDone) continue;
          stopped = true;  // as an error stops a program
          barrier.wake();
          return;
        }
        barrier.leave(own);
      }
    });
    int ended = 0;
    for (std::size_t m = 0; m < kMembers; ++m) {
      if (odd_run == kRuns) CHECK_EQ(seen[m].passed, 2 * kRuns);
      if (odd_run == kRuns) CHECK_EQ(seen[m].last, Outcome::kDone);
      if (odd_run < kRuns) CHECK_EQ(seen[m].passed, 2 * odd_run + 1);
      if (seen[m].last != Outcome::kEnded) continue;
      ++ended;
      CHECK(m != odd);
      CHECK_EQ(seen[m].attendance.ended.size(), std::size_t{1});
      CHECK_EQ(seen[m].attendance.ended[0], odd);
    }
    CHECK_EQ(ended > 0, odd_run < kRuns);
  }
}

TEST(a_stop_ends_every_wait_and_nothing_before_it) {
  check::Random random(check::seed() + 2);
  for (int life = 0; life < kLives; ++life) {
    ReplicaBarrier barrier(kMembers);
    std::atomic<bool> stopped{false};
    std::vector<Seen> seen(kMembers);
    const int when = static_cast<int>(random.below(6));
    all([&](std::size_t own) {
      // The last member passes `when` times and then stops the others.
      while (own + 1 < kMembers || seen[own].passed < when) {
        if (pass(&barrier, own, &seen[own], stopped) != Outcome::kDone) return;
      }
      stopped = true;
      barrier.wake();
    });
    for (std::size_t m = 0; m < kMembers; ++m) {
      CHECK_EQ(seen[m].passed, when);
      if (m + 1 < kMembers) CHECK_EQ(seen[m].last, Outcome::kStopped);
    }
  }
}

TEST(a_long_wait_reports_the_missing_members) {
  ReplicaBarrier barrier(2);
  struct Reporting {
    std::int64_t next_ns = now_ns() + 1'000'000;
    std::atomic<int>* reports;
    std::int64_t next_report_ns() const { return next_ns; }
    void report(const ReplicaBarrier::Attendance& attendance) {
      CHECK_EQ(attendance.here.size(), std::size_t{1});
      CHECK_EQ(attendance.missing.size(), std::size_t{1});
      CHECK_EQ(attendance.missing[0], std::size_t{1});
      next_ns = now_ns() + 1'000'000;
      ++*reports;
    }
  };
  std::atomic<int> reports{0};
  std::thread other([&] {
    while (reports < 3) usleep(100);
    const std::atomic<bool> stopped{false};
    Seen seen;
    CHECK_EQ(pass(&barrier, 1, &seen, stopped), Outcome::kDone);
  });
  Reporting reporting{now_ns() + 1'000'000, &reports};
  ReplicaBarrier::Attendance attendance;
  CHECK_EQ(
      barrier.arrive_and_wait(
          0, [] { return false; }, [] {}, [] { return false; }, reporting, &attendance),
      Outcome::kDone);
  other.join();
}
