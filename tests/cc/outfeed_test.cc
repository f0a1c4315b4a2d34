// What an outfeed promises to 1 to 4 replicas and to its readers: whole results, each
// once and in order, all that all replicas have given, and an end to every wait.
#include "check.h"
#include "standin/harness.h"

namespace {

using namespace ipufeed;
using namespace standin;

constexpr int kLives = check::scaled(400);

// The part of a replica of the result number `round`, and the whole.
std::int64_t part_value(std::int64_t round, int replica) { return round * 8 + replica; }

// The number of the result that a whole is; of one replica it has no dimension for it.
std::int64_t round_of(const Tensor& whole, int replicas) {
  const std::int64_t size = whole.NumElements() / replicas;
  const auto values = whole.flat<std::int64_t>();
  const std::int64_t round = values(0) / 8;
  for (int r = 0; r < replicas; ++r) {
    for (std::int64_t i = 0; i < size; ++i) {
      CHECK_EQ(values(r * size + i), part_value(round, r));
    }
  }
  return round;
}

absl::Status accept_any(const ResultSignature& /*stored*/) { return absl::OkStatus(); }

// What a test enqueues, and how.
struct Queue {
  std::int64_t number = new_number();
  int replicas = 1;
  OutfeedMode mode = OutfeedMode::kAll;
  std::size_t capacity = 2;
  std::int64_t size = 3;  // int64 in a part
  // Whether a program of one replica leaves the tensors to the queue, as compiled ones
  // do.
  bool gives_parts = true;

  ~Queue() {
    const absl::Status status = remove_outfeed(number);
    CHECK_EQ(status.ToString(), "OK");
  }

  absl::Status find(Program* program, Outfeed** feed) const {
    return lease_outfeed(*program, number, mode, capacity, feed);
  }

  // The part of one replica.
  absl::Status give(Program* program, int replica, std::int64_t round) const {
    Outfeed* feed = nullptr;
    TF_RETURN_IF_ERROR(find(program, &feed));
    Tensor part = filled(part_value(round, replica), size);
    const std::vector<ResultPart> parts{{part.dtype(), part.shape(), part.data()}};
    if (replicas > 1) return feed->enqueue_part(*program, replica, parts);
    if (gives_parts) return feed->enqueue(*program, parts);
    ResultElement element;
    element.components.push_back(std::move(part));
    return feed->enqueue(*program, std::move(element));
  }

  TensorShape shape() const {
    return replicas > 1 ? TensorShape({replicas, size}) : TensorShape({size});
  }

