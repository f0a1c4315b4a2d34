// C entry points, which Python calls through ctypes. _native.py declares them again.
//
// Each is one call of entry(). What goes wrong in it is the thread's last error, and
// the result is then the smallest number of its type, which is never anything else:
// _native.py looks for it after each call and raises the error.
#pragma once

#include <limits>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "base/guard.h"

#define IPUFEED_API extern "C" __attribute__((visibility("default")))

namespace ipufeed {

// The error of the last entry point that has failed on this thread.
void set_last_error(absl::Status error);

// What `work` returns, a number; of one that returns nothing, or OkStatus(), 0.
template <class Work>
auto entry(const char* where, Work&& work) {
  using Result = std::invoke_result_t<Work>;
  if constexpr (std::is_void_v<Result> || std::is_same_v<Result, absl::Status>) {
    absl::Status status = guarded(where, std::forward<Work>(work));
    if (status.ok()) return 0;
    set_last_error(std::move(status));
    return std::numeric_limits<int>::min();
  } else {
    Result result{};
    absl::Status status = guarded(where, [&] { result = std::forward<Work>(work)(); });
    if (status.ok()) return result;
    set_last_error(std::move(status));
    return std::numeric_limits<Result>::min();
  }
}

}  // namespace ipufeed
