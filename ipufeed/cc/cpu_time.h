// What a thread has computed.
#pragma once

#include <time.h>

#include <cstdint>

namespace ipufeed {

// Nanoseconds of CPU that the calling thread has had.
inline std::int64_t thread_cpu_ns() noexcept {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return std::int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

}  // namespace ipufeed
