// The program that queue ops belong to when TensorFlow's executor runs them one by one.
#pragma once

#include <functional>

#include "absl/status/status.h"
#include "run/program.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace ipufeed {

// Runs `use` with the program of the op's step and IPU, which the first such op makes.
// While `use` runs, a cancelled step stops the program.
//
// The program ends with the step. In a session that is when the step's container is
// emptied. A function that is called eagerly has no such container, and TensorFlow does
// not report its end: its caller does, with end_eager_programs.
absl::Status with_step_program(tensorflow::OpKernelContext* ctx,
                               const std::function<absl::Status(Program&)>& use);

// Ends the programs of functions that have been called eagerly, up to the one with this
// number (last_program()): a function that has begun since keeps its own. For the
// caller, after their end. Any thread.
void end_eager_programs(std::int64_t last);

}  // namespace ipufeed
