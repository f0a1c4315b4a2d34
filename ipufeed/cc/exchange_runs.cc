#include "exchange_runs.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <mutex>

#include "ipu_device.h"

namespace ipufeed {
namespace {

struct Devices {
  std::mutex mutex;
  std::array<ExchangeRuns, kIpus> runs;  // guarded by mutex

  static Devices& get() {
    static auto* devices = new Devices;  // programs may outlive static objects
    return *devices;
  }

  ExchangeRuns& of(int ordinal) { return runs.at(static_cast<std::size_t>(ordinal)); }
};

}  // namespace

std::int64_t begin_exchange_run(int ordinal) {
  Devices& devices = Devices::get();
  std::lock_guard<std::mutex> lock(devices.mutex);
  return ++devices.of(ordinal).begun;
}

void note_failed_run(int ordinal, std::int64_t run, const absl::Status& why) {
  Devices& devices = Devices::get();
  std::lock_guard<std::mutex> lock(devices.mutex);
  auto& failed = devices.of(ordinal).failed;
  std::move_backward(failed.begin(), failed.end() - 1, failed.end());
  failed[0] = {run, why};
}

ExchangeRuns exchange_runs(int ordinal) {
  Devices& devices = Devices::get();
  std::lock_guard<std::mutex> lock(devices.mutex);
  return devices.of(ordinal);
}

}  // namespace ipufeed
