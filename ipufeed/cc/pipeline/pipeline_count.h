// Checks the number of mini-batches of a pipeline when it is an input of the program.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace ipufeed {

// The words are those of schedules.refusal, after the original's first sentence.
inline absl::Status check_pipeline_count(std::int64_t count, std::int64_t multiple,
                                         std::int64_t least, std::int64_t most) {
  const auto must_be = [count](const char* what, std::int64_t number) {
    return absl::FailedPreconditionError(absl::StrCat(
        "Pipeline depth is invalid. The number of iterations of the pipeline must be ",
        what, " ", number, ", but it is ", count,
        ". This number might be called `gradient_accumulation_count`, "
        "`gradient_accumulation_steps_per_replica` or `steps_per_execution` depending "
        "on the API used."));
  };
  if (count < least) return must_be("at least", least);
  if (count > most) return must_be("at most", most);
  if (count % multiple != 0) return must_be("a multiple of", multiple);
  return absl::OkStatus();
}

}  // namespace ipufeed
