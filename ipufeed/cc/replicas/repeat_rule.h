// Checks the iterations of a loop that accumulates gradients.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace ipufeed {

// count: iterations of the loop; -1 for no loop. The first sentences are the
// original's.
inline absl::Status check_repeat_count(std::int64_t count, std::int64_t mini_batches) {
  if (mini_batches == 1) return absl::OkStatus();
  if (count < 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        "Detected a gradient accumulation operation with ", mini_batches,
        " number of mini batches which is not inside a training loop. Apply the "
        "optimizer in the body of `loops.repeat`."));
  }
  if (count % mini_batches == 0) return absl::OkStatus();
  const std::int64_t below = count / mini_batches * mini_batches;
  return absl::FailedPreconditionError(absl::StrCat(
      "Detected a gradient accumulation operation with ", mini_batches,
      " number of mini batches inside a loop with ", count,
      " iterations. Please make sure the number of iterations of the loop is a "
      "multiple "
      "of the number of mini batches, such as ",
      below > 0 ? absl::StrCat(below, " or ") : "", below + mini_batches, "."));
}

}  // namespace ipufeed
