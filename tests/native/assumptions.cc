// What tests/test_tensorflow_assumptions.py asks TensorFlow's C++ side.

#include <string>

#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_mgr.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "xla/stream_executor/platform_manager.h"
#include "xla/stream_executor/stream.h"
#include "xla/stream_executor/stream_executor.h"

namespace {

using tensorflow::OpKernel;
using tensorflow::OpKernelContext;

// A kernel that outputs one scalar.
template <class T, T (*Value)(OpKernelContext*)>
class ScalarOp : public OpKernel {
 public:
  using OpKernel::OpKernel;
  void Compute(OpKernelContext* ctx) override {
    tensorflow::Tensor* out = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, {}, &out));
    out->scalar<T>()() = Value(ctx);
  }
};

std::int64_t step_id(OpKernelContext* ctx) { return ctx->step_id(); }

std::int64_t container_id(OpKernelContext* ctx) {
  return ctx->step_container() == nullptr ? -1 : ctx->step_container()->StepId();
}

tensorflow::tstring resources(OpKernelContext* ctx) {
  return ctx->resource_manager()->DebugString();
}

// Whether what is given to a stream of the host has been done when the call returns.
absl::StatusOr<bool> is_done_at_once() {
  TF_ASSIGN_OR_RETURN(auto* platform,
                      stream_executor::PlatformManager::PlatformWithName("Host"));
  TF_ASSIGN_OR_RETURN(auto* executor, platform->ExecutorForDevice(0));
  TF_ASSIGN_OR_RETURN(const auto stream, executor->CreateStream());
  for (int i = 0; i < 1000; ++i) {
    bool done = false;
    const absl::Status given = stream->DoHostCallback([&done] { done = true; });
    const bool at_once = done;
    TF_RETURN_IF_ERROR(stream->BlockHostUntilDone());
    TF_RETURN_IF_ERROR(given);
    if (!at_once) return false;
  }
  return true;
}

bool done_at_once(OpKernelContext* ctx) {
  const auto found = is_done_at_once();
  if (!found.ok()) ctx->SetStatus(found.status());
  return found.value_or(false);
}

REGISTER_OP("AssumedStepId")
    .Output("id: int64")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::ScalarShape);
REGISTER_OP("AssumedContainerId")
    .Output("id: int64")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::ScalarShape);
REGISTER_OP("AssumedResources")
    .Output("names: string")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::ScalarShape);
REGISTER_OP("AssumedHostStream")
    .Output("at_once: bool")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::ScalarShape);

using StepIdOp = ScalarOp<std::int64_t, step_id>;
using ContainerIdOp = ScalarOp<std::int64_t, container_id>;
using ResourcesOp = ScalarOp<tensorflow::tstring, resources>;
using HostStreamOp = ScalarOp<bool, done_at_once>;

REGISTER_KERNEL_BUILDER(Name("AssumedStepId").Device(tensorflow::DEVICE_CPU), StepIdOp);
REGISTER_KERNEL_BUILDER(Name("AssumedContainerId").Device(tensorflow::DEVICE_CPU),
                        ContainerIdOp);
REGISTER_KERNEL_BUILDER(Name("AssumedResources").Device(tensorflow::DEVICE_CPU),
                        ResourcesOp);
REGISTER_KERNEL_BUILDER(Name("AssumedHostStream").Device(tensorflow::DEVICE_CPU),
                        HostStreamOp);

}  // namespace