  // As a dequeue of all: their numbers go behind *got.
  void take_all(Outfeed* feed, std::vector<std::int64_t>* got) const {
    std::vector<Tensor> all;
    const absl::Status status = feed->take_all(accept_any, &all);
    CHECK_EQ(status.ToString(), "OK");
    if (all.empty()) return;
    CHECK_EQ(static_cast<int>(all.size()), 1);
    CHECK_EQ(all[0].dims(), shape().dims() + 1);
    const std::int64_t count = all[0].dim_size(0);
    for (std::int64_t i = 0; i < count; ++i) {
      Tensor one(tensorflow::DT_INT64, shape());
      std::memcpy(one.data(),
                  static_cast<const char*>(all[0].data()) +
                      static_cast<std::size_t>(i) * one.TotalBytes(),
                  one.TotalBytes());
      got->push_back(round_of(one, replicas));
    }
  }
};

Queue random_queue(check::Random* random) {
  Queue queue;
  queue.replicas = 1 + static_cast<int>(random->below(4));
  queue.capacity = 1 + random->below(4);
  // Small results are copied, large ones are kept as they are.
  queue.size = random->below(8) == 0 ? 10'000 : 3;
  queue.gives_parts = random->below(2) == 0;
  return queue;
}

// Reads until the program has ended and nothing is left; each result once, in order.
void read_all(const Queue& queue, const std::atomic<bool>& over, check::Random random,
              std::vector<std::int64_t>* got) {
  std::shared_ptr<Outfeed> feed;
  int tries = 0;
  while (!find_outfeed(queue.number, &feed).ok()) {
    if (over && !find_outfeed(queue.number, &feed).ok()) return;
    check::relax(&tries);
  }
  for (;;) {
    const bool last = over;
    const std::uint64_t ends = feed->ends();
    dawdle(&random);
    switch (random.below(3)) {
      case 0: {
        ResultElement element;
        if (feed->next(&element, now_ns() + 1'000'000, ends) == FeedOutcome::kDone) {
          got->push_back(round_of(element.components[0], queue.replicas));
          continue;
        }
        break;
      }
      case 1:
        feed->wait(now_ns() + 1'000'000, ends);
        break;
      default:
        break;
    }
    queue.take_all(feed.get(), got);
    static_cast<void>(feed->stats());
    if (last) return;
  }
}

void check_rounds(const std::vector<std::int64_t>& got, std::int64_t count) {
  for (std::size_t i = 0; i < got.size(); ++i) {
    CHECK_EQ(got[i], static_cast<std::int64_t>(i));
  }
  CHECK_EQ(static_cast<std::int64_t>(got.size()), count);
}

// Runs body(program, replica, random) while a reader reads; the numbers of what it got.
template <class Body>
std::vector<std::int64_t> run(const Queue& queue, check::Random* random, Body body,
                              std::vector<absl::Status>* statuses) {
  std::vector<std::int64_t> got;
  std::atomic<bool> over{false};
  const check::Random readers = random_of(random->next());
  std::thread reader([&] { read_all(queue, over, readers, &got); });
  {
    Program program(nullptr, 0);
    const std::uint64_t seed = random->next();
    *statuses = run_replicas(&program, queue.replicas, [&](int r, Replicas*) {
      check::Random own = random_of(seed + static_cast<std::uint64_t>(r));
      return body(&program, r, &own);
    });
  }
  over = true;
  reader.join();
  return got;
}

}  // namespace

TEST(all_results_come_whole_once_and_in_order) {
  check::Random random = random_of(20);
  for (int life = 0; life < kLives; ++life) {
    const Queue queue = random_queue(&random);
    const auto count = static_cast<std::int64_t>(random.below(40));
    std::vector<absl::Status> statuses;
    const auto got = run(
        queue, &random,
        [&](Program* program, int r, check::Random* own) {
          for (std::int64_t n = 0; n < count; ++n) {
            dawdle(own);
            TF_RETURN_IF_ERROR(queue.give(program, r, n));
          }
          return absl::OkStatus();
        },
        &statuses);
    CHECK_EQ(first_error(statuses).ToString(), "OK");
    check_rounds(got, count);
  }
}

TEST(at_the_end_of_a_dataset_all_whole_rounds_are_there) {
  check::Random random = random_of(21);
  for (int life = 0; life < kLives; ++life) {
    const Queue queue = random_queue(&random);
    const auto count = static_cast<std::int64_t>(random.below(60));
    const auto slow = random.below(4);
    std::vector<absl::Status> statuses;
    const auto got = run(
        queue, &random,
        [&](Program* program, int r, check::Random* own) {
          for (std::int64_t n = 0; n < count; ++n) {
            dawdle(own);
            if (static_cast<std::uint64_t>(r) == slow) usleep(20);
            TF_RETURN_IF_ERROR(queue.give(program, r, n));
          }
          return absl::OutOfRangeError("the end of the dataset");
        },
        &statuses);
    for (const absl::Status& status : statuses) CHECK(absl::IsOutOfRange(status));
    check_rounds(got, count);
  }
}

TEST(a_replica_that_leaves_early_is_an_error_and_nothing_half_is_seen) {
  check::Random random = random_of(22);
  for (int life = 0; life < kLives; ++life) {
    Queue queue = random_queue(&random);
    queue.replicas = std::max(2, queue.replicas);
    const int odd = static_cast<int>(random.below(std::uint64_t(queue.replicas)));
    const auto least = static_cast<std::int64_t>(random.below(30));
    const auto more = least + 1 + static_cast<std::int64_t>(random.below(30));
    const auto way = random.below(3);
    std::vector<absl::Status> statuses;
    const auto got = run(
        queue, &random,
        [&](Program* program, int r, check::Random* own) {
          for (std::int64_t n = 0; n < (r == odd ? least : more); ++n) {
            dawdle(own);
            TF_RETURN_IF_ERROR(queue.give(program, r, n));
          }
          if (r != odd || way == 0) return absl::OkStatus();
          return way == 1 ? absl::DataLossError("failed")
                          : absl::CancelledError("cancelled");
        },
        &statuses);
    const absl::Status& first = statuses[static_cast<std::size_t>(odd)];
    if (way == 1) CHECK(absl::IsDataLoss(first));
    if (way == 2) CHECK(absl::IsCancelled(first));
    int failed = 0;
    for (const absl::Status& status : statuses) failed += !status.ok();
    CHECK(failed > 0);
    CHECK(static_cast<std::int64_t>(got.size()) <= least);
    check_rounds(got, static_cast<std::int64_t>(got.size()));
    if (way > 0) continue;
    for (const absl::Status& status : statuses) {
      if (!status.ok()) CHECK(absl::IsInternal(status));
    }
  }
}

