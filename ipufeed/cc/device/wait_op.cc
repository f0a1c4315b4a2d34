// A value, some time later: stands for work that is done elsewhere, and uses no CPU.
//
// For measurements of what waits for what. In a compiled program: pipeline_lowering.cc.

#include <cstdint>

#include "base/kernels.h"
#include "device/sleep.h"
#include "run/program.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace ipufeed {
namespace {

using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;

REGISTER_OP("IpufeedWait")
    .Input("value: T")
    .Output("same: T")
    .Attr("T: type")
    .Attr("nanoseconds: int >= 0")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::UnchangedShape)
    .Doc("The value, after the nanoseconds given.");

class WaitOp : public Kernel {
 public:
  explicit WaitOp(OpKernelConstruction* ctx) : Kernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("nanoseconds", &nanoseconds_));
  }

  absl::Status run(OpKernelContext* ctx) override {
    TF_RETURN_IF_ERROR(sleep_as_program(nanoseconds_));
    ctx->set_output(0, ctx->input(0));
    return absl::OkStatus();
  }

 private:
  std::int64_t nanoseconds_ = 0;
};

REGISTER_KERNEL_BUILDER(Name("IpufeedWait").Device(tensorflow::DEVICE_CPU), WaitOp);

}  // namespace
}  // namespace ipufeed
