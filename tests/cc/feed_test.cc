// What a feed promises: every element or a reason, both sides released, no wait burns
// CPU.
#include "core/feed.h"

#include <sched.h>
#include <time.h>

#include <limits>
#include <memory>
#include <string>

#include "check.h"

using ipufeed::clock_ns;
using ipufeed::FeedOutcome;
using ipufeed::FeedState;
using ipufeed::now_ns;

namespace {

using Feed = ipufeed::Feed<std::unique_ptr<int>, std::string>;

constexpr std::int64_t kPast = 1;  // a deadline that is over
constexpr std::int64_t kMs = 1'000'000;
constexpr std::uint64_t kNear64 = std::numeric_limits<std::uint64_t>::max() - 9;

FeedOutcome push(Feed* feed, int number, std::int64_t deadline_ns = kPast) {
  return feed->push(std::make_unique<int>(number), deadline_ns);
}

// The number, or -1 - outcome.
int pop(Feed* feed, std::int64_t deadline_ns = kPast) {
  std::unique_ptr<int> element;
  const auto outcome = feed->pop(&element, deadline_ns);
  if (outcome != FeedOutcome::kDone) return -1 - static_cast<int>(outcome);
  CHECK(element != nullptr);
  return *element;
}

constexpr int none(FeedOutcome outcome) { return -1 - static_cast<int>(outcome); }

// Until the side with these statistics sleeps, or is about to.
template <class Stats>
void await_park(Stats stats) {
  while (stats().parks == 0) usleep(50);
}

// Runs the test with one CPU in the mask, for it and for the threads that it starts.
class OneCpu {
 public:
  OneCpu() {
    CHECK_EQ(sched_getaffinity(0, sizeof(before_), &before_), 0);
    cpu_set_t one;
    CPU_ZERO(&one);
    for (int cpu = 0; CPU_COUNT(&one) == 0; ++cpu) {
      if (CPU_ISSET(cpu, &before_)) CPU_SET(cpu, &one);
    }
    CHECK_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
  }
  ~OneCpu() { sched_setaffinity(0, sizeof(before_), &before_); }

 private:
  cpu_set_t before_;
};

// The whole way: `elements` numbers through `feed`, with ends that wait without a
// limit.
void carry(Feed* feed, int elements) {
  std::thread writer([&] {
    for (int n = 0; n < elements; ++n) {
      CHECK_EQ(push(feed, n, ipufeed::kNoDeadline), FeedOutcome::kDone);
    }
    feed->end();
  });
  for (int n = 0; n < elements; ++n) CHECK_EQ(pop(feed, ipufeed::kNoDeadline), n);
  CHECK_EQ(pop(feed, ipufeed::kNoDeadline), none(FeedOutcome::kEnded));
  writer.join();
}

}  // namespace

TEST(an_ended_feed_gives_its_elements_and_then_returns_the_end_each_time) {
  Feed feed(3, kNear64);
  for (int n = 0; n < 3; ++n) CHECK_EQ(push(&feed, n), FeedOutcome::kDone);
  feed.end();
  CHECK_EQ(feed.state(), FeedState::kEnded);
  for (int n = 0; n < 3; ++n) CHECK_EQ(pop(&feed), n);
  for (int n = 0; n < 3; ++n) {
    CHECK_EQ(pop(&feed, ipufeed::kNoDeadline), none(FeedOutcome::kEnded));
  }
  CHECK_EQ(push(&feed, 9), FeedOutcome::kEnded);
  CHECK_EQ(feed.reader_stats().waits, std::uint64_t{0});
}

TEST(an_empty_feed_can_end) {
  Feed feed(1);
  feed.end();
  CHECK_EQ(pop(&feed), none(FeedOutcome::kEnded));
}

TEST(a_failed_feed_gives_its_elements_and_then_the_error) {
  Feed feed(2);
  CHECK_EQ(push(&feed, 1), FeedOutcome::kDone);
  CHECK_EQ(push(&feed, 2), FeedOutcome::kDone);
  feed.fail("element 2: bad record");
  CHECK_EQ(pop(&feed), 1);
  CHECK_EQ(pop(&feed), 2);
  for (int n = 0; n < 3; ++n) {
    CHECK_EQ(pop(&feed, ipufeed::kNoDeadline), none(FeedOutcome::kFailed));
    CHECK_EQ(feed.error(), std::string("element 2: bad record"));
  }
  CHECK_EQ(push(&feed, 3), FeedOutcome::kFailed);
}

