// What a result queue promises: every result once, in order, by any reader and at any
// time; a program without a reader goes on until the store is full; all waiters return.
#include "core/result_queue.h"

#include <memory>
#include <new>
#include <vector>

#include "check.h"

using ipufeed::FeedOutcome;
using ipufeed::kNoDeadline;
using ipufeed::now_ns;

namespace {

// Keeps the numbers; each counts as one byte. Refuses one, once, if it is asked to.
class Numbers {
 public:
  static inline int refuse_at = -1;

  void append(std::unique_ptr<int>&& number) {
    if (*number == refuse_at) {
      refuse_at = -1;
      throw std::bad_alloc();
    }
    numbers_.push_back(std::move(number));
  }
  void append(Numbers&& later) {
    for (auto& number : later.numbers_) numbers_.push_back(std::move(number));
    later.numbers_.clear();
  }
  void pop(std::unique_ptr<int>* number) {
    *number = std::move(numbers_.front());
    numbers_.erase(numbers_.begin());
  }
  std::int64_t bytes() const { return static_cast<std::int64_t>(numbers_.size()); }
  bool empty() const { return numbers_.empty(); }
  const std::vector<std::unique_ptr<int>>& all() const { return numbers_; }

 private:
  std::vector<std::unique_ptr<int>> numbers_;
};

using Queue = ipufeed::ResultQueue<std::unique_ptr<int>, Numbers>;

constexpr std::int64_t kPast = 1;  // a deadline that is over
constexpr std::int64_t kPlenty = 1 << 30;
constexpr auto never = [] { return false; };

FeedOutcome enqueue(Queue* queue, int number, std::int64_t deadline_ns = kNoDeadline) {
  return queue->enqueue(std::make_unique<int>(number), deadline_ns, never);
}

// Takes what is there and checks that it goes on from *next.
void take_in_order(Queue* queue, int* next) {
  const Numbers taken = queue->take();
  for (const auto& number : taken.all()) CHECK_EQ(*number, (*next)++);
}

}  // namespace

TEST(results_without_a_reader_are_kept_in_order) {
  for (const int capacity : {1, 2, 3, 64}) {
    Queue queue(static_cast<std::size_t>(capacity), kPlenty);
    for (int n = 0; n < 1000; ++n) CHECK_EQ(enqueue(&queue, n), FeedOutcome::kDone);
    CHECK_EQ(queue.enqueued(), std::uint64_t{1000});
    int next = 0;
    take_in_order(&queue, &next);
    CHECK_EQ(next, 1000);
    CHECK(queue.take().empty());
  }
}

TEST(a_full_store_makes_the_writer_wait_and_a_reader_releases_it) {
  Queue queue(2, 4);
  int n = 0;
  while (enqueue(&queue, n, kPast) == FeedOutcome::kDone) ++n;
  CHECK(n >= 4 && n <= 8);  // the store's bound, a ring, and what was moved at once
  std::thread writer([&] { CHECK_EQ(enqueue(&queue, n), FeedOutcome::kDone); });
  int next = 0;
  while (next <= n) {
    CHECK(queue.wait(kNoDeadline, never));
    take_in_order(&queue, &next);
  }
  writer.join();
}

