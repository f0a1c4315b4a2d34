// What a program promises: whenever it is cancelled or stopped, every wait of it ends;
// its queues are free once it has ended; and all that its replicas have done together,
// from the infeed over a collective to the outfeed, is there.
#include "check.h"
#include "run/collective_runs.h"
#include "run/detached_work.h"
#include "run/stall.h"
#include "standin/harness.h"

namespace {

using namespace ipufeed;
using namespace standin;

constexpr int kLives = check::scaled(400);

// One round of a training loop: takes an element, sums it over the replicas and
// enqueues the sum, as each replica's part. `sums` is of the caller; so is `got`, the
// elements.
absl::Status step(Program* program, Replicas* others, int replica, std::int64_t infeed,
                  std::int64_t outfeed) {
  Infeed* source = nullptr;
  Outfeed* sink = nullptr;
  TF_RETURN_IF_ERROR(lease_infeed(*program, infeed, &source));
  TF_RETURN_IF_ERROR(lease_outfeed(*program, outfeed, OutfeedMode::kAll, 2, &sink));
  std::vector<Tensor> components;
  TF_RETURN_IF_ERROR(source->dequeue(*program, replica, &components));
  Tensor sum = filled(value_of(components[0]));
  if (others == nullptr) {
    ResultElement element;
    element.components.push_back(std::move(sum));
    return sink->enqueue(*program, std::move(element));
  }
  CollectiveRequest request;
  request.tensors.push_back(
      {tensorflow::DT_INT64, 3, components[0].data(), 3, sum.data()});
  std::int64_t arrived_ns = 0;
  TF_RETURN_IF_ERROR(others->run_collective(*program, replica, request, &arrived_ns));
  program->step_clock().take(arrived_ns);
  return sink->enqueue_part(*program, replica,
                            {{sum.dtype(), sum.shape(), sum.data()}});
}

// The sum of the elements of a round.
std::int64_t sum_of(std::int64_t round, int replicas) {
  std::int64_t sum = 0;
  for (int r = 0; r < replicas; ++r) sum += round * replicas + r;
  return sum;
}

// Checks that these are the rounds from `first` on, each on all replicas, and returns
// how many there are.
std::int64_t check_results(std::int64_t outfeed, int replicas, std::int64_t first) {
  std::shared_ptr<Outfeed> feed;
  if (!find_outfeed(outfeed, &feed).ok()) return 0;
  std::vector<Tensor> all;
  const absl::Status status = feed->take_all(
      [&](const ResultSignature& taken) {
        CHECK_EQ(taken.replicas, replicas);
        return absl::OkStatus();
      },
      &all);
  CHECK_EQ(status.ToString(), "OK");
  if (all.empty()) return 0;
  const auto values = all[0].flat<std::int64_t>();
  for (std::int64_t i = 0; i < values.size(); ++i) {
    CHECK_EQ(values(i), sum_of(first + i / (3 * replicas), replicas));
  }
  return all[0].dim_size(0);
}

void remove(std::int64_t outfeed) {
  const absl::Status status = remove_outfeed(outfeed);
  CHECK_EQ(status.ToString(), "OK");
}

}  // namespace

TEST(the_end_of_the_dataset_loses_no_whole_round) {
  check::Random random = random_of(50);
  for (int life = 0; life < kLives; ++life) {
    const int replicas = 1 << random.below(3);
    const auto count = static_cast<std::int64_t>(random.below(40));
    Source source({count}, std::size_t(replicas) << random.below(2),
                  1 + random.below(4));
    const std::int64_t outfeed = new_number();
    {
      Program program(nullptr, 0);
      const auto statuses =
          run_replicas(&program, replicas, [&](int r, Replicas* others) {
            for (;;) {
              TF_RETURN_IF_ERROR(step(&program, others, r, source.number(), outfeed));
            }
          });
      for (const absl::Status& status : statuses) {
        CHECK_EQ(status.code(), absl::StatusCode::kOutOfRange);
      }
    }
    CHECK_EQ(check_results(outfeed, replicas, 0), count / replicas);
    remove(outfeed);
  }
}