TEST(the_next_program_begins_with_a_whole_round) {
  check::Random random = random_of(23);
  for (int life = 0; life < kLives / 2 + 1; ++life) {
    const Queue queue = random_queue(&random);
    std::vector<absl::Status> statuses;
    const auto cut = static_cast<std::int64_t>(random.below(20));
    auto got = run(
        queue, &random,
        [&](Program* program, int r, check::Random* own) {
          for (std::int64_t n = 0; n < 40; ++n) {
            dawdle(own);
            if (r == 0 && n == cut) return absl::CancelledError("enough");
            TF_RETURN_IF_ERROR(queue.give(program, r, n));
          }
          return absl::OkStatus();
        },
        &statuses);
    CHECK(absl::IsCancelled(first_error(statuses)));
    check_rounds(got, static_cast<std::int64_t>(got.size()));
    got = run(
        queue, &random,
        [&](Program* program, int r, check::Random*) {
          return queue.give(program, r, 0);
        },
        &statuses);
    CHECK_EQ(first_error(statuses).ToString(), "OK");
    check_rounds(got, 1);
  }
}

TEST(a_full_queue_holds_the_program_until_it_is_read_stopped_or_waited_for) {
  check::Random random = random_of(24);
  set_outfeed_limit_bytes(1000);
  for (int life = 0; life < kLives / 2 + 1; ++life) {
    const Queue queue = random_queue(&random);
    const auto way = random.below(3);
    const std::int64_t count = 200;
    CancellationManager manager;
    std::vector<absl::Status> statuses;
    std::vector<std::int64_t> got;
    std::atomic<int> ended{0};
    const bool at_end = random.below(2) == 0;  // of the dataset
    {
      auto program = std::make_unique<Program>(&manager, /*ordinal=*/3);
      std::thread runner([&] {
        statuses = run_replicas(program.get(), queue.replicas, [&](int r, Replicas*) {
          for (std::int64_t n = 0; n < count; ++n) {
            TF_RETURN_IF_ERROR(queue.give(program.get(), r, n));
            // The others are at it still.
            if (at_end && n + 1 == count) return absl::OutOfRangeError("the end");
          }
          return absl::OkStatus();
        });
        program.reset();
        ended = 1;
      });
      std::shared_ptr<Outfeed> feed;
      until([&] { return find_outfeed(queue.number, &feed).ok(); });
      // A program that only begins is not waited for.
      until([&] { return feed->stats().elements > 0; });
      const std::atomic<bool> stopped{false};
      if (way == 0) {
        while (ended == 0) {
          feed->wait(now_ns() + 10'000'000, feed->ends());
          queue.take_all(feed.get(), &got);
        }
      } else if (way == 1) {
        CHECK(feed->wait_for_all(0, now_ns() + 60 * kSecondNs, stopped));
      } else {
        manager.StartCancel();
      }
      runner.join();
      queue.take_all(feed.get(), &got);
    }
    check_rounds(got, way == 2 ? static_cast<std::int64_t>(got.size()) : count);
    for (const absl::Status& status : statuses) {
      if (way == 2) {
        CHECK(!status.ok());
      } else if (at_end) {
        CHECK(absl::IsOutOfRange(status));
      } else {
        CHECK_EQ(status.ToString(), "OK");
      }
    }
  }
  set_outfeed_limit_bytes(std::int64_t{4} << 30);
}