TEST(a_reader_beside_the_writer_gets_each_result_once_and_in_order) {
  for (const int capacity : {1, 3, 64}) {
    const int elements = check::scaled(40'000);
    Queue queue(static_cast<std::size_t>(capacity), 1000);
    std::thread writer([&] {
      for (int n = 0; n < elements; ++n) {
        CHECK_EQ(enqueue(&queue, n), FeedOutcome::kDone);
      }
    });
    int next = 0;
    while (next < elements) {
      CHECK(queue.wait(kNoDeadline, never));
      take_in_order(&queue, &next);
    }
    writer.join();
    CHECK(queue.take().empty());
  }
}

TEST(next_gives_the_oldest_result_wherever_it_is) {
  Queue queue(2, kPlenty);
  std::unique_ptr<int> element;
  CHECK_EQ(queue.next(&element, kPast, never), FeedOutcome::kTimedOut);
  for (int n = 0; n < 9; ++n) {
    CHECK_EQ(enqueue(&queue, n), FeedOutcome::kDone);
    if (n != 1) continue;
    CHECK_EQ(queue.next(&element, kNoDeadline, never), FeedOutcome::kDone);
    CHECK_EQ(*element, 0);
  }
  for (int n = 1; n < 5; ++n) {
    CHECK_EQ(queue.next(&element, kPast, never), FeedOutcome::kDone);
    CHECK_EQ(*element, n);
  }
  int next = 5;
  take_in_order(&queue, &next);
  CHECK_EQ(next, 9);
  CHECK_EQ(queue.next(&element, kPast, never), FeedOutcome::kTimedOut);
  CHECK_EQ(queue.next(&element, kNoDeadline, [] { return true; }),
           FeedOutcome::kStopped);
}

TEST(next_and_take_give_each_result_once_and_in_order) {
  for (const int capacity : {1, 3, 64}) {
    const int elements = check::scaled(40'000);
    Queue queue(static_cast<std::size_t>(capacity), 1000);
    std::thread writer([&] {
      for (int n = 0; n < elements; ++n) {
        CHECK_EQ(enqueue(&queue, n), FeedOutcome::kDone);
      }
    });
    int next = 0;
    while (next < elements) {
      std::unique_ptr<int> element;
      if (queue.next(&element, kNoDeadline, never) == FeedOutcome::kDone) {
        CHECK_EQ(*element, next++);
      } else {
        take_in_order(&queue, &next);
      }
    }
    writer.join();
    CHECK(queue.take().empty());
  }
}

TEST(readers_that_come_and_go_share_the_results) {
  const int elements = check::scaled(30'000);
  Queue queue(3, 500);
  std::atomic<int> taken{0};
  const auto read = [&] {
    int last = -1;
    while (taken.load() < elements) {
      queue.wait(now_ns() + 1'000'000, never);
      const Numbers mine = queue.take();
      for (const auto& number : mine.all()) {
        CHECK(*number > last);  // in order as far as one reader sees
        last = *number;
      }
      taken.fetch_add(static_cast<int>(mine.bytes()));
    }
  };
  std::thread one(read), other(read);
  for (int n = 0; n < elements; ++n) CHECK_EQ(enqueue(&queue, n), FeedOutcome::kDone);
  one.join();
  other.join();
  CHECK_EQ(taken.load(), elements);
}

TEST(a_stopped_writer_returns_and_keeps_its_element) {
  Queue queue(1, 1);
  int n = 0;
  while (enqueue(&queue, n, kPast) == FeedOutcome::kDone) ++n;
  std::atomic<bool> stopped{false};
  std::thread writer([&] {
    auto element = std::make_unique<int>(n);
    const auto outcome =
        queue.enqueue(std::move(element), kNoDeadline, [&] { return stopped.load(); });
    CHECK_EQ(outcome, FeedOutcome::kStopped);
    CHECK(element != nullptr);
  });
  usleep(2000);
  stopped = true;
  queue.wake_writer();
  writer.join();
  int next = 0;
  take_in_order(&queue, &next);
  CHECK_EQ(next, n);
}

TEST(a_waiting_reader_sees_its_own_reason_to_stop) {
  Queue queue(4, kPlenty);
  std::atomic<bool> stopped{false};
  std::thread reader(
      [&] { CHECK(queue.wait(kNoDeadline, [&] { return stopped.load(); })); });
  usleep(2000);
  stopped = true;
  queue.wake_reader();
  reader.join();
  CHECK(!queue.wait(now_ns() + 1'000'000, never));  // nothing there: the deadline
  CHECK(queue.take().empty());
}

TEST(cancel_releases_both_sides) {
  for (const bool full : {false, true}) {
    Queue queue(1, 1);
    while (full && enqueue(&queue, 0, kPast) == FeedOutcome::kDone) {
    }
    std::thread other([&] {
      if (full) {
        CHECK_EQ(enqueue(&queue, 1), FeedOutcome::kCancelled);
      } else {
        CHECK(queue.wait(kNoDeadline, never));
      }
    });
    usleep(1000);
    queue.cancel();
    other.join();
    CHECK_EQ(enqueue(&queue, 2), FeedOutcome::kCancelled);
  }
}

TEST(an_element_that_the_store_refuses_is_neither_lost_nor_doubled) {
  for (int at = 0; at < 12; ++at) {
    Queue queue(3, kPlenty);
    int thrown = 0;
    Numbers::refuse_at = at;
    for (int n = 0; n < 12; ++n) {
      auto element = std::make_unique<int>(n);
      try {
        CHECK_EQ(queue.enqueue(std::move(element), kNoDeadline, never),
                 FeedOutcome::kDone);
      } catch (const std::bad_alloc&) {  // the writer still owns it
        ++thrown;
        CHECK(element != nullptr);
        CHECK_EQ(queue.enqueue(std::move(element), kNoDeadline, never),
                 FeedOutcome::kDone);
      }
    }
    int next = 0;
    try {
      take_in_order(&queue, &next);
    } catch (const std::bad_alloc&) {
      ++thrown;
      CHECK(queue.wait(kPast, never));  // there is something, though none in the store
      take_in_order(&queue, &next);
    }
    CHECK_EQ(thrown, 1);
    CHECK_EQ(next, 12);
    CHECK_EQ(Numbers::refuse_at, -1);
  }
}

TEST(a_refused_element_comes_before_those_in_the_ring) {
  Queue queue(2, kPlenty);
  for (int n = 0; n < 2; ++n) CHECK_EQ(enqueue(&queue, n), FeedOutcome::kDone);
  Numbers::refuse_at = 0;
  try {
    (void)queue.take();
    CHECK(false);
  } catch (const std::bad_alloc&) {
  }
  std::unique_ptr<int> element;
  CHECK_EQ(queue.next(&element, kPast, never), FeedOutcome::kDone);
  CHECK_EQ(*element, 0);
  int next = 1;
  take_in_order(&queue, &next);
  CHECK_EQ(next, 2);
}

TEST(a_taker_does_not_wait_for_readers_that_sleep) {
  for (int life = 0; life < check::scaled(200); ++life) {
    Queue queue(2, kPlenty);
    std::atomic<bool> stopped{false};
    const auto stops = [&] { return stopped.load(); };
    std::atomic<int> seen{0};
    const auto read = [&] {
      std::unique_ptr<int> element;
      while (queue.next(&element, kNoDeadline, stops) == FeedOutcome::kDone) ++seen;
    };
    std::thread one(read), other(read);
    std::unique_ptr<int> element;
    for (int n = 0; n < 20; ++n) {
      // No result has come: only these calls can make the readers give the role up.
      CHECK(queue.take().empty());
      CHECK_EQ(queue.next(&element, kPast, never), FeedOutcome::kTimedOut);
    }
    CHECK_EQ(enqueue(&queue, 1), FeedOutcome::kDone);
    int tries = 0;
    while (seen.load() == 0) check::relax(&tries);
    stopped = true;
    queue.wake_reader();
    one.join();
    other.join();
    CHECK_EQ(seen.load(), 1);
  }
}

TEST(a_look_at_what_is_there_finds_it_while_the_writer_stores) {
  const int elements = check::scaled(40'000);
  Queue queue(1, kPlenty);
  std::atomic<int> enqueued{0};
  std::thread writer([&] {
    for (int n = 0; n < elements; ++n) {
      CHECK_EQ(enqueue(&queue, n), FeedOutcome::kDone);
      enqueued = n + 1;
    }
  });
  std::unique_ptr<int> element;
  int tries = 0;
  for (int next = 0; next < elements; ++next) {
    while (enqueued.load() <= next) check::relax(&tries);
    CHECK_EQ(queue.next(&element, kPast, never), FeedOutcome::kDone);
    CHECK_EQ(*element, next);
  }
  writer.join();
}

TEST(a_full_writer_goes_on_when_the_limit_is_lifted) {
  Queue queue(1, 1);
  int n = 0;
  while (enqueue(&queue, n, kPast) == FeedOutcome::kDone) ++n;
  std::thread writer([&] { CHECK_EQ(enqueue(&queue, n), FeedOutcome::kDone); });
  usleep(2000);
  queue.lift_limit();
  writer.join();
  queue.restore_limit();
  int next = 0;
  take_in_order(&queue, &next);
  CHECK_EQ(next, n + 1);
}

TEST(what_is_put_back_comes_first_again) {
  Queue queue(2, kPlenty);
  int n = 0;
  for (; n < 5; ++n) CHECK_EQ(enqueue(&queue, n), FeedOutcome::kDone);
  Numbers taken = queue.take();
  for (; n < 9; ++n) CHECK_EQ(enqueue(&queue, n), FeedOutcome::kDone);
  queue.put_back(std::move(taken));
  CHECK(queue.stored_bytes() >= 5);
  int next = 0;
  take_in_order(&queue, &next);
  CHECK_EQ(next, 9);
  CHECK_EQ(queue.stored_bytes(), 0);
}