TEST(a_cancellation_at_any_time_ends_the_program) {
  check::Random random = random_of(51);
  for (int life = 0; life < kLives; ++life) {
    const int replicas = 1 << random.below(3);
    Numbers numbers{std::int64_t{1} << 40};
    // Nothing but a wake-up ends the wait for what never comes.
    if (random.below(2) == 0) {
      numbers.blocks_at = static_cast<std::int64_t>(random.below(4));
    }
    Source source(numbers, std::size_t(replicas), 2);
    const std::int64_t outfeed = new_number();
    auto manager = std::make_unique<CancellationManager>();
    const auto when_us = static_cast<useconds_t>(random.below(200));
    const bool before = random.below(8) == 0;
    if (before) manager->StartCancel();
    std::thread canceller([&] {
      usleep(when_us);
      manager->StartCancel();
    });
    {
      Program program(manager.get(), 0);
      const auto statuses =
          run_replicas(&program, replicas, [&](int r, Replicas* others) {
            for (;;) {
              TF_RETURN_IF_ERROR(step(&program, others, r, source.number(), outfeed));
            }
          });
      for (const absl::Status& status : statuses) CHECK(absl::IsCancelled(status));
      CHECK(program.stopped() && program.aborted());
    }
    // Whatever is under way must not call the program that has gone.
    canceller.join();
    manager.reset();
    check_results(outfeed, replicas, 0);
    remove(outfeed);
  }
}

TEST(a_program_that_ends_while_it_is_cancelled_is_not_called_afterwards) {
  check::Random random = random_of(52);
  for (int life = 0; life < 4 * kLives; ++life) {
    CancellationManager manager;
    check::Random other = random_of(random.next());
    std::thread canceller([&] {
      dawdle(&other);
      if (life % 2 == 0) {
        manager.StartCancel();
      } else {
        stop_all_programs(absl::CancelledError("all"));
      }
    });
    auto program = std::make_unique<Program>(&manager, 0);
    {
      const ProgramScope scope(program.get());
      StepTimes times;
      dawdle(&random);
      program->compute(0, &times);
      dawdle(&random);
    }
    program->end(program->stop_status());
    program.reset();
    canceller.join();
  }
}

