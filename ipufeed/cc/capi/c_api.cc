// The plain C entry points, for ctypes: what Python must do without running an op, such
// as stopping one. _entry_points.py declares them again; both lists must agree.

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <map>
#include <memory>

#include "capi/api.h"
#include "core/cpus.h"
#include "core/mutex.h"
#include "data/feeder.h"
#include "data/python_dataset.h"
#include "measure/measurement_runs.h"
#include "measure/stage_probe.h"

namespace ipufeed {
namespace {

struct Runs {
  Mutex mutex;
  std::map<std::int64_t, std::shared_ptr<MeasurementRun>> by_number
      IPUFEED_GUARDED_BY(mutex);
  std::int64_t last IPUFEED_GUARDED_BY(mutex) = 0;

  static Runs& get() {
    static auto* runs = new Runs;  // never destroyed: see feeder.cc
    return *runs;
  }

  std::shared_ptr<MeasurementRun> find(std::int64_t number) {
    MutexLock lock(mutex);
    const auto found = by_number.find(number);
    return found == by_number.end() ? nullptr : found->second;
  }
};

}  // namespace

std::shared_ptr<MeasurementRun> run_of(std::int64_t number) {
  auto run = Runs::get().find(number);
  return run != nullptr ? run : std::make_shared<MeasurementRun>();
}

}  // namespace ipufeed

// A new measurement's number, at least 1.
IPUFEED_API std::int64_t ipufeed_run_new() {
  return ipufeed::entry(__func__, [&]() -> std::int64_t {
    auto& runs = ipufeed::Runs::get();
    ipufeed::MutexLock lock(runs.mutex);
    runs.by_number[++runs.last] = std::make_shared<ipufeed::MeasurementRun>();
    return runs.last;
  });
}

// Forgets it; an op that runs it continues.
IPUFEED_API int ipufeed_run_free(std::int64_t number) {
  return ipufeed::entry(__func__, [&] {
    auto& runs = ipufeed::Runs::get();
    ipufeed::MutexLock lock(runs.mutex);
    runs.by_number.erase(number);
  });
}

// Ends it soon, before or after its op has started. Unknown numbers are ignored.
IPUFEED_API int ipufeed_run_stop(std::int64_t number) {
  return ipufeed::entry(__func__, [&] {
    if (const auto run = ipufeed::Runs::get().find(number)) run->stop();
  });
}

// Fills progress[4] with elements, bytes, epochs and the time of the first element
// (monotonic ns, 0 before it). Returns 0, or 1 for an unknown number.
IPUFEED_API int ipufeed_run_progress(std::int64_t number, std::int64_t* progress) {
  return ipufeed::entry(__func__, {ipufeed::given("progress", progress)}, [&]() -> int {
    const auto run = ipufeed::Runs::get().find(number);
    if (run == nullptr) return 1;
    progress[0] = run->elements.load(std::memory_order_relaxed);
    progress[1] = run->bytes.load(std::memory_order_relaxed);
    progress[2] = run->epochs.load(std::memory_order_relaxed);
    progress[3] = run->first_ns.load(std::memory_order_relaxed);
    return 0;
  });
}

// Of a measurement of programs, by their thread: a pass has ended with this result,
// from 1, and no pass follows. See measurement.h. Unknown numbers are ignored.
IPUFEED_API int ipufeed_run_end_pass(std::int64_t number, std::int64_t results) {
  return ipufeed::entry(__func__, [&] {
    if (const auto run = ipufeed::Runs::get().find(number)) run->end_pass(results);
  });
}
IPUFEED_API int ipufeed_run_end_source(std::int64_t number) {
  return ipufeed::entry(__func__, [&] {
    if (const auto run = ipufeed::Runs::get().find(number)) run->end_source();
  });
}

// 1 if the measurement takes no more, or there is none.
IPUFEED_API int ipufeed_run_is_over(std::int64_t number) {
  return ipufeed::entry(__func__, [&]() -> int {
    const auto run = ipufeed::Runs::get().find(number);
    return run == nullptr || run->is_over() ? 1 : 0;
  });
}

