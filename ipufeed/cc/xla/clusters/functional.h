// Makes loops and conditionals of TensorFlow 1 functional, as XLA requires.
#pragma once

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "tensorflow/core/common_runtime/optimization_registry.h"

namespace ipufeed {

// Replaces the graph by one in which those of `devices` are functional: ops by name,
// with their devices. What TensorFlow cannot make functional stays as it is, and so
// does all if an op with an effect would then be there more often: of nested
// conditionals TensorFlow copies an inner one into the branches of each result that it
// has. Returns the type of such an op, or "".
absl::StatusOr<std::string> functionalize(
    const std::map<std::string, std::string>& devices,
    const tensorflow::GraphOptimizationPassOptions& options);

}  // namespace ipufeed
