// The counts of a feed as a row of numbers, for Python.
#pragma once

#include <array>
#include <cstdint>

#include "run/leased.h"

namespace ipufeed {

// In the order of ipufeed/queues/stats.py.
inline std::array<std::int64_t, 10> numbers_of(const FeedStats& stats) {
  const auto whole = [](std::uint64_t n) { return static_cast<std::int64_t>(n); };
  return {stats.elements,
          stats.capacity,
          stats.filled,
          stats.stored_bytes,
          whole(stats.device.waits),
          whole(stats.device.parks),
          stats.device.waited_ns,
          whole(stats.host.waits),
          whole(stats.host.parks),
          stats.host.waited_ns};
}

}  // namespace ipufeed
