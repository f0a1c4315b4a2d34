// What a measurement of programs by their results promises: each result counted once,
// in its pass and its epoch, whatever the threads do then; programs that are
// stopped when all is there; and an end to every wait.
#include "feeds/outfeed_consumer.h"

#include "check.h"
#include "standin/harness.h"

namespace {

using namespace ipufeed;
using namespace standin;

constexpr int kLives = check::scaled(200);
constexpr std::int64_t kHourNs = 3600 * kSecondNs;

// A result: the times of a step, of which the last is the stamp.
Tensor times(std::int64_t stamp_ns) {
  Tensor tensor(tensorflow::DT_INT32, TensorShape({8}));
  const std::int64_t row[4] = {stamp_ns - 3, stamp_ns - 2, stamp_ns - 1, stamp_ns};
  std::memcpy(tensor.data(), row, sizeof(row));
  return tensor;
}

// A measurement, its consumer's thread, and the programs' side of it.
struct Measured {
  explicit Measured(std::int64_t infeed_number = 0) : infeed(infeed_number) {
    results.words = 4;
    results.element_bytes = 7;
    results.element_samples = 2;
    results.stop_grace_ns = kHourNs;
    absl::Status made = find_or_add_outfeed(
        std::make_shared<Outfeed>(number, "results", OutfeedMode::kAll, 4, 0), &feed);
    CHECK_EQ(made.ToString(), "OK");
  }
  ~Measured() { CHECK_EQ(remove_outfeed(number).ToString(), "OK"); }

  void start() {
    out.requested_ns = 1;
    consumer = std::thread([this] {
      status =
          measure_outfeed(infeed, feed, options, results, measurement, &out, &found);
    });
  }

  // The stamp of result number n, from 0.
  std::int64_t stamp_of(std::int64_t n) const { return apart_ns * (n + 1); }

  // One program, on the calling thread, that gives up to `count` results.
  absl::Status run_program(std::int64_t count, check::Random* random,
                           std::int64_t wait_after = -1) {
    Program program(nullptr, 0);
    const auto statuses =
        run_replicas(&program, 1, [&](int, Replicas*) -> absl::Status {
          for (std::int64_t n = 0; n < count; ++n) {
            Outfeed* leased = nullptr;
            TF_RETURN_IF_ERROR(
                lease_outfeed(program, number, OutfeedMode::kAll, 4, &leased));
            ResultElement element;
            element.components.push_back(times(stamp_of(given)));
            TF_RETURN_IF_ERROR(leased->enqueue(program, std::move(element)));
            ++given;
            if (given == wait_after) until([&] { return program.stopped(); });
            dawdle(random);
          }
          return absl::OkStatus();
        });
    return first_error(statuses);
  }

  void finish() {
    measurement->end_source();
    consumer.join();
  }

  // All results from the first one on, `count` of them.
  void check_counted(std::int64_t count) const {
    CHECK_EQ(out.elements, count);
    CHECK_EQ(out.bytes, 7 * count);
    CHECK_EQ(static_cast<std::int64_t>(out.stamps.size()), count);
    CHECK_EQ(static_cast<std::int64_t>(found.rows.size()), 4 * count);
    for (std::int64_t n = 0; n < count; ++n) {
      const auto at = static_cast<std::size_t>(n);
      CHECK_EQ(out.stamps[at], stamp_of(n));
      CHECK_EQ(found.rows[4 * at], stamp_of(n) - 3);
      CHECK_EQ(found.rows[4 * at + 3], stamp_of(n));
    }
    std::int64_t elements = 0, start_ns = out.requested_ns;
    for (const Epoch& epoch : out.epochs) {
      elements += epoch.elements;
      CHECK_EQ(epoch.start_ns, start_ns);
      CHECK_EQ(epoch.samples, 2 * epoch.elements);
      start_ns = epoch.end_ns;
    }
    CHECK_EQ(elements, count);
    if (count == 0) return;
    CHECK_EQ(out.marks.front().elements, 1);
    CHECK_EQ(out.marks.back().elements, count);
    CHECK_EQ(measurement->elements.load(), count);
  }

  const std::int64_t infeed;
  const std::int64_t number = new_number();
  std::int64_t apart_ns = 10;
  std::shared_ptr<Outfeed> feed;
  MeasurementOptions options;
  ResultsMeasured results;
  std::shared_ptr<MeasurementRun> measurement = std::make_shared<MeasurementRun>();
  Measurement out;
  ResultsFound found;
  absl::Status status;
  std::thread consumer;
  std::int64_t given = 0;  // the program's thread
};

}  // namespace

