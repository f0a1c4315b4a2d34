#include "exchange_runs.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <mutex>

#include "ipu_device.h"

namespace ipufeed {
namespace {

struct Runs {
  std::mutex mutex;
  std::array<ExchangeRuns, kIpus> of_devices;  // guarded by mutex

  static Runs& get() {
    static auto* runs = new Runs;  // programs may outlive static objects
    return *runs;
  }

  ExchangeRuns& of(int ordinal) {
    return of_devices.at(static_cast<std::size_t>(ordinal));
  }
};

}  // namespace

std::int64_t begin_exchange_run(int ordinal) {
  Runs& runs = Runs::get();
  std::lock_guard<std::mutex> lock(runs.mutex);
  return ++runs.of(ordinal).begun;
}

void note_failed_run(int ordinal, std::int64_t run, const absl::Status& why) {
  Runs& runs = Runs::get();
  std::lock_guard<std::mutex> lock(runs.mutex);
  auto& failed = runs.of(ordinal).failed;
  std::move_backward(failed.begin(), failed.end() - 1, failed.end());
  failed[0] = {run, why};
}

ExchangeRuns exchange_runs(int ordinal) {
  Runs& runs = Runs::get();
  std::lock_guard<std::mutex> lock(runs.mutex);
  return runs.of(ordinal);
}

}  // namespace ipufeed
