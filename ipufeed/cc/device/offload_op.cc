// The op that moves a tensor between the host's memory and the IPU's: ../parallel/
// offloading.py. In a compiled program: pipeline_lowering.cc.

#include <cstdint>

#include "base/kernels.h"
#include "device/offload.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace ipufeed {
namespace {

using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;

REGISTER_OP("IpufeedRemote")
    .Input("value: T")
    .Output("same: T")
    .Attr("T: type")
    .Attr("number: int >= 0")
    .Attr("stores: bool")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::UnchangedShape)
    .Doc("Moves a tensor to the IPU, or to the host's memory.");

class RemoteOp : public Kernel {
 public:
  explicit RemoteOp(OpKernelConstruction* ctx) : Kernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("number", &number_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("stores", &stores_));
  }

  absl::Status run(OpKernelContext* ctx) override {
    const tensorflow::Tensor& value = ctx->input(0);
    TF_RETURN_IF_ERROR(check_bytes(type_string(), 0, value.dtype()));
    tensorflow::Tensor* same = nullptr;
    TF_RETURN_IF_ERROR(allocate_output(ctx, 0, value.shape(), &same));
    move_remote(same->data(), value.data(), value.TotalBytes(), number_, stores_);
    return absl::OkStatus();
  }

 private:
  std::int64_t number_ = 0;
  bool stores_ = false;
};

REGISTER_KERNEL_BUILDER(Name("IpufeedRemote").Device(tensorflow::DEVICE_CPU), RemoteOp);

}  // namespace
}  // namespace ipufeed