TEST(a_step_takes_its_time_or_is_stopped) {
  for (int life = 0; life < kLives / 8 + 1; ++life) {
    Program program(nullptr, 0);
    std::thread stopper([&] {
      usleep(2000);
      stop_all_programs(absl::CancelledError("enough"));
    });
    // Each IPU has a clock of its own.
    const auto statuses = run_replicas(&program, 3, [&](int r, Replicas*) {
      StepTimes times;
      std::int64_t end_ns = 0;
      while (program.compute((r + 1) * 10'000, &times)) {
        CHECK(times.start_ns <= times.called_ns);
        CHECK(end_ns == 0 || times.end_ns >= end_ns + (r + 1) * 10'000);
        end_ns = times.end_ns;
        program.step_clock().take(now_ns());
      }
      CHECK(!program.compute(3600 * kSecondNs, &times));
      return program.stop_status();
    });
    stopper.join();
    for (const absl::Status& status : statuses) CHECK(absl::IsCancelled(status));
  }
}

TEST(a_program_that_begins_after_the_stop_of_the_same_call_is_stopped) {
  StepTimes times;
  main_thread_calls(true);
  stop_all_programs(absl::CancelledError("all"));
  {
    Program program(nullptr, 0);
    CHECK(!program.compute(0, &times));
    CHECK(absl::IsCancelled(program.stop_status()));
  }
  main_thread_calls(false);
  Program program(nullptr, 0);
  CHECK(program.compute(0, &times));
}

TEST(a_program_that_begins_after_a_signal_survives_its_late_stop) {
  StepTimes times;
  main_thread_calls(true);
  Program interrupted(nullptr, 0);
  CHECK(interrupted.compute(0, &times));
  const std::int64_t signal_ns = now_ns();
  main_thread_calls(false);
  while (now_ns() <= signal_ns) {
  }
  main_thread_calls(true);
  Program next(nullptr, 0);
  CHECK(next.compute(0, &times));
  CHECK(stop_all_programs(absl::CancelledError("late"), signal_ns) == 1);
  Program after(nullptr, 0);
  main_thread_calls(false);
  CHECK(!interrupted.compute(0, &times));
  CHECK(absl::IsCancelled(interrupted.stop_status()));
  CHECK(next.compute(0, &times));
  CHECK(after.compute(0, &times));
}

TEST(an_idle_device_has_no_queue_in_use) {
  check::Random random = random_of(53);
  for (int life = 0; life < kLives; ++life) {
    Source source({std::int64_t{1} << 40}, 1, 2);
    const std::int64_t outfeed = new_number();
    std::atomic<bool> begun{false};
    const auto own = random.next();
    std::thread runner([&] {
      check::Random delays = random_of(own);
      Program program(nullptr, /*ordinal=*/2);
      const auto statuses = run_replicas(&program, 1, [&](int r, Replicas*) {
        for (int n = 0; n < 3; ++n) {
          TF_RETURN_IF_ERROR(step(&program, nullptr, r, source.number(), outfeed));
          begun = true;
          dawdle(&delays);
        }
        return absl::OkStatus();
      });
      program.end(first_error(statuses));
    });
    until([&] { return begun.load(); });
    const std::atomic<bool> stopped{true};
    // It says so at once, or that the program has ended already.
    wait_until_idle(2, 0, now_ns() + 60 * kSecondNs, stopped);
    const std::atomic<bool> not_stopped{false};
    CHECK(wait_until_idle(2, 0, now_ns() + 60 * kSecondNs, not_stopped));
    CHECK_EQ(source.remove().ToString(), "OK");
    CHECK_EQ(check_results(outfeed, 1, 0), 3);
    remove(outfeed);
    runner.join();
  }
}

TEST(idle_waiters_do_not_wait_for_a_program_that_serves) {
  for (int life = 0; life < kLives; ++life) {
    Program program(nullptr, /*ordinal=*/5);
    program.watch();
    const std::atomic<bool> never{false};
    CHECK(!wait_until_idle(5, 0, now_ns(), never));
    std::thread waiter(
        [&] { CHECK(wait_until_idle(5, 0, now_ns() + 60 * kSecondNs, never)); });
    program.serve();
    waiter.join();
    CHECK(wait_until_idle(5, 0, now_ns(), never));
    Program other(nullptr, 5);
    other.watch();
    CHECK(!wait_until_idle(5, 0, now_ns(), never));
    program.stop(absl::CancelledError("ends"));
    CHECK(program.stopped());
  }
}

TEST(a_program_that_fails_before_its_first_result_is_heard_of) {
  Source source({0}, 1, 2);
  const std::int64_t outfeed = new_number();
  {
    Program program(nullptr, /*ordinal=*/4);
    const ProgramScope scope(&program);
    Outfeed* sink = nullptr;
    CHECK(lease_outfeed(program, outfeed, OutfeedMode::kAll, 2, &sink).ok());
  }
  std::shared_ptr<Outfeed> feed;
  CHECK(find_outfeed(outfeed, &feed).ok());
  for (int life = 0; life < kLives; ++life) {
    const std::uint64_t seen = feed->ends();
    std::thread waiter([&] { CHECK(feed->wait(now_ns() + 60 * kSecondNs, seen)); });
    Program program(nullptr, 4);
    const auto statuses = run_replicas(&program, 1, [&](int, Replicas*) {
      Infeed* infeed = nullptr;
      TF_RETURN_IF_ERROR(lease_infeed(program, source.number(), &infeed));
      std::vector<Tensor> components;
      return infeed->dequeue(program, 0, &components);
    });
    CHECK(absl::IsOutOfRange(statuses[0]));
    program.end(statuses[0]);
    waiter.join();
  }
  feed.reset();
  remove(outfeed);
}

TEST(reports_of_stalls_hold_nothing_up) {
  set_stall_report_ns(200'000);
  set_outfeed_limit_bytes(1);
  for (int life = 0; life < kLives / 16 + 1; ++life) {
    constexpr int kReplicas = 2;
    Source source({std::int64_t{1} << 40}, kReplicas, 2);
    const std::int64_t outfeed = new_number();
    Program program(nullptr, 0);
    std::thread stopper([&] {
      usleep(3000);
      program.stop(absl::CancelledError("enough"));
    });
    const auto statuses =
        run_replicas(&program, kReplicas, [&](int r, Replicas* others) {
          for (std::int64_t n = 0;; ++n) {
            if (r == 0 && n == 3) usleep(1500);  // the other waits for it
            TF_RETURN_IF_ERROR(step(&program, others, r, source.number(), outfeed));
          }
        });
    stopper.join();
    for (const absl::Status& status : statuses) CHECK(absl::IsCancelled(status));
    program.end(absl::OkStatus());
    remove(outfeed);
  }
  set_outfeed_limit_bytes(std::int64_t{4} << 30);
  set_stall_report_ns(30 * kSecondNs);
}

TEST(collective_runs_are_numbered_and_their_failures_kept) {
  const std::int64_t begun = collective_runs(5).begun;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      Program program(nullptr, 5);
      CHECK(program.collective_run() > begun);
      CHECK_EQ(program.collective_run(), program.collective_run());
      program.end(i == 0 ? absl::DataLossError("failed") : absl::OkStatus());
    });
  }
  for (auto& thread : threads) thread.join();
  const CollectiveRuns runs = collective_runs(5);
  CHECK_EQ(runs.begun, begun + 4);
  CHECK(absl::IsDataLoss(runs.failed[0].why));
}

