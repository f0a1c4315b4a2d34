// A value, some time later: stands for work that is done elsewhere, and uses no CPU.
//
// For measurements of what waits for what. In a compiled program: pipeline_xla_ops.cc.

#include <cstdint>

#include "program.h"
#include "sleep.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace ipufeed {
namespace {

using tensorflow::OpKernel;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;

REGISTER_OP("IpufeedWait")
    .Input("value: T")
    .Output("same: T")
    .Attr("T: type")
    .Attr("nanoseconds: int >= 0")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::UnchangedShape)
    .Doc("The value, after so many nanoseconds.");

class WaitOp : public OpKernel {
 public:
  explicit WaitOp(OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("nanoseconds", &nanoseconds_));
  }

  void Compute(OpKernelContext* ctx) override {
    OP_REQUIRES_OK(ctx, sleep_as_program(nanoseconds_));
    ctx->set_output(0, ctx->input(0));
  }

 private:
  std::int64_t nanoseconds_ = 0;
};

REGISTER_KERNEL_BUILDER(Name("IpufeedWait").Device(tensorflow::DEVICE_CPU), WaitOp);

}  // namespace
}  // namespace ipufeed
