// A step of a simulated device: it takes its time, and no CPU.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "core/step_clock.h"
#include "run/program.h"

namespace ipufeed {

// The longest step: eleven days, so that no sum overflows.
inline constexpr std::int64_t kLongestStepNs = 1'000'000'000'000'000;

// Refuses a length that is none, and waits for the end of the step otherwise.
absl::Status run_step(Program& program, std::int64_t step_ns, StepTimes* times);

}  // namespace ipufeed
