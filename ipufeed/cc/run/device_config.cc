#include "run/device_config.h"

#include <array>
#include <atomic>
#include <cstddef>

#include "core/ipus.h"

namespace ipufeed {
namespace {

std::atomic<RunMode> mode{RunMode::kRun};
std::array<std::atomic<int>, kDevices> ipus;  // 0 for the default

}  // namespace

void set_run_mode(RunMode wanted) { mode.store(wanted, std::memory_order_relaxed); }

RunMode run_mode() { return mode.load(std::memory_order_relaxed); }

int ipus_of(int ordinal) {
  if (ordinal < 0 || ordinal >= kDevices) return 1;
  const int count =
      ipus[static_cast<std::size_t>(ordinal)].load(std::memory_order_relaxed);
  return count == 0 ? 1 : count;
}

void set_ipus(int ordinal, int count) {
  if (ordinal < 0 || ordinal >= kDevices) return;
  ipus[static_cast<std::size_t>(ordinal)].store(count, std::memory_order_relaxed);
}

}  // namespace ipufeed
