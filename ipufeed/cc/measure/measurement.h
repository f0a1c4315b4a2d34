// What a measurement is asked for, what it finds, and how another thread follows it.
// No TensorFlow in here but its status.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "core/course.h"
#include "core/mutex.h"

namespace ipufeed {

// An epoch ends after elements_per_epoch elements if that is set; else with a pass over
// the dataset if several were asked for; else every epoch_ns after the first element.
struct MeasurementOptions {
  std::int64_t epochs = 0;              // stop after as many, 0 for no bound
  std::int64_t elements_per_epoch = 0;  // 0: see above
  std::int64_t epoch_ns = 1'000'000'000;
  std::int64_t seconds_ns = 0;  // stop as long after the first element, 0 for no bound
  std::int64_t passes = 1;      // over the dataset
  bool epoch_per_pass = false;
  bool copy = true;           // each component into a page-aligned buffer
  bool refuse_empty = false;  // InvalidArgument for a tensor with a dimension of size 0
  std::int64_t most_stamps = std::int64_t{1}
                             << 25;  // 256 MiB; counting goes on after it
  // Entries in Measurement::epochs, even. Epochs of one element would otherwise take
  // more memory than the elements.
  std::int64_t most_entries = kNoBound;
  std::int64_t mark_ns = 10'000'000;  // see MarkTable
  std::int64_t most_marks = 4096;
  bool traced = false;  // feeder and consumer record what they do: see trace.h

  static constexpr std::int64_t kNoBound = std::int64_t{1} << 62;
};

// Times are nanoseconds of the monotonic clock.
struct Epoch {
  std::int64_t elements = 0;
  std::int64_t bytes = 0;
  std::int64_t samples = 0;  // sum of the leading dimension of the first component
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
};

struct Measurement {
  std::int64_t requested_ns = 0;  // the iterator was asked for
  std::int64_t created_ns = 0;    // it was there
  std::int64_t first_ns = 0;      // the first element was there, 0 if none came
  std::int64_t steady_ns = 0;     // waits and CPU time count from then on, just after
  std::int64_t last_ns = 0;       // the last element
  std::int64_t finished_ns = 0;   // the consumer stopped waiting for another
  std::int64_t elements = 0;
  std::int64_t bytes = 0;
  std::int64_t opaque = 0;  // see Payload
  std::int64_t copy_ns = 0;
  std::int64_t first_copy_ns = 0;  // the part of it before first_ns
  std::int64_t starved_ns = 0;     // the consumer waited, from steady_ns on
  std::int64_t blocked_ns = 0;     // the feeder waited, likewise
  std::int64_t consumer_parks = 0;
  std::int64_t feeder_parks = 0;
  std::int64_t cpu_ns = 0;             // of the process, from steady_ns to finished_ns
  std::int64_t cpu_wall_ns = 0;        // what the clock on the wall made meanwhile
  std::int64_t consumer_cpu_ns = 0;    // of that thread, in all
  std::int64_t feeder_cpu_ns = 0;      // likewise; 0 while it still runs
  std::int64_t capacity = 0;           // elements that fitted into the feed, at the end
  bool ended = false;                  // the dataset came to its end
  bool stopped = false;                // MeasurementRun::stop was called
  bool same_leading_dimension = true;  // of all components of each element
  std::int64_t epochs_per_entry = 1;   // a power of two; the last entry may have fewer
  std::vector<Epoch> epochs;           // each entry adds up as many neighbours
  std::vector<Mark> marks;             // from first_ns to finished_ns
  std::vector<std::int64_t> stamps;    // when each element was there, the first ones
  absl::Status failure;                // what the dataset failed with, after `elements`
};

// A measurement that runs, seen from outside. Any thread.
class MeasurementRun {
 public:
  // Ends the measurement soon, with what it has.
  void stop();

  // Stored by the consumer only, for a progress bar: relaxed, they order nothing.
  std::atomic<std::int64_t> elements{0};
  std::atomic<std::int64_t> bytes{0};
  std::atomic<std::int64_t> epochs{0};
  std::atomic<std::int64_t> first_ns{0};

  bool stopped() const { return stopped_.load(std::memory_order_relaxed); }

  // Runs `on_stop` when stop() comes, or now if it has come. No lock is held meanwhile,
  // so it may still run when set_on_stop(nullptr) has returned: it must own what it
  // uses.
  void set_on_stop(const std::function<void()>& on_stop);

 private:
  std::atomic<bool> stopped_{false};
  Mutex mutex_;  // also: stop() misses no on_stop_
  std::function<void()> on_stop_ IPUFEED_GUARDED_BY(mutex_);
};

// The classic result: {"epochs": [...]} with the five fields, keys in alphabetical
// order.
std::string to_json(const std::vector<Epoch>& epochs);

}  // namespace ipufeed
