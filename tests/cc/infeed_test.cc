// What an infeed promises, with its feeder, to programs of 1 to 4 replicas: each
// element once and in order, all of them up to the end of the dataset, and an end to
// every wait.
#include "check.h"
#include "standin/harness.h"

namespace {

using namespace ipufeed;
using namespace standin;

constexpr int kLives = check::scaled(400);

// Dequeues until it fails or has `most`; what came goes behind *got.
absl::Status read(Program* program, std::int64_t number, int replica, std::int64_t most,
                  std::vector<std::int64_t>* got, check::Random* random) {
  Infeed* feed = nullptr;
  TF_RETURN_IF_ERROR(lease_infeed(*program, number, &feed));
  std::vector<Tensor> components;
  for (std::int64_t n = 0; n < most; ++n) {
    dawdle(random);
    TF_RETURN_IF_ERROR(feed->dequeue(*program, replica, &components));
    got->push_back(value_of(components[0]));
  }
  return absl::OkStatus();
}

constexpr std::int64_t kAll = 1 << 30;

// What each replica of one program has got.
struct Seen {
  std::vector<std::vector<std::int64_t>> got;
  std::vector<absl::Status> statuses;
};

// wanted: of each replica.
Seen run(Program* program, std::int64_t number, int replicas,
         const std::vector<std::int64_t>& wanted, std::uint64_t seed) {
  Seen seen;
  seen.got.resize(static_cast<std::size_t>(replicas));
  seen.statuses = run_replicas(program, replicas, [&](int r, Replicas*) {
    const auto own = static_cast<std::size_t>(r);
    check::Random random = random_of(seed * 8 + own);
    return read(program, number, r, wanted[own], &seen.got[own], &random);
  });
  return seen;
}

Seen run_all(Program* program, std::int64_t number, int replicas, std::uint64_t seed) {
  return run(program, number, replicas, std::vector<std::int64_t>(4, kAll), seed);
}

// How many of a dataset's `count` elements a replica gets.
std::int64_t share(std::int64_t count, int replicas, int replica) {
  return (count - replica + replicas - 1) / replicas;
}

}  // namespace

TEST(each_replica_gets_all_of_its_elements_up_to_the_end) {
  check::Random random = random_of(10);
  for (int life = 0; life < kLives; ++life) {
    const int replicas = 1 << random.below(3);
    const auto count = static_cast<std::int64_t>(random.below(40));
    Source source({count}, std::size_t(replicas) << random.below(2),
                  1 + random.below(4));
    Program program(nullptr, 0);
    const Seen seen = run_all(&program, source.number(), replicas, random.next());
    for (int r = 0; r < replicas; ++r) {
      const auto own = static_cast<std::size_t>(r);
      CHECK_EQ(seen.statuses[own].code(), absl::StatusCode::kOutOfRange);
      // The first to find the end stops the others, which still get what is theirs.
      CHECK_EQ(static_cast<std::int64_t>(seen.got[own].size()),
               share(count, replicas, r));
      std::int64_t expected = r;
      for (const std::int64_t each : seen.got[own]) {
        CHECK_EQ(each, expected);
        expected += replicas;
      }
    }
  }
}

// The first ring ends, its replica stops the other one, and the second ring ends only
// after that: the other replica still gets what its ring holds.
TEST(a_ring_that_ends_after_the_stop_loses_nothing) {
  constexpr int kReplicas = 2;
  std::atomic<bool> has_read{false};
  check::after_a_ring = [&] { until([&] { return has_read.load(); }); };
  {
    Source source({6}, kReplicas, 4);
    Program program(nullptr, 0);
    std::vector<std::int64_t> got[kReplicas];
    const auto statuses = run_replicas(&program, kReplicas, [&](int r, Replicas*) {
      if (r == 1) until([&] { return program.stopped(); });
      check::Random random = random_of(16);
      const absl::Status status =
          read(&program, source.number(), r, kAll, &got[r], &random);
      if (r == 1) has_read = true;
      return status;
    });
    for (int r = 0; r < kReplicas; ++r) {
      CHECK_EQ(statuses[static_cast<std::size_t>(r)].code(),
               absl::StatusCode::kOutOfRange);
      CHECK_EQ(got[r].size(), std::size_t{3});
      for (std::int64_t n = 0; n < 3; ++n) {
        CHECK_EQ(got[r][static_cast<std::size_t>(n)], n * kReplicas + r);
      }
    }
  }
  check::after_a_ring = nullptr;
}

