// What the rings of a pipeline promise: mini-batches in order and whole from stage to
// stage, and an end to every wait when a stage ends, fails or is stopped.
#include "check.h"
#include "pipeline/pipeline.h"
#include "standin/harness.h"

namespace {

using namespace ipufeed;
using namespace standin;

constexpr int kLives = check::scaled(400);

// A chain: IPU c sends to IPU c + 1, by ring c.
struct Chain {
  int ipus = 3;
  std::int64_t capacity = 2;
  std::int64_t credits = 0;
  std::size_t size = 16;  // int64 in a mini-batch, of two tensors
  int first_ipu = 0;

  std::vector<PipelineRun::RingOptions> rings() const {
    std::vector<PipelineRun::RingOptions> rings;
    for (int c = 0; c + 1 < ipus; ++c) {
      rings.push_back({capacity,
                       credits,
                       {std::to_string(c), first_ipu + c},
                       {std::to_string(c + 1), first_ipu + c + 1}});
    }
    return rings;
  }
};

// The tensors of a mini-batch: the first half and the rest.
std::vector<Memory> memory_of(std::vector<std::int64_t>* values) {
  const std::size_t half = values->size() / 2;
  return {{values->data(), half * sizeof(std::int64_t)},
          {nullptr, 0},
          {values->data() + half, (values->size() - half) * sizeof(std::int64_t)}};
}

// The part of one stage: takes mini-batches from the one before, passes them on, and
// checks them. The first one makes them.
absl::Status run_stage(PipelineRun* run, const Chain& chain, int ipu,
                       std::int64_t count, check::Random* random,
                       std::int64_t* handled) {
  std::vector<std::int64_t> values(chain.size);
  for (std::int64_t n = 0; n < count; ++n) {
    dawdle(random);
    run->enter(chain.first_ipu + ipu, std::to_string(ipu), n);
    if (ipu > 0) {
      const auto ring = static_cast<std::size_t>(ipu - 1);
      TF_RETURN_IF_ERROR(run->receive(ring, memory_of(&values)));
      for (const std::int64_t value : values) CHECK_EQ(value, n * 100 + ipu - 1);
    }
    std::fill(values.begin(), values.end(), n * 100 + ipu);
    if (ipu + 1 < chain.ipus) {
      TF_RETURN_IF_ERROR(run->send(static_cast<std::size_t>(ipu), memory_of(&values)));
    }
    ++*handled;
  }
  return absl::OkStatus();
}

// Runs body(run, IPU) on a thread for each IPU, as a program runs a pipeline.
template <class Body>
std::vector<absl::Status> run_chain(Program* program, PipelineRun* run,
                                    const Chain& chain, Body body, bool armed = false) {
  program->add(run);
  std::vector<absl::Status> statuses(static_cast<std::size_t>(chain.ipus));
  std::vector<std::thread> threads;
  for (int c = 0; c < chain.ipus; ++c) {
    threads.emplace_back([&, c] {
      Context context;
      context.program = program;
      context.ipu = chain.first_ipu + c;
      context.pipeline = run;
      context.stages = run;
      const ContextScope scope(context);
      run->begin(context.ipu, program->step_clock());
      const absl::Status status = guarded([&] {
        const Armed arm(armed);
        return body(run, c);
      });
      statuses[static_cast<std::size_t>(c)] = status;
      if (status.ok()) {
        run->leave(context.ipu);
      } else {
        run->fail();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  program->remove(run);
  return statuses;
}

Chain random_chain(check::Random* random) {
  Chain chain;
  chain.ipus = 2 + static_cast<int>(random->below(3));
  chain.capacity = 1 + static_cast<std::int64_t>(random->below(4));
  chain.first_ipu = static_cast<int>(random->below(2)) * 4;
  // Packets of 64 KiB and more are used again by the next execution; from kDirectBytes
  // on, mini-batches go without packets to stages that wait.
  const auto size = random->below(8);
  if (size == 0) chain.size = 16'384;
  if (size == 1 || size == 2) chain.size = 4'096;
  return chain;
}

}  // namespace

TEST(mini_batches_come_in_order_and_whole) {
  check::Random random = random_of(40);
  for (int life = 0; life < kLives; ++life) {
    const Chain chain = random_chain(&random);
    const auto count = static_cast<std::int64_t>(random.below(40));
    const std::uint64_t seed = random.next();
    Program program(nullptr, 0);
    PipelineRun run(program, chain.rings(), chain.first_ipu, chain.ipus);
    const auto statuses =
        run_chain(&program, &run, chain, [&](PipelineRun* pipeline, int ipu) {
          check::Random own = random_of(seed + static_cast<std::uint64_t>(ipu));
          std::int64_t handled = 0;
          return run_stage(pipeline, chain, ipu, count, &own, &handled);
        });
    CHECK_EQ(first_error(statuses).ToString(), "OK");
  }
}

TEST(a_stage_that_ends_fails_or_is_stopped_ends_every_wait) {
  check::Random random = random_of(41);
  for (int life = 0; life < kLives; ++life) {
    const Chain chain = random_chain(&random);
    const std::int64_t count = 30;
    const int odd = static_cast<int>(random.below(std::uint64_t(chain.ipus)));
    const auto when = static_cast<std::int64_t>(random.below(count));
    const auto way = random.below(4);
    const std::uint64_t seed = random.next();
    CancellationManager manager;
    Program program(&manager, 0);
    PipelineRun run(program, chain.rings(), chain.first_ipu, chain.ipus);
    std::vector<std::int64_t> handled(static_cast<std::size_t>(chain.ipus));
    std::vector<bool> waited(static_cast<std::size_t>(chain.ipus));
    const auto statuses =
        run_chain(&program, &run, chain, [&](PipelineRun* pipeline, int ipu) {
          const auto own = static_cast<std::size_t>(ipu);
          check::Random delays = random_of(seed + own);
          const bool is_odd = ipu == odd;
          absl::Status status = run_stage(pipeline, chain, ipu, is_odd ? when : count,
                                          &delays, &handled[own]);
          if (status.ok() && is_odd) {
            if (way == 1) return absl::DataLossError("failed");
            if (way == 2) manager.StartCancel();
            if (way == 3) stop_all_programs(absl::AbortedError("all"));
            if (way > 1) {
              std::int64_t more = 0;
              status = run_stage(pipeline, chain, ipu, count, &delays, &more);
            }
          }
          return status;
        });
    for (int c = 0; c < chain.ipus; ++c) {
      const auto own = static_cast<std::size_t>(c);
      if (c != odd) CHECK(handled[own] <= count);
      if (c > odd) CHECK(handled[own] <= when);
      if (way == 0 && c == odd && statuses[own].ok()) continue;
      // The stages before have room for what is not taken any more, in their rings and
      // one in each hand, and may get through.
      if (c < odd && when + (odd - c) * (chain.capacity + 1) >= count) continue;
      CHECK(!statuses[own].ok());
    }
  }
}

TEST(a_stop_from_outside_ends_a_pipeline_at_any_time) {
  check::Random random = random_of(42);
  for (int life = 0; life < kLives; ++life) {
    const Chain chain = random_chain(&random);
    const std::uint64_t seed = random.next();
    Program program(nullptr, 0);
    PipelineRun run(program, chain.rings(), chain.first_ipu, chain.ipus);
    const auto when_us = static_cast<useconds_t>(random.below(300));
    std::thread stopper([&] {
      usleep(when_us);
      program.stop(absl::CancelledError("enough"));
    });
    const auto statuses =
        run_chain(&program, &run, chain, [&](PipelineRun* pipeline, int ipu) {
          check::Random own = random_of(seed + static_cast<std::uint64_t>(ipu));
          std::int64_t handled = 0;
          return run_stage(pipeline, chain, ipu, std::int64_t{1} << 40, &own, &handled);
        });
    stopper.join();
    for (const absl::Status& status : statuses) CHECK(absl::IsCancelled(status));
    for (int c = 0; c < chain.ipus; ++c) CHECK(run.waited(chain.first_ipu + c));
  }
}

TEST(an_offer_is_for_one_mini_batch_and_taken_once) {
  DirectCopy<int> direct;
  const int where = 0;
  CHECK(direct.claim(0) == nullptr);
  direct.offer(0, &where);
  CHECK(direct.claim(1) == nullptr);
  CHECK(direct.claim(0) == &where);
  CHECK(direct.claim(0) == nullptr);
  CHECK(!direct.retract(0));
  direct.offer(1, &where);
  CHECK(direct.claim(0) == nullptr);
  CHECK(direct.retract(1));
  CHECK(direct.claim(1) == nullptr);
  CHECK(!direct.retract(1));
}

TEST(a_writer_that_fails_with_an_offer_in_its_hands_ends_its_readers_wait) {
  for (int life = 0; life < kLives / 8 + 1; ++life) {
    Chain chain;
    chain.ipus = 2;
    chain.size = 4'096;
    Program program(nullptr, 0);
    PipelineRun run(program, chain.rings(), 0, chain.ipus);
    const auto statuses =
        run_chain(&program, &run, chain, [&](PipelineRun* pipeline, int ipu) {
          // What no program does: the writer has more than its reader takes, and no
          // memory for a packet.
          std::vector<std::int64_t> values((ipu == 0 ? 3 : 1) * chain.size);
          const std::vector<Memory> tensors = memory_of(&values);
          if (ipu == 1) return pipeline->receive(0, tensors);
          usleep(200);  // the reader waits by now, or seldom not
          until_failure = 0;
          const Armed armed;
          return pipeline->send(0, tensors);
        });
    until_failure = -1;
    CHECK(!statuses[1].ok());
  }
}

TEST(credits_are_there_from_the_start) {
  Chain chain;
  chain.ipus = 2;
  chain.capacity = 4;
  chain.credits = 3;
  Program program(nullptr, 0);
  PipelineRun run(program, chain.rings(), 0, 2);
  const auto statuses =
      run_chain(&program, &run, chain, [&](PipelineRun* pipeline, int ipu) {
        if (ipu == 0) return absl::OkStatus();
        for (int n = 0; n < 3; ++n) TF_RETURN_IF_ERROR(pipeline->receive(0, {}));
        return pipeline->receive(0, {});
      });
  CHECK_EQ(statuses[0].ToString(), "OK");
  CHECK(absl::IsInternal(statuses[1]));
}

TEST(a_failed_allocation_is_an_error_of_all) {
  for (const std::size_t size : {16, 16'384}) {
    with_each_allocation_failing([&](long) {
      Chain chain;
      chain.size = size;
      Program program(nullptr, 0);
      PipelineRun run(program, chain.rings(), 0, chain.ipus);
      const auto statuses = run_chain(
          &program, &run, chain,
          [&](PipelineRun* pipeline, int ipu) {
            check::Random own = random_of(static_cast<std::uint64_t>(ipu));
            std::int64_t handled = 0;
            absl::Status status = run_stage(pipeline, chain, ipu, 3, &own, &handled);
            if (!status.ok()) return status;
            // A larger one: the packet that there is gives way to another.
            Chain larger = chain;
            larger.size = 3 * size;
            handled = 0;
            return run_stage(pipeline, larger, ipu, 3, &own, &handled);
          },
          /*armed=*/true);
      bool well = true;
      for (const absl::Status& status : statuses) well = well && status.ok();
      return well;
    });
  }
}

TEST(packets_go_without_memory_for_their_spare_ones) {
  // What keeps large packets for the next execution needs memory for its list.
  with_each_allocation_failing([&](long) {
    Chain chain;
    chain.size = 16'384;
    Program program(nullptr, 0);
    std::vector<std::unique_ptr<PipelineRun>> runs(16);
    for (auto& run : runs) {
      run = std::make_unique<PipelineRun>(program, chain.rings(), 0, chain.ipus);
      const auto statuses =
          run_chain(&program, run.get(), chain, [&](PipelineRun* pipeline, int ipu) {
            check::Random own = random_of(static_cast<std::uint64_t>(ipu));
            std::int64_t handled = 0;
            return run_stage(pipeline, chain, ipu, 8, &own, &handled);
          });
      CHECK_EQ(first_error(statuses).ToString(), "OK");
    }
    const Armed armed;
    for (auto& run : runs) run.reset();
    return true;
  });
}