TEST(one_program_at_a_time_is_in_a_collective_of_a_stream) {
  std::int64_t number = 0;
  const auto begin = [&number](std::int64_t run, std::int64_t stream) {
    return begin_collective_wait(6, stream, run, "a sum", &number);
  };
  CHECK(begin(1, 7).ok());
  CHECK_EQ(number, 1);
  CHECK(absl::IsFailedPrecondition(begin(2, 7)));
  CHECK(begin(2, 8).ok());
  end_collective_wait(6, 7);
  CHECK(begin(1, 7).ok());
  CHECK_EQ(number, 2);
  end_collective_wait(6, 7);
  CHECK(begin(2, 7).ok());
  CHECK_EQ(number, 1);
}

TEST(a_program_runs_from_its_announcement_to_its_end) {
  Program other(nullptr, 0);
  other.announce();
  auto program = std::make_unique<Program>(nullptr, 0);
  const std::int64_t number = program->number();
  CHECK(!program_runs(number));
  program->announce();
  program->announce();
  CHECK(program_runs(number));
  program->end(absl::OkStatus());
  CHECK(!program_runs(number));
  program->announce();
  program.reset();
  CHECK(!program_runs(number));
  CHECK(program_runs(other.number()));
}

TEST(what_could_not_be_added_is_not_called) {
  struct Waiter final : Wakeable {
    void wake() override { woken = true; }
    bool woken = false;
  };
  with_each_allocation_failing([&](long) {
    CancellationManager manager;
    Program program(&manager, 0);
    Waiter waiter;
    const absl::Status added = guarded([&] {
      const Armed armed;
      program.add(&waiter);
      return absl::OkStatus();
    });
    program.stop(absl::CancelledError("enough"));
    CHECK_EQ(waiter.woken, added.ok());
    if (added.ok()) program.remove(&waiter);
    return added.ok();
  });
}

