#include "measure/measurement.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <utility>

#include "core/clock.h"
#include "core/mutex.h"

namespace ipufeed {
namespace {

constexpr std::int64_t kLongestWaitNs = 3'600'000'000'000;

}  // namespace

void MeasurementRun::stop() { notify(&stopped_); }

void MeasurementRun::end_source() { notify(&source_ended_); }

bool MeasurementRun::source_has_ended() const {
  MutexLock lock(mutex_);
  return source_ended_.load(std::memory_order_relaxed);
}

void MeasurementRun::notify(std::atomic<bool>* flag) {
  std::function<void()> on_stop;
  {
    MutexLock lock(mutex_);
    flag->store(true, std::memory_order_relaxed);
    on_stop = on_stop_;
    changed_.notify_all();
  }
  if (on_stop) on_stop();
}

void MeasurementRun::set_on_stop(const std::function<void()>& on_stop) {
  bool call = false;
  {
    MutexLock lock(mutex_);
    on_stop_ = on_stop;
    call = waits_no_more();
  }
  if (call && on_stop) on_stop();
}

void MeasurementRun::end_pass(std::int64_t results) {
  MutexLock lock(mutex_);
  ends_of_passes_.push_back(results);
}

bool MeasurementRun::take_end_of_pass(std::int64_t results) {
  MutexLock lock(mutex_);
  bool ended = false;
  while (!ends_of_passes_.empty() && ends_of_passes_.front() <= results) {
    ends_of_passes_.pop_front();
    ended = true;
  }
  return ended;
}

void MeasurementRun::pause_until(std::int64_t until_ns, bool or_stop) {
  MutexLock lock(mutex_);
  while (!source_ended_.load(std::memory_order_relaxed) && !(or_stop && stopped())) {
    const std::int64_t left_ns = until_ns - now_ns();
    if (left_ns <= 0) return;
    // The condition's own clock ends before ours does.
    changed_.wait_for_ns(mutex_, std::min(left_ns, kLongestWaitNs));
  }
}

void MeasurementRun::begin_reading(std::int64_t results, std::int64_t each_ns) {
  MutexLock lock(mutex_);
  read_before_ += reading_;
  reading_ = results;
  reading_since_ns_ = now_ns();
  each_ns_ = each_ns;
}

std::int64_t MeasurementRun::results_read() const {
  MutexLock lock(mutex_);
  if (each_ns_ <= 0) return read_before_ + reading_;
  const std::int64_t done = (now_ns() - reading_since_ns_) / each_ns_;
  return read_before_ + std::min(reading_, done);
}

std::string to_json(const std::vector<Epoch>& epochs) {
  std::string json = "{\n  \"epochs\": [";
  for (std::size_t i = 0; i < epochs.size(); ++i) {
    const Epoch& epoch = epochs[i];
    // The clock counts in whole nanoseconds; an epoch shorter than one took less than
    // one.
    const double seconds =
        static_cast<double>(std::max<std::int64_t>(1, epoch.end_ns - epoch.start_ns)) /
        1e9;
    char text[512];
    std::snprintf(text, sizeof(text),
                  "%s\n    {\n"
                  "      \"bandwidth\": %.17g,\n"
                  "      \"elements_per_second\": %.17g,\n"
                  "      \"elements_processed\": %" PRId64
                  ",\n"
                  "      \"time_elapsed\": %.17g,\n"
                  "      \"total_bytes_processed\": %" PRId64 "\n    }",
                  i == 0 ? "" : ",", static_cast<double>(epoch.bytes) / seconds / 1e9,
                  static_cast<double>(epoch.elements) / seconds, epoch.elements,
                  seconds, epoch.bytes);
    json += text;
  }
  json += epochs.empty() ? "]\n}" : "\n  ]\n}";
  return json;
}

}  // namespace ipufeed
