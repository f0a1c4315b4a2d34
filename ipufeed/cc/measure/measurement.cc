#include "measure/measurement.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <utility>

#include "core/mutex.h"

namespace ipufeed {

void MeasurementRun::stop() {
  std::function<void()> on_stop;
  {
    MutexLock lock(mutex_);
    stopped_.store(true, std::memory_order_relaxed);
    on_stop = on_stop_;
  }
  if (on_stop) on_stop();
}

void MeasurementRun::set_on_stop(const std::function<void()>& on_stop) {
  bool call = false;
  {
    MutexLock lock(mutex_);
    on_stop_ = on_stop;
    call = stopped();
  }
  if (call && on_stop) on_stop();
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
