// An op whose output is a number from the host, such as that of a feed.

#include <cstdint>

#include "base/kernels.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace ipufeed {
namespace {

using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;

REGISTER_OP("IpufeedHostNumber")
    .Attr("number: int")
    .Output("value: int64")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::ScalarShape)
    .Doc(
        "A number from the host. Not a constant, so that no pass folds it into a "
        "program.");

class HostNumberOp : public Kernel {
 public:
  explicit HostNumberOp(OpKernelConstruction* ctx) : Kernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("number", &number_));
  }
  absl::Status run(OpKernelContext* ctx) override {
    Tensor* output = nullptr;
    TF_RETURN_IF_ERROR(allocate_output(ctx, 0, {}, &output));
    output->scalar<std::int64_t>()() = number_;
    return absl::OkStatus();
  }

 private:
  std::int64_t number_ = 0;
};

REGISTER_KERNEL_BUILDER(Name("IpufeedHostNumber").Device(tensorflow::DEVICE_CPU),
                        HostNumberOp);

}  // namespace
}  // namespace ipufeed
