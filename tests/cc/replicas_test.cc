// What replicas promise in collectives: the same right result on all of them, once all
// have come; and an end to every wait for one that has ended, failed or was stopped.
#include "check.h"
#include "standin/harness.h"

namespace {

using namespace ipufeed;
using namespace standin;

constexpr int kLives = check::scaled(400);

// What a replica brings to collective n.
float brought(int replica, std::int64_t n, std::int64_t i) {
  return static_cast<float>((replica + 1) * (n % 7 + 1) + i % 5);
}

// Small ones are reduced by the last to come, large ones by all together.
std::int64_t random_count(check::Random* random, int replicas) {
  const std::int64_t counts[] = {1, 6, 700, 30'000};
  return counts[random->below(4)] * replicas;
}

// Comes to collective n of all, whose kind and size n says, and checks what it
// gets.
absl::Status run_collective(const Program& program, Replicas* others, int replica,
                            std::int64_t n, std::uint64_t seed) {
  const int replicas = others->count();
  check::Random random = random_of(seed + static_cast<std::uint64_t>(n));  // of all
  CollectiveRequest request;
  request.collective = static_cast<Collective>(random.below(6));
  request.reduction = request.collective == Collective::kReduce
                          ? static_cast<Reduction>(random.below(4))
                          : Reduction::kAdd;
  const std::int64_t count = random_count(&random, replicas);
  std::int64_t result_count = count;
  if (request.collective == Collective::kGather) result_count = count * replicas;
  if (request.collective == Collective::kReduceScatter) result_count = count / replicas;
  std::vector<float> input(static_cast<std::size_t>(count));
  std::vector<float> result(static_cast<std::size_t>(result_count), -1.0F);
  for (std::int64_t i = 0; i < count; ++i) {
    input[static_cast<std::size_t>(i)] = brought(replica, n, i);
  }
  if (request.collective == Collective::kBroadcast) result = input;
  request.tensors.push_back(
      {tensorflow::DT_FLOAT, count,
       request.collective == Collective::kBroadcast ? result.data() : input.data(),
       result_count, result.data()});
  std::int64_t arrived_ns = 0;
  TF_RETURN_IF_ERROR(others->run_collective(program, replica, request, &arrived_ns));
  CHECK(arrived_ns > 0 && arrived_ns <= now_ns());
  for (std::int64_t i = 0; i < result_count; ++i) {
    float expected = 0;
    const std::int64_t part = count / replicas;
    switch (request.collective) {
      case Collective::kBroadcast:
        expected = brought(0, n, i);
        break;
      case Collective::kGather:
        expected = brought(static_cast<int>(i / count), n, i % count);
        break;
      case Collective::kAllToAll:
        expected = brought(static_cast<int>(i / part), n, replica * part + i % part);
        break;
      default: {
        const std::int64_t at =
            request.collective == Collective::kReduceScatter ? replica * part + i : i;
        expected = brought(0, n, at);
        for (int r = 1; r < replicas; ++r) {
          const float next = brought(r, n, at);
          if (request.reduction == Reduction::kAdd) expected += next;
          if (request.reduction == Reduction::kMultiply) expected *= next;
          if (request.reduction == Reduction::kMin) expected = std::min(expected, next);
          if (request.reduction == Reduction::kMax) expected = std::max(expected, next);
        }
        if (request.collective == Collective::kMean) {
          expected /= static_cast<float>(replicas);
        }
      }
    }
    CHECK_EQ(result[static_cast<std::size_t>(i)], expected);
  }
  return absl::OkStatus();
}

}  // namespace

TEST(all_get_the_same_right_result) {
  check::Random random = random_of(30);
  for (int life = 0; life < kLives / 4 + 1; ++life) {
    const int replicas = 2 + static_cast<int>(random.below(3));
    const std::uint64_t seed = random.next();
    Program program(nullptr, 0);
    const auto statuses =
        run_replicas(&program, replicas, [&](int r, Replicas* others) {
          check::Random own = random_of(seed + static_cast<std::uint64_t>(r));
          for (std::int64_t n = 0; n < 12; ++n) {
            dawdle(&own);
            TF_RETURN_IF_ERROR(run_collective(program, others, r, n, seed));
          }
          return absl::OkStatus();
        });
    CHECK_EQ(first_error(statuses).ToString(), "OK");
  }
}

TEST(one_that_leaves_fails_or_is_stopped_ends_the_wait_of_all) {
  check::Random random = random_of(31);
  for (int life = 0; life < kLives; ++life) {
    const int replicas = 2 + static_cast<int>(random.below(3));
    const std::uint64_t seed = random.next();
    const int odd = static_cast<int>(random.below(std::uint64_t(replicas)));
    const auto when = static_cast<std::int64_t>(random.below(6));
    const auto way = random.below(4);
    CancellationManager manager;
    Program program(&manager, 0);
    std::vector<std::int64_t> done(static_cast<std::size_t>(replicas));
    const auto statuses =
        run_replicas(&program, replicas, [&](int r, Replicas* others) {
          check::Random own = random_of(seed + static_cast<std::uint64_t>(r));
          auto& n = done[static_cast<std::size_t>(r)];
          while (r != odd || n < when) {
            dawdle(&own);
            TF_RETURN_IF_ERROR(run_collective(program, others, r, n, seed));
            ++n;
          }
          if (way == 0) return absl::OkStatus();  // leaves
          if (way == 1) return absl::DataLossError("failed");
          if (way == 2) manager.StartCancel();
          if (way == 3) stop_all_programs(absl::CancelledError("all"));
          return program.stop_status();
        });
    for (std::size_t r = 0; r < done.size(); ++r) {
      CHECK_EQ(done[r], when);
      if (static_cast<int>(r) == odd && way == 0) {
        CHECK_EQ(statuses[r].ToString(), "OK");
        continue;
      }
      CHECK(!statuses[r].ok());
      if (way == 0) CHECK(absl::IsInternal(statuses[r]));
      if (way == 1) CHECK(absl::IsDataLoss(statuses[r]));
      if (way > 1) CHECK(absl::IsCancelled(statuses[r]));
    }
  }
}

TEST(different_collectives_are_an_error_of_all) {
  check::Random random = random_of(32);
  for (int life = 0; life < kLives / 4 + 1; ++life) {
    const int odd = static_cast<int>(random.below(4));
    Program program(nullptr, 0);
    const auto statuses = run_replicas(&program, 4, [&](int r, Replicas* others) {
      float input[4] = {1, 2, 3, 4};
      float result[4] = {};
      CollectiveRequest request;
      const std::int64_t count = r == odd ? 3 : 4;
      request.tensors.push_back({tensorflow::DT_FLOAT, count, input, count, result});
      std::int64_t arrived_ns = 0;
      return others->run_collective(program, r, request, &arrived_ns);
    });
    // Each gets the error from its own collective, or from the stop of another one.
    for (const absl::Status& status : statuses) CHECK(absl::IsInternal(status));
  }
}

TEST(collectives_of_stages_are_independent) {
  check::Random random = random_of(33);
  constexpr int kStages = 2;
  for (int life = 0; life < kLives / 4 + 1; ++life) {
    const std::uint64_t seed = random.next();
    const int runs = 3;
    // In one run of some lives one replica's stage does not come.
    const auto odd_run = static_cast<int>(random.below(runs + 2));
    const int odd_stage = static_cast<int>(random.below(kStages));
    Program program(nullptr, 0);
    std::atomic<int> failed{0};
    const auto statuses = run_replicas(&program, 2, [&](int r, Replicas* others) {
      std::mutex mutex;
      absl::Status first;
      std::vector<std::thread> stages;
      for (int s = 0; s < kStages; ++s) {
        stages.emplace_back([&, s] {
          check::Random own =
              random_of(seed + static_cast<std::uint64_t>(r * kStages + s));
          for (int run = 0; run < runs; ++run) {
            dawdle(&own);
            Replicas& stage = others->of_ipu(s, std::uint64_t(s) + 1);
            for (int n = 0; n < 3; ++n) {
              if (run == odd_run && s == odd_stage && r == 1 && n > 0) continue;
              const absl::Status status =
                  run_collective(program, &stage, r, run * 3 + n, seed);
              if (status.ok()) continue;
              if (status.message().find("execution of the stage") !=
                  std::string::npos) {
                ++failed;
              }
              {
                std::lock_guard<std::mutex> lock(mutex);
                first.Update(status);
              }
              program.stop(status);
              return;
            }
            stage.leave(r);
          }
        });
      }
      for (auto& stage : stages) stage.join();
      return first;
    });
    if (odd_run >= runs) {
      CHECK_EQ(first_error(statuses).ToString(), "OK");
    } else {
      CHECK(absl::IsInternal(first_error(statuses)));
      CHECK(failed > 0);
    }
  }
}

TEST(a_failed_allocation_is_an_error_of_all) {
  with_each_allocation_failing([&](long) {
    Program program(nullptr, 0);
    const auto statuses = run_replicas(
        &program, 3,
        [&](int r, Replicas* others) {
          for (std::int64_t n = 0; n < 3; ++n) {
            TF_RETURN_IF_ERROR(run_collective(program, others, r, n, 5));
            TF_RETURN_IF_ERROR(run_collective(program, &others->of_ipu(0, 1), r, n, 6));
          }
          return absl::OkStatus();
        },
        /*armed=*/true);
    bool well = true;
    for (const absl::Status& status : statuses) {
      well = well && status.ok();
      if (!status.ok()) CHECK(!absl::IsCancelled(status));
    }
    return well;
  });
}

TEST(a_message_that_cannot_be_made_ends_the_wait_all_the_same) {
  // The error of one that waits in vain, of one that is stopped, and of collectives
  // that differ: each has a text that needs memory.
  for (int way = 0; way < 3; ++way) {
    with_each_allocation_failing([&](long) {
      Program program(nullptr, 0);
      const auto statuses = run_replicas(
          &program, 3,
          [&](int r, Replicas* others) {
            if (r == 2 && way == 0) return absl::OkStatus();
            if (r == 2 && way == 1) return absl::DataLossError("failed");
            float input[8] = {};
            float result[8] = {};
            CollectiveRequest request;
            const std::int64_t count = r == 2 ? 8 : 4;
            request.tensors.push_back(
                {tensorflow::DT_FLOAT, count, input, count, result});
            std::int64_t arrived_ns = 0;
            return others->run_collective(program, r, request, &arrived_ns);
          },
          /*armed=*/true);
      bool well = true;
      for (int r = 0; r < 3; ++r) {
        const absl::Status& status = statuses[static_cast<std::size_t>(r)];
        if (way > 0 || r < 2) CHECK(!status.ok());
        well = well && !absl::IsResourceExhausted(status);
      }
      return well;
    });
  }
}