void wait_for_detached_work() {
  for (int tries = 0; detached_work() > 0;) check::relax(&tries);
}

TEST(a_stop_does_not_wait_for_detached_work) {
  const auto goes_on = std::make_shared<std::atomic<bool>>(false);
  const auto ended = std::make_shared<std::atomic<bool>>(false);
  {
    CancellationManager manager;
    Program program(&manager, 0);
    const auto begun = std::make_shared<std::atomic<bool>>(false);
    std::thread canceller([&] {
      for (int tries = 0; !begun->load();) check::relax(&tries);
      manager.StartCancel();
    });
    const absl::Status status = run_detached(&program, "long work", [=] {
      begun->store(true);
      for (int tries = 0; !goes_on->load();) check::relax(&tries);
      ended->store(true);
    });
    canceller.join();
    CHECK(absl::IsCancelled(status));
    CHECK(status.message().find("during long work: ") != std::string::npos);
    CHECK_EQ(detached_work(), 1);
  }
  goes_on->store(true);  // its program has gone
  wait_for_detached_work();
  CHECK(ended->load());
}

TEST(detached_work_gives_all_that_it_has_done_or_the_reason_of_the_stop) {
  check::Random random = random_of(57);
  for (int life = 0; life < kLives; ++life) {
    CancellationManager manager;
    Program program(&manager, 0);
    const auto when_us = static_cast<useconds_t>(random.below(60));
    const auto takes_us = static_cast<useconds_t>(random.below(60));
    const bool fails = random.below(4) == 0;
    std::thread canceller([&] {
      usleep(when_us);
      manager.StartCancel();
    });
    const auto result = std::make_shared<std::vector<int>>();
    const absl::Status status = run_detached(&program, "work", [=] {
      usleep(takes_us);
      if (fails) throw std::bad_alloc();
      result->assign(100, 7);
    });
    if (status.ok()) {
      CHECK(!fails);
      CHECK_EQ(result->size(), 100U);
    } else {
      CHECK(absl::IsCancelled(status) || (fails && absl::IsResourceExhausted(status)));
    }
    canceller.join();
  }
  wait_for_detached_work();
}

TEST(a_stopped_program_begins_no_detached_work) {
  Program program(nullptr, 0);
  program.stop(absl::CancelledError("enough"));
  bool begun = false;
  const absl::Status status = run_detached(&program, "work", [&] { begun = true; });
  CHECK(absl::IsCancelled(status));
  CHECK(!begun);
  // Without a program it is an ordinary call.
  CHECK_EQ(run_detached(nullptr, "work", [&] { begun = true; }).ToString(), "OK");
  CHECK(begun);
}

TEST(a_failed_allocation_is_an_error_and_leaves_nothing_taken) {
  for (const int replicas : {1, 2}) {
    const std::int64_t outfeed = new_number();
    with_each_allocation_failing([&](long) {
      Source source({std::int64_t{1} << 40}, std::size_t(replicas), 2);
      bool well = true;
      {
        CancellationManager manager;
        Program program(&manager, 0);
        const auto statuses = run_replicas(
            &program, replicas,
            [&](int r, Replicas* others) {
              for (int n = 0; n < 3; ++n) {
                TF_RETURN_IF_ERROR(step(&program, others, r, source.number(), outfeed));
              }
              return absl::OkStatus();
            },
            /*armed=*/true);
        for (const absl::Status& status : statuses) {
          well = well && status.ok();
          if (!status.ok()) CHECK(absl::IsResourceExhausted(status));
        }
        program.end(first_error(statuses));
      }
      CHECK_EQ(source.remove().ToString(), "OK");
      remove(outfeed);
      return well;
    });
  }
}