TEST(each_result_is_counted_once_whenever_the_consumer_looks) {
  check::Random random = random_of(30);
  for (int life = 0; life < kLives; ++life) {
    Measured measured;
    const auto count = static_cast<std::int64_t>(random.below(60));
    measured.start();
    dawdle(&random);
    CHECK_EQ(measured.run_program(count, &random).ToString(), "OK");
    measured.finish();
    CHECK_EQ(measured.status.ToString(), "OK");
    measured.check_counted(count);
    CHECK_EQ(measured.measurement->results_read(), count);
    CHECK(!measured.out.stopped);
    // The first one was given to none that waited for a steady state.
    CHECK(static_cast<std::int64_t>(measured.found.latencies_ns.size()) <=
          std::max<std::int64_t>(0, count - 1));
  }
}

TEST(an_epoch_is_a_pass_even_if_the_next_one_begins_at_once) {
  check::Random random = random_of(31);
  for (int life = 0; life < kLives; ++life) {
    Measured measured;
    measured.options.epoch_per_pass = true;
    measured.start();
    std::vector<std::int64_t> passes;
    const auto most = random.below(8);
    for (std::uint64_t pass = 0; pass < most; ++pass) {
      const auto count = static_cast<std::int64_t>(random.below(5));
      CHECK_EQ(measured.run_program(count, &random).ToString(), "OK");
      if (count > 0) passes.push_back(count);
      measured.measurement->end_pass(measured.feed->stats().elements);
    }
    measured.finish();
    measured.check_counted(measured.given);
    CHECK_EQ(measured.out.epochs.size(), passes.size());
    for (std::size_t i = 0; i < passes.size(); ++i) {
      CHECK_EQ(measured.out.epochs[i].elements, passes[i]);
    }
  }
}

TEST(a_program_is_stopped_once_all_epochs_are_there) {
  check::Random random = random_of(32);
  for (int life = 0; life < kLives / 2 + 1; ++life) {
    Measured measured;
    measured.options.epochs = 1 + static_cast<std::int64_t>(random.below(3));
    measured.options.elements_per_epoch =
        1 + static_cast<std::int64_t>(random.below(9));
    const std::int64_t asked =
        measured.options.epochs * measured.options.elements_per_epoch;
    measured.start();
    const absl::Status status =
        measured.run_program(std::int64_t{1} << 40, &random, /*wait_after=*/asked);
    CHECK(absl::IsCancelled(status));
    CHECK(status.message().find("the measurement is over") != std::string::npos);
    CHECK(measured.measurement->is_over());
    measured.finish();
    measured.check_counted(asked);
    CHECK_EQ(static_cast<std::int64_t>(measured.out.epochs.size()),
             measured.options.epochs);
  }
}

TEST(what_is_stamped_after_the_time_is_not_counted) {
  check::Random random = random_of(33);
  for (int life = 0; life < kLives / 2 + 1; ++life) {
    Measured measured;
    const auto count = 2 + static_cast<std::int64_t>(random.below(40));
    // The deadline, on the machine's clock, is far in the past: that ends no wait
    // before the first results, and all after them.
    measured.options.seconds_ns = (count - 1) * measured.apart_ns;
    CHECK_EQ(measured.run_program(count + 5, &random).ToString(), "OK");
    measured.start();
    measured.finish();
    measured.check_counted(count);
  }
}

TEST(a_stop_ends_waits_for_results_and_for_the_host_that_reads) {
  check::Random random = random_of(34);
  for (int life = 0; life < kLives / 2 + 1; ++life) {
    Measured measured;
    const auto count = static_cast<std::int64_t>(random.below(4));
    const bool reads = random.below(2) == 0;
    if (reads) measured.results.read_ns = kHourNs;
    measured.start();
    std::thread stopper([&] {
      // Whatever the consumer does at that time: reads, rests, sleeps.
      if (random.below(2) == 0) {
        until([&] {
          return measured.feed->stats().elements == count &&
                 (count == 0 || measured.measurement->elements > 0);
        });
      }
      measured.measurement->stop();
      until([&] { return measured.measurement->is_over(); });
    });
    check::Random own = random_of(std::uint64_t(life));
    const absl::Status status = measured.run_program(count, &own);
    CHECK(status.ok() || absl::IsCancelled(status));
    stopper.join();
    measured.finish();
    CHECK(measured.out.stopped);
    measured.check_counted(measured.given);
    if (reads) CHECK_EQ(measured.measurement->results_read(), 0);
  }
}

