// Whether an op belongs to a call that Python has made eagerly, or to a session's step.
#pragma once

#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_mgr.h"

namespace ipufeed {

// A session's step has a container of its own. Eager calls share one of their
// context's, whose number is 0; their steps have random numbers.
inline bool is_eager(tensorflow::OpKernelContext* ctx) {
  const auto* container = ctx->step_container();
  return container == nullptr || container->StepId() != ctx->step_id();
}

}  // namespace ipufeed