// Results that the host has read; 0 for an unknown number.
IPUFEED_API std::int64_t ipufeed_run_results_read(std::int64_t number) {
  return ipufeed::entry(__func__, [&]() -> std::int64_t {
    const auto run = ipufeed::Runs::get().find(number);
    return run == nullptr ? 0 : run->results_read();
  });
}

// Feeder threads that still run.
IPUFEED_API int ipufeed_live_feeders() {
  return ipufeed::entry(__func__, [&]() -> int { return ipufeed::live_feeders(); });
}

// In a child of fork(): see feeder.h.
IPUFEED_API int ipufeed_forget_feeders_of_parent() {
  return ipufeed::entry(__func__, [&] {
    ipufeed::forget_feeders_of_parent();
    ipufeed::forget_reading_of_parent();
  });
}

namespace {
constexpr std::int64_t kMostGraceNs = 3'600'000'000'000;  // an hour
}  // namespace

// Stops them, and the reading of Python's elements; waits at most this long for each.
// Returns how many feeders still run, and one more if Python still reads.
IPUFEED_API int ipufeed_stop_all(std::int64_t timeout_ns) {
  return ipufeed::entry(__func__,
                        {{"timeout_ns", timeout_ns >= 0 && timeout_ns <= kMostGraceNs,
                          "must be in [0, 3.6e12]"}},
                        [&]() -> int {
                          ipufeed::stop_all_feeders(timeout_ns);
                          const bool stopped = ipufeed::stop_reading(timeout_ns);
                          return ipufeed::live_feeders() + (stopped ? 0 : 1);
                        });
}

namespace {

void end_process(int code, void*) {
  std::fflush(nullptr);
  _exit(code);
}

}  // namespace

// The process ends with its exit code, and without destructors of static objects, which
// a thread that compiles or runs a program still uses. Functions that are registered
// for the exit after this call come before.
IPUFEED_API int ipufeed_leave_statics() {
  return ipufeed::entry(__func__,
                        [&]() -> int { return on_exit(end_process, nullptr); });
}

// See cpus.h.
IPUFEED_API int ipufeed_usable_cpus() {
  return ipufeed::entry(__func__, [&]() -> int { return ipufeed::usable_cpus(); });
}

namespace {
// A slot for each step of a dataset.
constexpr std::int64_t kMostSlots = 1 << 16;
}  // namespace

// A new group with this many slots; its number, at least 1.
IPUFEED_API std::int64_t ipufeed_probes_new(std::int64_t slots) {
  return ipufeed::entry(
      __func__, {{"slots", slots >= 0 && slots <= kMostSlots, "must be in [0, 65536]"}},
      [&]() -> std::int64_t { return ipufeed::new_probes(slots); });
}

// Forgets it; datasets that write into it go on.
IPUFEED_API int ipufeed_probes_free(std::int64_t group) {
  return ipufeed::entry(__func__, [&] { ipufeed::forget_probes(group); });
}

// Fills fields[kProbeFields] in the order of ProbeReading. Returns 0, or 1 for a slot
// that there is not.
IPUFEED_API int ipufeed_probe_read(std::int64_t group, std::int64_t slot,
                                   std::int64_t* fields) {
  return ipufeed::entry(__func__, {ipufeed::given("fields", fields)}, [&]() -> int {
    const auto counters = ipufeed::find_probe(group, slot);
    if (counters == nullptr) return 1;
    const ipufeed::ProbeReading r = counters->read();
    const std::int64_t values[ipufeed::kProbeFields] = {
        r.elements,    r.wall_ns,         r.cpu_ns,         r.model_ns, r.is_async,
        r.parallelism, r.buffer_elements, r.buffered_bytes, r.tuned};
    std::copy(std::begin(values), std::end(values), fields);
    return 0;
  });
}
