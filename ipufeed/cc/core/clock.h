// The clocks that times are taken from, in nanoseconds.
#pragma once

#include <time.h>

#include <cstdint>

namespace ipufeed {

inline std::int64_t clock_ns(clockid_t clock) noexcept {
  timespec t;
  clock_gettime(clock, &t);
  return std::int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

// Time of the monotonic clock, which cannot be set back.
inline std::int64_t now_ns() noexcept { return clock_ns(CLOCK_MONOTONIC); }

// CPU time of the calling thread.
inline std::int64_t thread_cpu_ns() noexcept {
  return clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

}  // namespace ipufeed