TEST(programs_that_are_stopped_lose_no_whole_round_and_double_nothing) {
  check::Random random = random_of(11);
  for (int life = 0; life < kLives / 4 + 1; ++life) {
    const int replicas = 1 << random.below(3);
    Source source({std::int64_t{1} << 40}, std::size_t(replicas), 1 + random.below(4));
    std::int64_t begins = 0;  // the round that the next program begins with
    for (int runs = 0; runs < 5; ++runs) {
      CancellationManager manager;
      Program program(&manager, 0);
      const auto way = random.below(3);
      const std::uint64_t seed = random.next();
      const auto when_us = static_cast<useconds_t>(random.below(500));
      std::thread stopper([&] {
        usleep(when_us);
        if (way == 0) manager.StartCancel();
        if (way == 1) program.stop(absl::AbortedError("stopped by the test"));
        // A program that has no feed yet is seen by its number of stops.
        if (way == 2) stop_all_programs(absl::CancelledError("all"));
      });
      const Seen seen = run_all(&program, source.number(), replicas, seed);
      stopper.join();
      std::int64_t ends = begins;
      for (int r = 0; r < replicas; ++r) {
        const auto own = static_cast<std::size_t>(r);
        CHECK(!seen.statuses[own].ok());
        CHECK(!absl::IsFailedPrecondition(seen.statuses[own]));
        std::int64_t expected = begins * replicas + r;
        for (const std::int64_t each : seen.got[own]) {
          CHECK_EQ(each, expected);
          expected += replicas;
        }
        ends = std::max(ends, expected / replicas);
      }
      begins = ends;
    }
  }
}

TEST(a_dataset_that_fails_gives_what_came_before_and_its_error) {
  check::Random random = random_of(12);
  for (int life = 0; life < kLives / 4 + 1; ++life) {
    const int replicas = 1 << random.below(3);
    Numbers numbers{std::int64_t{1} << 40};
    const auto count = static_cast<std::int64_t>(random.below(20));
    const bool throws = random.below(2) == 0;
    (throws ? numbers.throws_at : numbers.fails_at) = count;
    Source source(numbers, std::size_t(replicas), 1 + random.below(4));
    Program program(nullptr, 0);
    const Seen seen = run_all(&program, source.number(), replicas, random.next());
    for (int r = 0; r < replicas; ++r) {
      const auto own = static_cast<std::size_t>(r);
      CHECK_EQ(seen.statuses[own].code(), throws ? absl::StatusCode::kResourceExhausted
                                                 : absl::StatusCode::kDataLoss);
      CHECK(static_cast<std::int64_t>(seen.got[own].size()) <=
            share(count, replicas, r));
    }
    const std::string what = first_error(seen.statuses).ToString();
    CHECK(what.find("element " + std::to_string(count) + " ") != std::string::npos);
  }
}

TEST(an_element_of_another_shape_is_an_error) {
  Numbers numbers{10};
  numbers.odd_shape_at = 4;
  Source source(numbers, 1, 2);
  Program program(nullptr, 0);
  const Seen seen = run_all(&program, source.number(), 1, 1);
  CHECK_EQ(seen.got[0].size(), std::size_t{4});
  CHECK_EQ(seen.statuses[0].code(), absl::StatusCode::kInvalidArgument);
}

