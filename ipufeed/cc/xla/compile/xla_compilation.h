// XLA's compilation of a lowered program.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "tensorflow/compiler/tf2xla/xla_compiler.h"
#include "xla/client/local_client.h"
#include "xla/lowering/donation.h"

namespace ipufeed {

// Compiles what TensorFlow has lowered, with TensorFlow's options for the host but one:
// YNNPACK fuses no reductions, unless XLA_FLAGS names the fusions. In XLA of TensorFlow
// 2.21 the sum over a product of matrices of 220 x 220 may end the process there
// (YnnMatcher::IsOpSupported gets a null pointer).
//   updates        of variables, which donate_variables() may put in place
absl::StatusOr<std::unique_ptr<xla::LocalExecutable>> compile_by_xla(
    xla::LocalClient* client, const tensorflow::XlaCompiler::Options& options,
    const tensorflow::XlaCompiler::CompilationResult& result,
    std::vector<VariableUpdate> updates);

}  // namespace ipufeed
