// The options, results and progress of a measurement.
// Uses TensorFlow's status only.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "core/mark_table.h"
#include "core/mutex.h"

namespace ipufeed {

// An epoch ends after elements_per_epoch elements if that is set; else with a pass over
// the dataset if several were requested; else every epoch_ns after the first element.
struct MeasurementOptions {
  std::int64_t epochs = 0;              // stop after this number, 0 for no bound
  std::int64_t elements_per_epoch = 0;  // 0: see above
  std::int64_t epoch_ns = 1'000'000'000;
  std::int64_t seconds_ns = 0;  // stop this long after the first element, 0: no bound
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

// Called by the consumer at the end of each epoch, with its number from 0.
using OnEpoch = std::function<void(std::int64_t number, const Epoch& epoch)>;

struct Measurement {
  std::int64_t requested_ns = 0;  // the iterator was requested
  std::int64_t created_ns = 0;    // the iterator was created
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
  std::int64_t cpu_ns = 0;       // of the process, from steady_ns to finished_ns
  std::int64_t cpu_wall_ns = 0;  // elapsed time of the monotonic clock in that period
  std::int64_t consumer_cpu_ns = 0;    // of that thread, in all
  std::int64_t feeder_cpu_ns = 0;      // likewise; 0 while it still runs
  std::int64_t capacity = 0;           // elements that fitted into the feed, at the end
  bool ended = false;                  // the dataset came to its end
  bool stopped = false;                // MeasurementRun::stop was called
  bool same_leading_dimension = true;  // of all components of each element
  std::int64_t epochs_per_entry = 1;   // a power of two; the last entry may have fewer
  std::vector<Epoch> epochs;           // each entry is a sum of this many neighbours
  std::vector<Mark> marks;             // from first_ns to finished_ns
  std::vector<std::int64_t> stamps;    // when each element was there, the first ones
  absl::Status failure;                // the dataset's error, after `elements`
};

// A running measurement, for other threads. Any thread.
class MeasurementRun {
 public:
  // Ends the measurement soon, with its results so far.
  void stop();

  // Stored by the consumer only, for a progress bar: relaxed, they order nothing.
  std::atomic<std::int64_t> elements{0};
  std::atomic<std::int64_t> bytes{0};
  std::atomic<std::int64_t> epochs{0};
  std::atomic<std::int64_t> first_ns{0};

  bool stopped() const { return stopped_.load(std::memory_order_relaxed); }

  // Runs `on_stop` when stop() or end_source() is called, or now if one of them was.
  // No lock is held during the call, so it may still run when set_on_stop(nullptr) has
  // returned: it must own what it uses.
  void set_on_stop(const std::function<void()>& on_stop);

  // ---- Where elements are results of programs: feeds/outfeed_consumer.h ----

  // A pass over the dataset has ended with result number `results`, from 1. Before the
  // program of the next pass begins.
  void end_pass(std::int64_t results);

  // All programs have ended: all their results are in the outfeed.
  void end_source();
  // Takes the lock, so that the caller then sees all these results.
  bool source_has_ended() const;
  // Whether the consumer need not wait for results. Relaxed: the data that it then
  // reads has locks of its own.
  bool waits_no_more() const {
    return stopped() || source_ended_.load(std::memory_order_relaxed);
  }

  // The consumer: it needs no more results, and stops the programs. Relaxed: a
  // thread that sees a program end by that stop sees this, too, through the program's
  // lock.
  void set_full() { full_.store(true, std::memory_order_relaxed); }
  // A program that is stopped now was stopped by the measurement.
  bool is_over() const { return full_.load(std::memory_order_relaxed) || stopped(); }

  // The consumer, after result number `results`: it ends passes that end there, oldest
  // first. Whether one did.
  bool take_end_of_pass(std::int64_t results);

  // The consumer's pauses: until the time, or until end_source() or, with `or_stop`,
  // stop().
  void pause_until(std::int64_t until_ns, bool or_stop);

  // The consumer takes results to read, and each_ns for each of them from now on.
  void begin_reading(std::int64_t results, std::int64_t each_ns);
  // Results that it has read.
  std::int64_t results_read() const;

 private:
  void notify(std::atomic<bool>* flag);

  // Stored with the lock.
  std::atomic<bool> stopped_{false};
  std::atomic<bool> source_ended_{false};
  std::atomic<bool> full_{false};
  mutable Mutex mutex_;  // also: stop() misses no on_stop_, and no pause
  CondVar changed_;
  std::function<void()> on_stop_ IPUFEED_GUARDED_BY(mutex_);
  std::deque<std::int64_t> ends_of_passes_ IPUFEED_GUARDED_BY(mutex_);
  // The results that were read before those that are being read.
  std::int64_t read_before_ IPUFEED_GUARDED_BY(mutex_) = 0;
  // Those that are being read, since when, and the time for each.
  std::int64_t reading_ IPUFEED_GUARDED_BY(mutex_) = 0;
  std::int64_t reading_since_ns_ IPUFEED_GUARDED_BY(mutex_) = 0;
  std::int64_t each_ns_ IPUFEED_GUARDED_BY(mutex_) = 0;
};

// The classic result: {"epochs": [...]} with the five fields, keys in alphabetical
// order.
std::string to_json(const std::vector<Epoch>& epochs);

}  // namespace ipufeed