TEST(a_wait_behind_a_replica_that_has_left_is_an_error) {
  check::Random random = random_of(13);
  for (int life = 0; life < kLives / 4 + 1; ++life) {
    const int replicas = 2 << random.below(2);
    Source source({std::int64_t{1} << 40}, std::size_t(replicas) << random.below(2),
                  1 + random.below(4));
    Program program(nullptr, 0);
    const auto odd =
        static_cast<std::size_t>(random.below(static_cast<std::uint64_t>(replicas)));
    std::vector<std::int64_t> wanted(4, kAll);
    wanted[odd] = static_cast<std::int64_t>(random.below(5));
    const Seen seen = run(&program, source.number(), replicas, wanted, random.next());
    std::int64_t most = 0;
    for (std::size_t r = 0; r < seen.got.size(); ++r) {
      if (r == odd) {
        CHECK_EQ(seen.statuses[r].ToString(), "OK");
        CHECK_EQ(static_cast<std::int64_t>(seen.got[r].size()), wanted[r]);
      } else {
        // The first that gets the error stops the others.
        CHECK_EQ(seen.statuses[r].code(), absl::StatusCode::kInternal);
        most = std::max(most, static_cast<std::int64_t>(seen.got[r].size()));
      }
    }
    CHECK(most >= wanted[odd]);
  }
}

TEST(a_program_whose_device_goes_or_whose_dataset_hangs_ends) {
  check::Random random = random_of(14);
  for (int life = 0; life < kLives; ++life) {
    const int replicas = 1 << random.below(3);
    Numbers numbers{std::int64_t{1} << 40};
    if (random.below(2) == 0) {
      numbers.blocks_at = static_cast<std::int64_t>(random.below(20));
    }
    auto source = std::make_unique<Source>(
        numbers, std::size_t(replicas) << random.below(2), 1 + random.below(2));
    const auto when_us = static_cast<useconds_t>(random.below(500));
    {
      Program program(nullptr, 0);
      std::thread closer([&] {
        usleep(when_us);
        source->close_device();
      });
      const Seen seen = run_all(&program, source->number(), replicas, random.next());
      closer.join();
      for (const absl::Status& status : seen.statuses) {
        CHECK_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
      }
    }
    source.reset();
  }
}

TEST(a_queue_is_one_programs_or_deleted) {
  check::Random random = random_of(15);
  for (int life = 0; life < kLives; ++life) {
    Source source({std::int64_t{1} << 40}, 1, 2);
    std::atomic<int> had{0};
    const auto use = [&](std::uint64_t seed) {
      check::Random own = random_of(seed);
      Program program(nullptr, 0);
      std::vector<std::int64_t> got;
      const ProgramScope scope(&program);
      dawdle(&own);
      const absl::Status status = read(&program, source.number(), 0, 3, &got, &own);
      if (status.ok()) {
        had.fetch_add(1);
        CHECK_EQ(got.size(), std::size_t{3});
      } else {
        CHECK_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
        CHECK(got.empty());
      }
    };
    const std::uint64_t seed = random.next();
    absl::Status removed;
    std::thread first([&] { use(seed); });
    std::thread second([&] { use(seed + 1); });
    std::thread third([&] {
      check::Random own = random_of(seed + 2);
      dawdle(&own);
      removed = source.remove();
    });
    first.join();
    second.join();
    third.join();
    CHECK(had > 0 || removed.ok());
    if (!removed.ok()) CHECK_EQ(removed.code(), absl::StatusCode::kFailedPrecondition);
  }
}