TEST(the_first_end_is_the_one_that_stays) {
  Feed failed(1), ended(1), cancelled(1);
  failed.fail("first");
  failed.fail("second");
  failed.end();
  failed.cancel();
  CHECK_EQ(pop(&failed), none(FeedOutcome::kFailed));
  CHECK_EQ(failed.error(), std::string("first"));

  ended.end();
  ended.fail("late");
  ended.cancel();
  CHECK_EQ(pop(&ended), none(FeedOutcome::kEnded));
  CHECK_EQ(ended.error(), std::string());

  cancelled.cancel();
  cancelled.cancel();
  cancelled.end();
  cancelled.fail("late");
  CHECK_EQ(pop(&cancelled), none(FeedOutcome::kCancelled));
  CHECK_EQ(push(&cancelled, 1), FeedOutcome::kCancelled);
}

TEST(the_error_is_whole_for_a_reader_on_another_thread) {
  const std::string text(100, 'e');  // not a small string: its bytes are elsewhere
  std::unique_ptr<Feed> feed;
  check::in_step(
      check::scaled(5'000), [&](int) { feed = std::make_unique<Feed>(1); }, [](int) {},
      [&](int) {
        CHECK_EQ(push(feed.get(), 1), FeedOutcome::kDone);
        feed->fail(text);
        feed->fail("a second error, while the reader may be reading the first");
      },
      [&](int) {
        CHECK_EQ(pop(feed.get(), ipufeed::kNoDeadline), 1);
        CHECK_EQ(pop(feed.get(), ipufeed::kNoDeadline), none(FeedOutcome::kFailed));
        CHECK_EQ(feed->error(), text);
      });
}

TEST(a_cancelled_feed_counts_elements_without_a_reader) {
  Feed feed(3);
  for (int n = 0; n < 3; ++n) CHECK_EQ(push(&feed, n), FeedOutcome::kDone);
  CHECK_EQ(pop(&feed), 0);
  feed.cancel();
  CHECK_EQ(pop(&feed), none(FeedOutcome::kCancelled));
  CHECK_EQ(push(&feed, 3), FeedOutcome::kCancelled);
  CHECK_EQ(feed.undelivered(), std::size_t{2});
}

TEST(a_push_that_times_out_keeps_the_element_with_its_owner) {
  Feed feed(1);
  CHECK_EQ(push(&feed, 1), FeedOutcome::kDone);
  auto element = std::make_unique<int>(2);
  CHECK_EQ(feed.push(std::move(element), now_ns() + kMs), FeedOutcome::kTimedOut);
  CHECK(element != nullptr);
  CHECK_EQ(*element, 2);
  CHECK_EQ(feed.writer_stats().waits, std::uint64_t{1});

  CHECK_EQ(pop(&feed), 1);
  CHECK_EQ(feed.push(std::move(element), kPast), FeedOutcome::kDone);
  CHECK_EQ(pop(&feed), 2);
}

TEST(a_refused_push_keeps_the_element_with_its_owner) {
  Feed ended(1), cancelled(1);
  ended.end();
  cancelled.cancel();
  for (Feed* feed : {&ended, &cancelled}) {
    auto element = std::make_unique<int>(1);
    CHECK(feed->push(std::move(element)) != FeedOutcome::kDone);
    CHECK(element != nullptr);
  }
}

TEST(a_pop_that_times_out_loses_nothing) {
  Feed feed(1);
  CHECK_EQ(pop(&feed), none(FeedOutcome::kTimedOut));
  CHECK_EQ(pop(&feed, now_ns() + kMs), none(FeedOutcome::kTimedOut));
  CHECK_EQ(push(&feed, 1), FeedOutcome::kDone);
  CHECK_EQ(pop(&feed), 1);
}

TEST(cancel_releases_a_blocked_reader) {
  for (const std::int64_t spin_ns : {0, 1000}) {
    Feed feed(2, 0, spin_ns);
    std::thread reader([&] {
      CHECK_EQ(pop(&feed, ipufeed::kNoDeadline), none(FeedOutcome::kCancelled));
    });
    await_park([&] { return feed.reader_stats(); });
    feed.cancel();
    reader.join();
  }
}

TEST(cancel_releases_a_blocked_writer_with_its_element) {
  for (const std::int64_t spin_ns : {0, 1000}) {
    Feed feed(1, 0, spin_ns);
    CHECK_EQ(push(&feed, 1), FeedOutcome::kDone);
    std::thread writer([&] {
      auto element = std::make_unique<int>(2);
      CHECK_EQ(feed.push(std::move(element)), FeedOutcome::kCancelled);
      CHECK(element != nullptr);
    });
    await_park([&] { return feed.writer_stats(); });
    feed.cancel();
    writer.join();
    CHECK_EQ(feed.undelivered(), std::size_t{1});
  }
}

TEST(end_and_fail_release_a_blocked_reader) {
  for (const bool failing : {false, true}) {
    Feed feed(1, 0, 0);
    std::thread reader([&] {
      const auto expected = failing ? FeedOutcome::kFailed : FeedOutcome::kEnded;
      CHECK_EQ(pop(&feed, ipufeed::kNoDeadline), none(expected));
    });
    await_park([&] { return feed.reader_stats(); });
    failing ? feed.fail("broken") : feed.end();
    reader.join();
  }
}

TEST(a_parked_writer_is_woken_once_the_feed_is_half_empty) {
  Feed feed(4, kNear64, 0);
  for (int n = 0; n < 4; ++n) CHECK_EQ(push(&feed, n), FeedOutcome::kDone);
  std::thread writer(
      [&] { CHECK_EQ(push(&feed, 4, ipufeed::kNoDeadline), FeedOutcome::kDone); });
  await_park([&] { return feed.writer_stats(); });
  CHECK_EQ(pop(&feed), 0);
  CHECK_EQ(pop(&feed), 1);
  writer.join();
  for (int n = 2; n < 5; ++n) CHECK_EQ(pop(&feed), n);
}

TEST(a_writer_that_has_filled_the_feed_again_sleeps_until_it_is_half_empty_again) {
  Feed feed(8, kNear64, 0);
  for (int n = 0; n < 8; ++n) CHECK_EQ(push(&feed, n), FeedOutcome::kDone);
  std::thread writer([&] {
    for (int n = 8; n < 13; ++n) {
      CHECK_EQ(push(&feed, n, ipufeed::kNoDeadline), FeedOutcome::kDone);
    }
  });
  await_park([&] { return feed.writer_stats(); });
  for (int n = 0; n < 4; ++n) CHECK_EQ(pop(&feed), n);
  while (feed.writer_stats().parks < 2 || feed.undelivered() < 8) usleep(100);
  CHECK_EQ(pop(&feed), 4);
  usleep(5000);  // a writer that is woken has pushed by then
  CHECK_EQ(feed.undelivered(), std::size_t{7});
  for (int n = 5; n < 8; ++n) CHECK_EQ(pop(&feed), n);
  writer.join();
  for (int n = 8; n < 13; ++n) CHECK_EQ(pop(&feed), n);
}

TEST(no_wake_up_is_lost_at_small_capacities) {
  for (const int capacity : {1, 2, 3, 8}) {
    for (const std::int64_t spin_ns : {0, 300, 1000}) {
      Feed feed(capacity, kNear64, spin_ns);
      carry(&feed, check::scaled(8'000));
      CHECK_EQ(feed.undelivered(), std::size_t{0});
    }
  }
}

TEST(no_wake_up_is_lost_when_the_limit_is_below_the_half) {
  Feed feed(8, 0, 0);
  feed.set_limit(1);
  carry(&feed, check::scaled(8'000));
}

TEST(a_reader_that_naps_gets_all_and_the_end) {
  for (const int capacity : {1, 2, 3, 64}) {
    Feed feed(capacity, kNear64, 0);
    feed.set_reader_nap(kMs / 10);
    carry(&feed, check::scaled(8'000));
  }
}

TEST(the_end_and_cancel_and_a_half_full_feed_end_a_nap) {
  constexpr std::int64_t kLongNap = 10'000 * kMs;  // no healthy run waits for its end
  for (const int how : {0, 1, 2}) {
    Feed feed(4, 0, 0);
    feed.set_reader_nap(kLongNap);
    CHECK_EQ(pop(&feed), none(FeedOutcome::kTimedOut));  // short, so the next may nap
    std::thread reader([&] {
      const FeedOutcome ends[] = {FeedOutcome::kEnded, FeedOutcome::kCancelled};
      CHECK_EQ(pop(&feed, ipufeed::kNoDeadline), how < 2 ? none(ends[how]) : 0);
    });
    await_park([&] { return feed.reader_stats(); });
    if (how == 0) feed.end();
    if (how == 1) feed.cancel();
    for (int n = 0; how == 2 && n < 2; ++n)
      CHECK_EQ(push(&feed, n), FeedOutcome::kDone);
    reader.join();
    CHECK(feed.reader_stats().waited_ns < kLongNap);
  }
}

TEST(time_outs_on_both_sides_lose_and_double_nothing) {
  for (const int capacity : {1, 2, 3}) {
    const int elements = check::scaled(8'000);
    Feed feed(capacity, kNear64, 0);
    std::thread writer([&] {
      check::Random random(check::seed());
      for (int n = 0; n < elements; ++n) {
        auto element = std::make_unique<int>(n);
        for (;;) {
          const auto until = now_ns() + static_cast<int>(random.below(20'000));
          const auto outcome = feed.push(std::move(element), until);
          if (outcome == FeedOutcome::kDone) break;
          CHECK_EQ(outcome, FeedOutcome::kTimedOut);
          CHECK(element != nullptr);
        }
      }
      feed.end();
    });
    check::Random random(check::seed() + 1);
    int expected = 0;
    for (;;) {
      const int got = pop(&feed, now_ns() + static_cast<int>(random.below(20'000)));
      if (got == none(FeedOutcome::kEnded)) break;
      if (got == none(FeedOutcome::kTimedOut)) continue;
      CHECK_EQ(got, expected);
      ++expected;
    }
    CHECK_EQ(expected, elements);
    writer.join();
  }
}

TEST(a_reason_of_its_own_ends_one_wait_and_nothing_else) {
  std::atomic<bool> stopped{false};
  const auto reason = [&] { return stopped.load(std::memory_order_relaxed); };
  Feed feed(1, 0, 0);
  std::thread reader([&] {
    std::unique_ptr<int> element;
    const auto outcome = feed.pop(&element, ipufeed::kNoDeadline, reason);
    CHECK_EQ(outcome, FeedOutcome::kStopped);
  });
  await_park([&] { return feed.reader_stats(); });
  stopped = true;
  feed.wake_reader();
  reader.join();

  stopped = false;
  CHECK_EQ(push(&feed, 7), FeedOutcome::kDone);
  std::thread writer([&] {
    auto element = std::make_unique<int>(8);
    const auto outcome = feed.push(std::move(element), ipufeed::kNoDeadline, reason);
    CHECK_EQ(outcome, FeedOutcome::kStopped);
    CHECK(element != nullptr);
  });
  await_park([&] { return feed.writer_stats(); });
  stopped = true;
  feed.wake_writer();
  writer.join();

  CHECK_EQ(pop(&feed), 7);  // the feed goes on
  CHECK_EQ(push(&feed, 9), FeedOutcome::kDone);
  CHECK_EQ(pop(&feed), 9);
}

TEST(stops_at_any_moment_lose_and_double_nothing) {
  const int elements = check::scaled(4'000);
  Feed feed(2, kNear64, 300);
  std::atomic<bool> stopped{false}, done{false};
  const auto reason = [&] { return stopped.exchange(false); };
  std::thread third([&] {
    check::Random random(check::seed() + 2);
    while (!done.load()) {
      usleep(static_cast<unsigned>(random.below(50)));
      stopped = true;
      feed.wake_reader();
      feed.wake_writer();
    }
  });
  std::thread writer([&] {
    for (int n = 0; n < elements; ++n) {
      auto element = std::make_unique<int>(n);
      for (;;) {
        const auto outcome =
            feed.push(std::move(element), ipufeed::kNoDeadline, reason);
        if (outcome == FeedOutcome::kDone) break;
        CHECK_EQ(outcome, FeedOutcome::kStopped);
      }
    }
    feed.end();
  });
  int expected = 0;
  for (;;) {
    std::unique_ptr<int> element;
    const auto outcome = feed.pop(&element, ipufeed::kNoDeadline, reason);
    if (outcome == FeedOutcome::kEnded) break;
    if (outcome == FeedOutcome::kStopped) continue;
    CHECK_EQ(outcome, FeedOutcome::kDone);
    CHECK_EQ(*element, expected);
    ++expected;
  }
  CHECK_EQ(expected, elements);
  done = true;
  third.join();
  writer.join();
}

TEST(a_poll_near_the_end_never_loses_the_last_element) {
  // pop() with a deadline that is over comes to drained() from an empty ring: the order
  // of the two loads in there is all that stands between the last element and its loss.
  std::unique_ptr<Feed> feed;
  check::in_step(
      check::scaled(20'000), [&](int) { feed = std::make_unique<Feed>(1, 0, 0); },
      [](int) {},
      [&](int life) {
        CHECK_EQ(push(feed.get(), life), FeedOutcome::kDone);
        feed->end();
      },
      [&](int life) {
        int got = none(FeedOutcome::kTimedOut);
        while (got == none(FeedOutcome::kTimedOut)) got = pop(feed.get());
        CHECK_EQ(got, life);
        CHECK_EQ(pop(feed.get(), ipufeed::kNoDeadline), none(FeedOutcome::kEnded));
      });
}

TEST(cancel_at_any_moment_leaves_each_element_delivered_or_counted) {
  std::unique_ptr<Feed> feed;
  int pushed = 0, delivered = 0;
  FeedOutcome last_push{}, last_pop{};
  check::in_step(
      check::scaled(10'000),
      [&](int life) {
        feed = std::make_unique<Feed>(1 + life % 3, kNear64, life % 2 * 300);
        pushed = delivered = 0;
      },
      [&](int) {
        CHECK_EQ(delivered + static_cast<int>(feed->undelivered()), pushed);
        CHECK_EQ(static_cast<int>(last_pop), static_cast<int>(feed->state()));
        if (feed->state() == FeedState::kEnded) CHECK_EQ(delivered, pushed);
        if (last_push != FeedOutcome::kDone)
          CHECK_EQ(last_push, FeedOutcome::kCancelled);
      },
      [&](int life) {  // writer
        do {
          last_push = push(feed.get(), pushed, ipufeed::kNoDeadline);
          if (last_push == FeedOutcome::kDone) ++pushed;
        } while (last_push == FeedOutcome::kDone && pushed < life % 7);
        feed->end();
      },
      [&](int) {  // reader
        int got = 0;
        while ((got = pop(feed.get(), ipufeed::kNoDeadline)) >= 0) {
          CHECK_EQ(got, delivered);
          ++delivered;
        }
        last_pop = static_cast<FeedOutcome>(-1 - got);
      },
      [&](int life) {  // third party
        check::Random random(check::seed() * 1'000'003 + life);
        for (auto n = random.below(2'000); n > 0; --n) ipufeed::cpu_relax();
        feed->cancel();
      });
}

TEST(a_cancelled_feed_drops_its_elements_on_request) {
  // Moves swap, as those of the feeder's elements do.
  struct Swapped {
    Swapped() = default;
    explicit Swapped(int number) : held(std::make_shared<int>(number)) {}
    Swapped(Swapped&& other) noexcept { held.swap(other.held); }
    Swapped& operator=(Swapped&& other) noexcept {
      held.swap(other.held);
      return *this;
    }
    std::shared_ptr<int> held;
  };
  ipufeed::Feed<Swapped, std::string> feed(8);
  std::weak_ptr<int> last;
  for (int i = 0; i < 5; ++i) {
    Swapped element(i);
    last = element.held;
    CHECK_EQ(feed.push(std::move(element), kPast), FeedOutcome::kDone);
  }
  feed.cancel();
  CHECK(!last.expired());
  feed.drop_elements();
  CHECK(last.expired());
  CHECK_EQ(feed.undelivered(), 0u);
  feed.drop_elements();
}

TEST(a_parked_side_burns_no_cpu) {
  Feed feed(1);
  const auto start = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
  CHECK_EQ(pop(&feed, now_ns() + 200 * kMs), none(FeedOutcome::kTimedOut));
  CHECK(clock_ns(CLOCK_PROCESS_CPUTIME_ID) - start < 50 * kMs);

  CHECK_EQ(push(&feed, 1), FeedOutcome::kDone);
  const auto again = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
  CHECK_EQ(push(&feed, 2, now_ns() + 200 * kMs), FeedOutcome::kTimedOut);
  CHECK(clock_ns(CLOCK_PROCESS_CPUTIME_ID) - again < 50 * kMs);
}

TEST(with_one_usable_cpu_no_thread_spins_and_all_arrives) {
  const OneCpu one_cpu;
  CHECK_EQ(ipufeed::usable_cpus(), 1);
  ipufeed::WaitPoint point;
  int looks = 0;
  CHECK(!point.wait([&] { return ++looks == 0; }, kPast));
  CHECK_EQ(looks,
           3);  // before, with the flag raised, at the deadline: none from a spin

  for (const int capacity : {1, 2, 64}) {
    Feed feed(capacity);
    carry(&feed, check::scaled(5'000));
    CHECK(feed.reader_stats().parks + feed.writer_stats().parks > 0);
  }
}
