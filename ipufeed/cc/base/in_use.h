// Refuses a second caller at one side of a ring, which has one reader and one writer.
//
// A program's calls of one queue are in order (token_chain.h), so that no two of them
// run at the same time. A program that has made its own order, out of raw ops with
// tokens of its own, gets an error instead of a torn ring.
#pragma once

#include <atomic>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace ipufeed {

// Holds the side while it lives, unless `taken()`. One exchange, and one store.
class InUse {
 public:
  // [1] ~InUse() -> InUse()  the next caller sees all that the last one has done to
  // the side: the ring keeps plain counters for each.
  explicit InUse(std::atomic<bool>* flag)
      : flag_(flag->exchange(true, std::memory_order_acquire) ? nullptr : flag) {}
  ~InUse() {
    if (flag_ != nullptr) flag_->store(false, std::memory_order_release);  // [1]
  }
  InUse(const InUse&) = delete;
  InUse& operator=(const InUse&) = delete;

  // Another caller has the side.
  bool taken() const { return flag_ == nullptr; }

 private:
  std::atomic<bool>* const flag_;
};

// queue: such as "infeed queue 'x'". method: of the queue, whose calls are in order.
inline absl::Status two_calls(const std::string& queue, const char* method) {
  return absl::FailedPreconditionError(absl::StrCat(
      "Two calls of ", queue, " ran at the same time: nothing in the program orders ",
      "them. Use the queue's `", method, "`, which orders its calls, or give each raw ",
      "op the `next` token of the one before it."));
}

}  // namespace ipufeed