TEST(elements_are_taken_without_an_allocation) {
  Source source({4000}, 1, 2);
  Program program(nullptr, 0);
  const auto statuses = run_replicas(&program, 1, [&](int, Replicas*) {
    std::vector<Tensor> components;
    for (int n = 0; n < 4000; ++n) {
      const Armed armed(n >= 100);
      if (n == 100) until_failure = 0;
      Infeed* feed = nullptr;
      TF_RETURN_IF_ERROR(lease_infeed(program, source.number(), &feed));
      TF_RETURN_IF_ERROR(feed->dequeue(program, 0, &components));
    }
    return absl::OkStatus();
  });
  CHECK_EQ(first_error(statuses).ToString(), "OK");
  CHECK_EQ(until_failure.load(), 0);  // the first allocation would have failed
  until_failure = -1;
}

TEST(a_failed_allocation_is_an_error_and_the_queue_stays_usable) {
  for (const int replicas : {1, 2}) {
    with_each_allocation_failing([&](long) {
      const Armed off(false);
      Source source({8}, std::size_t(replicas), 2);
      bool well = true;
      {
        Program program(nullptr, 0);
        const auto statuses = run_replicas(
            &program, replicas,
            [&](int r, Replicas*) {
              Infeed* feed = nullptr;
              TF_RETURN_IF_ERROR(lease_infeed(program, source.number(), &feed));
              std::vector<Tensor> components;
              return feed->dequeue(program, r, &components);
            },
            /*armed=*/true);
        for (const absl::Status& status : statuses) well = well && status.ok();
        const absl::Status first = first_error(statuses);
        if (!first.ok()) CHECK_EQ(first.code(), absl::StatusCode::kResourceExhausted);
      }
      // Another program gets it, and elements of whole rounds.
      until_failure = until_failure < 0 ? -1 : 1'000'000;
      Program program(nullptr, 0);
      const Seen seen = run_all(&program, source.number(), replicas, 1);
      for (const absl::Status& status : seen.statuses) {
        CHECK_EQ(status.code(), absl::StatusCode::kOutOfRange);
      }
      return well;
    });
  }
}

TEST(a_refusal_without_memory_for_its_text_leaves_the_queue_free) {
  Source source({8}, 4, 2);
  with_each_allocation_failing([&](long) {
    // Three replicas do not divide four rings.
    const auto refused = [&] {
      Program program(nullptr, 0);
      return first_error(run_replicas(
          &program, 3,
          [&](int, Replicas*) {
            Infeed* feed = nullptr;
            return lease_infeed(program, source.number(), &feed);
          },
          /*armed=*/true));
    };
    const absl::Status status = refused();
    CHECK(!status.ok());
    std::shared_ptr<Infeed> feed;
    CHECK(find_infeed(source.number(), &feed).ok());
    CHECK(!feed->taken());
    return absl::IsFailedPrecondition(status);
  });
}

TEST(a_failed_allocation_of_the_dataset_is_an_error) {
  with_each_allocation_failing([&](long) {
    Numbers numbers{4};
    numbers.armed = true;
    Source source(numbers, 1, 2);
    Program program(nullptr, 0);
    const Seen seen = run_all(&program, source.number(), 1, 1);
    const bool well = absl::IsOutOfRange(seen.statuses[0]);
    if (!well) CHECK(absl::IsResourceExhausted(seen.statuses[0]));
    return well;
  });
}

TEST(constant_data_never_ends_and_can_be_stopped) {
  const std::int64_t number = new_number();
  Signature signature{{tensorflow::DT_INT64}, {TensorShape({3})}};
  const auto infeed =
      std::make_shared<Infeed>(number, "constants", signature, nullptr, 2);
  CHECK(infeed->make_constants().ok());
  CHECK(add_infeed(infeed).ok());
  {
    Program program(nullptr, 0);
    std::thread stopper([&] {
      usleep(2000);
      program.stop(absl::CancelledError("enough"));
    });
    const Seen seen = run_all(&program, number, 2, 1);
    stopper.join();
    for (const absl::Status& status : seen.statuses) CHECK(absl::IsCancelled(status));
  }
  std::shared_ptr<Infeed> removed;
  CHECK(remove_infeed(number, &removed).ok());
}