TEST(whole_rounds_at_the_end_of_a_dataset_do_not_wait_for_room) {
  set_outfeed_limit_bytes(1);
  for (int life = 0; life < kLives / 8 + 1; ++life) {
    Queue queue;
    queue.replicas = 2;
    std::atomic<bool> at_end{false};
    {
      Program program(nullptr, 0);
      const auto statuses = run_replicas(&program, 2, [&](int r, Replicas*) {
        if (r == 1) {
          // Its last part is given, and the other replica is not yet through.
          for (std::int64_t n = 0; n < 12; ++n) {
            TF_RETURN_IF_ERROR(queue.give(&program, r, n));
          }
          at_end = true;
          return absl::OutOfRangeError("the end");
        }
        until([&] { return at_end && program.stopped(); });
        for (std::int64_t n = 0; n < 12; ++n) {
          TF_RETURN_IF_ERROR(queue.give(&program, r, n));
        }
        return absl::OkStatus();
      });
      CHECK_EQ(statuses[0].ToString(), "OK");
      CHECK(absl::IsOutOfRange(statuses[1]));
    }
    std::shared_ptr<Outfeed> feed;
    CHECK(find_outfeed(queue.number, &feed).ok());
    std::vector<std::int64_t> got;
    queue.take_all(feed.get(), &got);
    check_rounds(got, 12);
  }
  set_outfeed_limit_bytes(std::int64_t{4} << 30);
}

TEST(a_wait_for_results_returns_when_the_queue_goes) {
  check::Random random = random_of(25);
  for (int life = 0; life < kLives / 2 + 1; ++life) {
    Queue queue;
    queue.replicas = 1 + static_cast<int>(random.below(2));
    {
      Program program(nullptr, 0);
      run_replicas(&program, queue.replicas,
                   [&](int r, Replicas*) { return queue.give(&program, r, 0); });
      CHECK_EQ(remove_outfeed(queue.number).code(),
               absl::StatusCode::kFailedPrecondition);
    }
    std::shared_ptr<Outfeed> feed;
    CHECK(find_outfeed(queue.number, &feed).ok());
    const std::uint64_t ends = feed->ends();
    std::vector<std::thread> readers;
    std::atomic<int> results{0};
    for (int i = 0; i < 3; ++i) {
      readers.emplace_back([&, i] {
        check::Random own = random_of(std::uint64_t(life * 4 + i));
        ResultElement element;
        for (;;) {
          dawdle(&own);
          const FeedOutcome outcome = feed->next(&element, kNoDeadline, ends);
          if (outcome == FeedOutcome::kDone) {
            results.fetch_add(1);
            continue;
          }
          CHECK(outcome == FeedOutcome::kCancelled || outcome == FeedOutcome::kStopped);
          return;
        }
      });
    }
    check::Random own = random_of(std::uint64_t(life));
    dawdle(&own);
    CHECK(remove_outfeed(queue.number).ok());
    for (auto& reader : readers) reader.join();
    CHECK(results <= 1);
  }
}

TEST(the_last_result_is_that_of_the_program_that_has_ended) {
  check::Random random = random_of(26);
  for (int life = 0; life < kLives / 2 + 1; ++life) {
    Queue queue = random_queue(&random);
    queue.mode = OutfeedMode::kLast;
    const auto count = 1 + static_cast<std::int64_t>(random.below(20));
    std::atomic<bool> stopped{false};
    auto program = std::make_unique<Program>(nullptr, 0);
    std::atomic<bool> begun{false};
    std::thread runner([&] {
      const auto statuses =
          run_replicas(program.get(), queue.replicas, [&](int r, Replicas*) {
            for (std::int64_t n = 0; n < count; ++n) {
              TF_RETURN_IF_ERROR(queue.give(program.get(), r, n));
              begun = true;
            }
            return absl::OkStatus();
          });
      CHECK_EQ(first_error(statuses).ToString(), "OK");
      program.reset();
    });
    until([&] { return begun.load(); });
    std::shared_ptr<Outfeed> feed;
    CHECK(find_outfeed(queue.number, &feed).ok());
    std::vector<Tensor> last;
    const auto take = [&](std::int64_t deadline_ns) {
      return feed->last(0, deadline_ns, stopped, accept_any, &last);
    };
    if (random.below(4) == 0) {
      // Cancelled before the wait or in it.
      std::thread canceller([&] {
        stopped = true;
        feed->wake_last();
      });
      const absl::Status status = take(kNoDeadline);
      CHECK(absl::IsCancelled(status) || status.ok());
      canceller.join();
      if (status.ok()) {
        runner.join();
        continue;
      }
    }
    stopped = false;
    while (random.below(2) == 0) {
      const absl::Status status = take(now_ns() + 1000);
      CHECK(absl::IsDeadlineExceeded(status) || status.ok());
      if (status.ok()) break;
    }
    if (last.empty()) CHECK_EQ(take(kNoDeadline).ToString(), "OK");
    CHECK_EQ(round_of(last[0], queue.replicas), count - 1);
    CHECK(absl::IsFailedPrecondition(take(kNoDeadline)));
    runner.join();
  }
}

