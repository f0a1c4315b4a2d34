// An op that gives a number from the host, such as that of a feed.

#include <cstdint>

#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace ipufeed {
namespace {

using tensorflow::OpKernel;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;

REGISTER_OP("IpufeedHostNumber")
    .Attr("number: int")
    .Output("value: int64")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::ScalarShape)
    .Doc(
        "A number from the host. Not a constant, so that nobody folds it into a "
        "program.");

class HostNumberOp : public OpKernel {
 public:
  explicit HostNumberOp(OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("number", &number_));
  }
  void Compute(OpKernelContext* ctx) override {
    Tensor* output = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, {}, &output));
    output->scalar<std::int64_t>()() = number_;
  }

 private:
  std::int64_t number_ = 0;
};

REGISTER_KERNEL_BUILDER(Name("IpufeedHostNumber").Device(tensorflow::DEVICE_CPU),
                        HostNumberOp);

}  // namespace
}  // namespace ipufeed
