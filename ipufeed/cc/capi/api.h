// C entry points, which Python calls through ctypes. _entry_points.py declares them
// again.
//
// Each is one call of entry(). A failure sets the thread's last error and returns the
// smallest number of the result's type, which is not used otherwise: _native.py checks
// for it after each call and raises the error. Arguments are checked first: see
// Argument.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/guard.h"
#include "core/clock.h"

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

// One argument of an entry point, with what holds for it.
struct Argument {
  const char* name;
  bool good;
  const char* must;
};

// There is something at the address.
inline Argument given(const char* name, const void* address) {
  return {name, address != nullptr, "must not be null"};
}

// There are `size` items of it; with none the address may be null.
inline Argument given(const char* name, const void* address, std::int64_t size) {
  return {name, size == 0 || (size > 0 && address != nullptr),
          "must be an address, and its size at least 0"};
}

// The same as entry(where, work), or InvalidArgument before any work is done.
template <class Work>
auto entry(const char* where, std::initializer_list<Argument> arguments, Work&& work) {
  using Result = decltype(entry(where, std::forward<Work>(work)));
  for (const Argument& each : arguments) {
    if (each.good) continue;
    absl::Status noted = guarded(where, [&] {
      set_last_error(absl::InvalidArgumentError(
          absl::StrCat("`", each.name, "` of ", where, " ", each.must, ".")));
    });
    if (!noted.ok()) set_last_error(std::move(noted));
    return std::numeric_limits<Result>::min();
  }
  return entry(where, std::forward<Work>(work));
}

// The time that is `timeout_ns` from now, within the clock's range.
inline std::int64_t deadline_in(std::int64_t timeout_ns) {
  const std::int64_t now = now_ns();
  const std::int64_t most = std::numeric_limits<std::int64_t>::max() - now;
  return now + (timeout_ns < most ? timeout_ns : most);
}

}  // namespace ipufeed