TEST(other_tensors_than_before_or_than_the_others_are_an_error) {
  Queue queue;
  queue.replicas = 2;
  Queue other = queue;
  other.size = 4;
  const auto different = [&](bool all) {
    Program program(nullptr, 0);
    return first_error(run_replicas(&program, 2, [&](int r, Replicas*) {
      return (all || r == 1 ? other : queue).give(&program, r, 0);
    }));
  };
  CHECK(absl::IsInternal(different(false)));
  {
    Program program(nullptr, 0);
    CHECK(first_error(run_replicas(&program, 2, [&](int r, Replicas*) {
            return queue.give(&program, r, 0);
          })).ok());
  }
  CHECK(absl::IsFailedPrecondition(different(true)));
}

TEST(small_results_are_stored_without_an_allocation_for_each) {
  constexpr long kMany = 1'000'000;
  constexpr long kResults = 4'000;
  Queue queue;
  Program program(nullptr, 0);
  const auto statuses = run_replicas(&program, 1, [&](int, Replicas*) {
    const std::int64_t value = 1;
    const std::vector<ResultPart> parts{
        {tensorflow::DT_INT64, TensorShape({1}), &value}};
    for (long n = 0; n < 100 + kResults; ++n) {
      if (n == 100) until_failure = kMany;
      const Armed armed(n >= 100);
      Outfeed* feed = nullptr;
      TF_RETURN_IF_ERROR(queue.find(&program, &feed));
      TF_RETURN_IF_ERROR(feed->enqueue(program, parts));
    }
    return absl::OkStatus();
  });
  CHECK_EQ(first_error(statuses).ToString(), "OK");
  // Blocks grow; their list, too.
  const long allocations = kMany - until_failure.load();
  CHECK(allocations < kResults / 50);
  until_failure = -1;
}

TEST(a_failed_allocation_is_an_error_and_the_queue_stays_usable) {
  for (const int replicas : {1, 2}) {
    for (const std::size_t capacity : {1, 8}) {
      with_each_allocation_failing([&](long) {
        Queue queue;
        queue.replicas = replicas;
        queue.capacity = capacity;
        bool well = true;
        {
          Program program(nullptr, 0);
          const auto statuses = run_replicas(
              &program, replicas,
              [&](int r, Replicas*) {
                for (std::int64_t n = 0; n < 4; ++n) {
                  TF_RETURN_IF_ERROR(queue.give(&program, r, n));
                }
                return absl::OkStatus();
              },
              /*armed=*/true);
          for (const absl::Status& status : statuses) well = well && status.ok();
          for (const absl::Status& status : statuses) {
            if (!status.ok()) CHECK(absl::IsResourceExhausted(status));
          }
        }
        std::shared_ptr<Outfeed> feed;
        std::vector<std::int64_t> got;
        if (find_outfeed(queue.number, &feed).ok()) queue.take_all(feed.get(), &got);
        if (well) check_rounds(got, 4);
        Program program(nullptr, 0);
        const auto statuses = run_replicas(&program, replicas, [&](int r, Replicas*) {
          return queue.give(&program, r, 0);
        });
        CHECK_EQ(first_error(statuses).ToString(), "OK");
        CHECK(find_outfeed(queue.number, &feed).ok());
        got.clear();
        queue.take_all(feed.get(), &got);
        check_rounds(got, 1);
        return well;
      });
    }
  }
}