TEST(programs_that_do_not_end_are_waited_for_no_longer_than_a_moment) {
  Measured measured;
  measured.results.stop_grace_ns = 1000;
  measured.start();
  measured.measurement->stop();
  measured.consumer.join();
  measured.check_counted(0);
  measured.measurement->end_source();  // late, and without a consumer
}

TEST(results_of_another_kind_are_an_error_and_stop_the_program) {
  check::Random random = random_of(35);
  for (int life = 0; life < kLives / 8 + 1; ++life) {
    Measured measured;
    measured.results.words = 1;
    measured.start();
    const absl::Status status =
        measured.run_program(std::int64_t{1} << 40, &random, /*wait_after=*/1);
    CHECK(absl::IsCancelled(status));
    measured.finish();
    CHECK(absl::IsInvalidArgument(measured.status));
    CHECK(measured.status.message().find("component 0 must be int32 [2]") !=
          std::string::npos);
  }
}

TEST(epochs_of_a_second_do_not_depend_on_when_the_consumer_looks) {
  check::Random random = random_of(36);
  for (int life = 0; life < kLives / 8 + 1; ++life) {
    Measured measured;
    measured.apart_ns = 10'000'000;
    measured.start();
    CHECK_EQ(measured.run_program(321, &random).ToString(), "OK");
    measured.finish();
    measured.check_counted(321);
    CHECK_EQ(measured.out.epochs.size(), 4u);
    const std::int64_t elements[] = {101, 100, 100, 20};
    for (std::size_t i = 0; i < 4; ++i) {
      CHECK_EQ(measured.out.epochs[i].elements, elements[i]);
    }
    CHECK_EQ(measured.out.epochs[0].end_ns, 1'010'000'000);
  }
}

TEST(waits_of_the_infeed_are_summed_up_over_passes) {
  check::Random random = random_of(37);
  for (int life = 0; life < kLives / 4 + 1; ++life) {
    const std::int64_t number = new_number();
    Measured measured(number);
    measured.options.mark_ns = 1;  // a look at each batch
    measured.start();
    WaitStats least, all;
    std::int64_t counted = 0;
    for (int pass = 0; pass < 3; ++pass) {
      // The first pass has an element, with which the waits begin to count.
      const auto count = static_cast<std::int64_t>(random.below(20)) + (pass == 0);
      Source source({count}, 1, 2, number);
      std::vector<absl::Status> statuses;
      {
        Program program(nullptr, 0);
        statuses = run_replicas(&program, 1, [&](int, Replicas*) -> absl::Status {
          Infeed* infeed = nullptr;
          Outfeed* outfeed = nullptr;
          TF_RETURN_IF_ERROR(lease_infeed(program, number, &infeed));
          TF_RETURN_IF_ERROR(
              lease_outfeed(program, measured.number, OutfeedMode::kAll, 4, &outfeed));
          std::vector<Tensor> components;
          for (;;) {
            TF_RETURN_IF_ERROR(infeed->dequeue(program, 0, &components));
            ResultElement element;
            element.components.push_back(times(measured.stamp_of(measured.given)));
            TF_RETURN_IF_ERROR(outfeed->enqueue(program, std::move(element)));
            ++measured.given;
          }
        });
      }
      CHECK(absl::IsOutOfRange(statuses[0]));
      counted += count;
      until([&] { return measured.measurement->elements == counted; });
      if (pass == 2) measured.finish();
      std::shared_ptr<Infeed> infeed;
      CHECK(find_infeed(number, &infeed).ok());
      const FeedStats stats = infeed->stats();
      all.waited_ns += stats.device.waited_ns;
      // Of the second pass the consumer may see nothing: its infeed goes at once.
      if (pass != 1) least.waited_ns += stats.device.waited_ns;
    }
    measured.check_counted(counted);
    const Measurement& out = measured.out;
    const std::int64_t before_ns = measured.found.infeed.device.waited_ns;
    CHECK_EQ(out.capacity, 2);
    CHECK(out.starved_ns >= least.waited_ns - before_ns);
    CHECK(out.starved_ns <= all.waited_ns - before_ns);
    for (std::size_t i = 1; i < out.marks.size(); ++i) {
      CHECK(out.marks[i].starved_ns >= out.marks[i - 1].starved_ns);
      CHECK(out.marks[i].blocked_ns >= out.marks[i - 1].blocked_ns);
      CHECK(out.marks[i].samples >= out.marks[i - 1].samples);
    }
  }
}
