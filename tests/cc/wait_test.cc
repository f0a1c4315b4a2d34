// What a wait point promises: no wake-up is lost, deadlines hold, spinning is bounded.
// No check here says that something was fast; a lost wake-up runs into the watchdog.
#include "core/wait.h"

#include "check.h"

using ipufeed::kNoDeadline;
using ipufeed::now_ns;
using ipufeed::WaitPoint;

namespace {

constexpr std::int64_t kPast = 1;  // a deadline that is over
constexpr std::int64_t kMs = 1'000'000;

// The number of checks of the condition in one wait that times out at once. Without
// spinning: before, after the flag is raised, and when the deadline has passed.
constexpr int kLooksWithoutSpin = 3;

int looks_until_timeout(WaitPoint* point) {
  int looks = 0;
  const auto never = [&] {
    ++looks;
    return false;
  };
  CHECK(!point->wait(never, kPast));
  return looks;
}

// Two threads pass a turn back and forth; each waits at a point of its own.
void hand_over(int rounds, std::int64_t spin_ns) {
  WaitPoint points[2] = {WaitPoint(spin_ns), WaitPoint(spin_ns)};
  std::atomic<int> turn{0};
  std::atomic<bool> over{false};
  const auto side = [&](int self) {
    for (int n = self; n < 2 * rounds; n += 2) {
      CHECK(points[self].wait([&] { return turn.load(std::memory_order_relaxed) == n; },
                              kNoDeadline));
      turn.store(n + 1, std::memory_order_relaxed);  // the points must order it
      points[1 - self].notify();
    }
  };
  std::thread other(side, 1);
  std::thread observer([&] {  // the statistics are for any thread, at any time
    std::uint64_t waits = 0;
    while (!over.load(std::memory_order_relaxed)) {
      const auto now = points[1].stats().waits;
      CHECK(now >= waits);
      waits = now;
      usleep(100);
    }
  });
  side(0);
  other.join();
  over = true;
  observer.join();
  CHECK_EQ(turn.load(), 2 * rounds);
}

}  // namespace

TEST(a_condition_that_holds_costs_no_wait) {
  WaitPoint point;
  CHECK(point.wait([] { return true; }, kPast));
  CHECK(point.wait([] { return true; }, kNoDeadline));
  CHECK_EQ(point.stats().waits, std::uint64_t{0});
  CHECK_EQ(point.stats().parks, std::uint64_t{0});
  CHECK_EQ(point.stats().waited_ns, std::int64_t{0});
}

TEST(a_deadline_that_has_passed_is_a_look_without_a_sleep) {
  WaitPoint point(0);
  for (const auto deadline : {kPast, std::int64_t{0}, std::int64_t{-5}, now_ns()}) {
    CHECK(!point.wait([] { return false; }, deadline));
  }
  CHECK_EQ(point.stats().waits, std::uint64_t{4});
  CHECK_EQ(point.stats().parks, std::uint64_t{0});
}

