// Checks assertions in a compiled program: XLA drops TensorFlow's own.
// In TensorFlow's executor TensorFlow's op, which is built with it, does the work.
// The token gives an assertion its place among the program's queue calls: queue_ops.h.

#include "base/kernels.h"
#include "feeds/queue_ops.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace ipufeed {
namespace {

REGISTER_OP("IpufeedAssert")
    .Input("condition: bool")
    .Input("token: uint32")
    .Output("next_token: uint32")
    .Attr("text: string")
    .SetIsStateful()
    .SetShapeFn([](tensorflow::shape_inference::InferenceContext* ctx) {
      return token_shape_fn(ctx, {0, 1});
    })
    .Doc(
        "Ends a compiled program with an InternalError of `text` if the condition does "
        "not hold. Does nothing in TensorFlow's executor.");

class AssertOp : public Kernel {
 public:
  using Kernel::Kernel;

  absl::Status run(tensorflow::OpKernelContext* ctx) override {
    TF_RETURN_IF_ERROR(check_scalars(ctx, {0, 1}));
    ctx->set_output(0, ctx->input(1));
    return absl::OkStatus();
  }
};

REGISTER_KERNEL_BUILDER(Name("IpufeedAssert").Device(tensorflow::DEVICE_CPU), AssertOp);

}  // namespace
}  // namespace ipufeed
