// Catches exceptions where code without exceptions calls ours: C entry points, kernels,
// calls and callbacks of XLA, and threads. There an exception would end the process.
//
//   guarded(where, work)  runs `work`; an exception becomes its error
//   fault_point(where)    where a test can inject one: see faults.h
//
// A try block costs nothing until something is thrown, and a fault point one relaxed
// load of a flag that is written by tests only.
#pragma once

#include <cxxabi.h>

#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "base/faults.h"

namespace ipufeed {

// The error of the exception that is being handled, with its text: ResourceExhausted
// for std::bad_alloc, Internal for all others. To be called in a handler only.
absl::Status status_of_exception(const char* where) noexcept;

// What `work` returns, which is made from an absl::Status if `work` throws; OkStatus()
// of one that returns nothing. The end of a thread (pthread_exit, by which Python ends
// threads that acquire its lock too late) is not an exception, and goes on.
template <class Work>
auto guarded(const char* where, Work&& work) {
  using Result = std::invoke_result_t<Work>;
  using Answer = std::conditional_t<std::is_void_v<Result>, absl::Status, Result>;
  try {
    fault_point(where);
    if constexpr (std::is_void_v<Result>) {
      std::forward<Work>(work)();
      return absl::OkStatus();
    } else {
      return Answer(std::forward<Work>(work)());
    }
  } catch (const abi::__forced_unwind&) {
    throw;
  } catch (...) {
    return Answer(status_of_exception(where));
  }
}

}  // namespace ipufeed