TEST(a_wait_lasts_until_its_deadline_and_not_less) {
  for (const std::int64_t spin_ns : {0, 1000, 1'000'000'000}) {
    WaitPoint point(spin_ns);
    const auto start = now_ns();
    CHECK(!point.wait([] { return false; }, start + 30 * kMs));
    const auto waited = now_ns() - start;
    CHECK(waited >= 30 * kMs);
    CHECK(waited < 10'000 * kMs);  // not a claim of speed: it did end by itself
    CHECK(point.stats().waited_ns >= 30 * kMs - kMs);
    CHECK(point.stats().waited_ns <= waited);
    CHECK_EQ(point.stats().waits, std::uint64_t{1});
  }
}

TEST(a_condition_that_holds_at_the_deadline_is_no_time_out) {
  WaitPoint point(0);
  const auto start = now_ns();
  const auto unannounced = [&] { return now_ns() > start + kMs; };
  CHECK(point.wait(unannounced, start + 5 * kMs));
}

TEST(a_thread_that_has_woken_another_spins_for_its_answer) {
  constexpr std::int64_t kLong = 1'000'000 * kMs;
  WaitPoint asked(0), asker(0, kLong), impatient(0, 1);
  std::atomic<bool> question{false}, answer{false};
  std::thread other([&] {
    const auto is_asked = [&] { return question.load(std::memory_order_relaxed); };
    CHECK(asked.wait(is_asked, kNoDeadline));
    usleep(2'000);
    answer.store(true, std::memory_order_relaxed);
    asker.notify();
  });
  while (asked.stats().parks == 0) usleep(100);
  std::thread([&] {  // has never woken another
    CHECK_EQ(looks_until_timeout(&asker), kLooksWithoutSpin);
    question.store(true, std::memory_order_relaxed);
    asked.notify();
    CHECK(asker.wait([&] { return answer.load(std::memory_order_relaxed); },
                     kNoDeadline));
    CHECK_EQ(asker.stats().parks, std::uint64_t{0});
    CHECK(looks_until_timeout(&asker) > kLooksWithoutSpin);
    // Its answer_ns of 1 has passed since the wake-up.
    CHECK_EQ(looks_until_timeout(&impatient), kLooksWithoutSpin);
  })
      .join();
  other.join();
}

TEST(a_notification_between_any_two_steps_of_the_waiter_is_not_lost) {
  // Published and notified by the waiter's own n-th look, right after it found nothing.
  for (int when = 1; when <= 2; ++when) {
    WaitPoint point(0);
    int looks = 0;
    bool published = false;
    const auto ready = [&] {
      if (published) return true;
      if (++looks == when) {
        published = true;
        point.notify();
      }
      return false;
    };
    CHECK(point.wait(ready, kNoDeadline));
    CHECK_EQ(looks, when);
  }
}

TEST(notifications_without_a_waiter_do_no_harm) {
  WaitPoint point(0);
  for (int n = 0; n < 3; ++n) point.notify();
  CHECK(!point.wait([] { return false; }, now_ns() + kMs));
  point.notify();
  CHECK(!point.wait([] { return false; }, kPast));
}

TEST(a_wake_up_without_a_cause_is_slept_over) {
  WaitPoint point(0);
  std::atomic<bool> ready{false};
  std::thread notifier([&] {
    for (std::uint64_t parks = 1; parks <= 5; ++parks) {
      while (point.stats().parks < parks) usleep(10);
      if (parks == 5) ready = true;
      point.notify();
    }
  });
  CHECK(point.wait([&] { return ready.load(); }, kNoDeadline));
  CHECK_EQ(point.stats().waits, std::uint64_t{1});
  CHECK(point.stats().parks >= 5);
  notifier.join();
}

TEST(without_a_budget_no_wait_spins) {
  WaitPoint point(0);
  for (int n = 0; n < 100; ++n)
    CHECK_EQ(looks_until_timeout(&point), kLooksWithoutSpin);
}

TEST(a_point_that_spins_in_vain_stops_and_tries_again_at_times) {
  WaitPoint point(1'000'000);
  for (int n = 0; n < 8; ++n) CHECK(looks_until_timeout(&point) > kLooksWithoutSpin);
  int spun = 0;
  for (int n = 0; n < 640; ++n) spun += looks_until_timeout(&point) > kLooksWithoutSpin;
  CHECK_EQ(spun, 10);

  // One spin that is worth it, and all spin again.
  int looks = 0;
  for (int n = 0; n < 64; ++n) {
    looks = 0;
    CHECK(point.wait([&] { return ++looks > 2; }, kPast));
  }
  CHECK(looks_until_timeout(&point) > kLooksWithoutSpin);
}

TEST(a_napping_waiter_is_left_asleep_unless_it_is_urgent) {
  WaitPoint point(0);
  point.set_nap(10'000 * kMs);  // 10 s: no healthy run waits for its end
  CHECK(!point.wait([] { return false; }, kPast));  // short, so the next may nap
  std::atomic<bool> published{false};
  std::atomic<int> asked{0};
  std::thread notifier([&] {
    while (point.stats().parks == 0) usleep(10);
    published = true;
    point.notify([&] { return ++asked == 0; });
    point.notify([&] { return ++asked > 0; });
  });
  CHECK(point.wait([&] { return published.load(); }, kNoDeadline));
  notifier.join();
  CHECK(asked <= 2);
  CHECK(point.stats().waited_ns < 10'000 * kMs);
}

TEST(a_nap_ends_by_itself) {
  // Published as soon as the waiter sleeps, and never urgent: only the clock is left.
  WaitPoint point(0);
  point.set_nap(5 * kMs);
  CHECK(!point.wait([] { return false; }, kPast));
  std::atomic<bool> published{false};
  std::thread notifier([&] {
    while (point.stats().parks == 0) usleep(10);
    published = true;
    point.notify([] { return false; });
  });
  CHECK(point.wait([&] { return published.load(); }, kNoDeadline));
  notifier.join();
}

TEST(a_nap_does_not_outlast_the_deadline) {
  WaitPoint point(0);
  point.set_nap(10'000 * kMs);
  CHECK(!point.wait([] { return false; }, kPast));
  CHECK(!point.wait([] { return false; }, now_ns() + 5 * kMs));
  CHECK(point.stats().waited_ns < 10'000 * kMs);
}

TEST(a_plain_notification_ends_a_nap) {
  WaitPoint point(0);
  point.set_nap(10'000 * kMs);
  CHECK(!point.wait([] { return false; }, kPast));
  std::atomic<bool> published{false};
  std::thread notifier([&] {
    while (point.stats().parks == 0) usleep(10);
    published = true;
    point.notify();
  });
  CHECK(point.wait([&] { return published.load(); }, kNoDeadline));
  CHECK(point.stats().waited_ns < 10'000 * kMs);
  notifier.join();
}

TEST(a_parked_thread_is_woken_whether_it_is_urgent_or_not) {
  WaitPoint point(0);
  std::atomic<bool> published{false};
  std::thread notifier([&] {
    while (point.stats().parks == 0) usleep(10);
    published = true;
    point.notify([] { return false; });
  });
  CHECK(point.wait([&] { return published.load(); }, kNoDeadline));
  notifier.join();
}

TEST(no_wake_up_is_lost_in_many_hand_overs_that_park) {
  hand_over(check::scaled(20'000), 0);
}

TEST(no_wake_up_is_lost_in_many_hand_overs_that_spin_first) {
  hand_over(check::scaled(50'000), 1000);
  hand_over(check::scaled(20'000), 200);
}

TEST(many_notifiers_wake_one_waiter) {
  constexpr int kNotifiers = 4;
  const int each = check::scaled(10'000);
  WaitPoint point(0);
  std::atomic<int> published{0};
  std::atomic<int> seen{0};
  std::vector<std::thread> notifiers;
  for (int i = 0; i < kNotifiers; ++i) {
    notifiers.emplace_back([&] {
      for (int n = 0; n < each; ++n) {
        published.fetch_add(1, std::memory_order_relaxed);
        point.notify();
        // Stay close, so that the waiter has to park again and again.
        int tries = 0;
        while (published.load(std::memory_order_relaxed) -
                   seen.load(std::memory_order_relaxed) >
               kNotifiers) {
          check::relax(&tries);
        }
      }
    });
  }
  for (int got = 0; got < kNotifiers * each;) {
    CHECK(point.wait([&] { return published.load(std::memory_order_relaxed) > got; },
                     kNoDeadline));
    got = published.load(std::memory_order_relaxed);
    seen.store(got, std::memory_order_relaxed);
  }
  for (auto& notifier : notifiers) notifier.join();
}

// The two tests of the orders [7] and [8]. Nothing else orders the two threads: what
// they exchange otherwise is relaxed. With one order weakened, ThreadSanitizer
// reports the race.

TEST(a_waiter_sees_what_was_written_before_a_notification_that_came_first) {
  for (int n = 0; n < check::scaled(2000); ++n) {
    WaitPoint point(0);
    int written = 0;
    std::atomic<bool> notified{false};
    std::thread notifier([&] {
      written = 1;
      if (n % 2 == 0) {
        point.notify();  // [8]
      } else {
        point.notify_if([] { return true; });  // [8]
      }
      notified.store(true, std::memory_order_relaxed);
    });
    int tries = 0;
    while (!notified.load(std::memory_order_relaxed)) check::relax(&tries);
    int looks = 0;
    // The first look comes before [7], the second behind it.
    CHECK(point.wait([&] { return ++looks > 1 && written == 1; }, kNoDeadline));
    notifier.join();
  }
}

TEST(a_notifier_sees_what_a_waiter_wrote_before_it_went_to_sleep) {
  for (int n = 0; n < check::scaled(2000); ++n) {
    WaitPoint point(0);
    int written = 0;
    bool asked = false;
    bool seen = false;
    std::atomic<bool> looked{false};
    std::atomic<bool> over{false};
    std::thread notifier([&] {
      int tries = 0;
      while (!looked.load(std::memory_order_relaxed)) check::relax(&tries);
      over.store(true, std::memory_order_relaxed);
      point.notify_if([&] {  // [8]
        asked = true;
        seen = written == 1;
        return true;
      });
      point.notify();
    });
    int looks = 0;
    written = 1;
    CHECK(point.wait(
        [&] {
          // The first look comes before [7], the second behind it.
          if (++looks == 2) looked.store(true, std::memory_order_relaxed);
          return over.load(std::memory_order_relaxed);
        },
        kNoDeadline));
    notifier.join();
    CHECK_EQ(seen, asked);  // not asked: the waiter had left its sleep already
  }
}
