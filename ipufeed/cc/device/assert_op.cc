// Checks assertions in a compiled program: XLA drops TensorFlow's own.
// In TensorFlow's executor TensorFlow's op, which is built with it, does the work.

#include "base/kernels.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace ipufeed {
namespace {

REGISTER_OP("IpufeedAssert")
    .Input("condition: bool")
    .Attr("text: string")
    .SetIsStateful()
    .SetShapeFn([](tensorflow::shape_inference::InferenceContext* ctx) {
      tensorflow::shape_inference::ShapeHandle scalar;
      return ctx->WithRank(ctx->input(0), 0, &scalar);
    })
    .Doc(
        "Ends a compiled program with an InternalError of `text` if the condition does "
        "not hold. Does nothing in TensorFlow's executor.");

class AssertOp : public Kernel {
 public:
  using Kernel::Kernel;

  absl::Status run(tensorflow::OpKernelContext* ctx) override {
    return check_scalars(ctx, {0});
  }
};

REGISTER_KERNEL_BUILDER(Name("IpufeedAssert").Device(tensorflow::DEVICE_CPU), AssertOp);

}  // namespace
}  // namespace ipufeed
