// The op that reads the host's clock inside a program, and its kernel for TensorFlow's
// executor. What it becomes in a compiled program is in queue_lowering.cc.
//
// It takes and gives a token like a queue op (queue_ops.h), so that its reading is
// between the two queue calls that it was written between.

#include <cstdint>
#include <cstring>

#include "base/kernels.h"
#include "core/wait.h"
#include "feeds/queue_ops.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace ipufeed {
namespace {

using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::shape_inference::InferenceContext;

REGISTER_OP("IpufeedClock")
    .Input("token: uint32")
    .Output("stamp: int32")
    .Output("next: uint32")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext* c) {
      c->set_output(0, c->Vector(2));
      return token_shape_fn(c, {0});
    })
    .Doc(R"doc(
The monotonic clock in nanoseconds.

stamp: the two halves of an int64, as they lie in memory; feeds carry no int64.
)doc");

class ClockOp : public Kernel {
 public:
  using Kernel::Kernel;

  absl::Status run(OpKernelContext* ctx) override {
    TF_RETURN_IF_ERROR(check_scalars(ctx, {0}));
    Tensor* stamp = nullptr;
    TF_RETURN_IF_ERROR(allocate_output(ctx, 0, {2}, &stamp));
    const std::int64_t now = now_ns();
    std::memcpy(stamp->data(), &now, sizeof(now));
    ctx->set_output(1, ctx->input(0));
    return absl::OkStatus();
  }
};

REGISTER_KERNEL_BUILDER(Name("IpufeedClock").Device(tensorflow::DEVICE_CPU), ClockOp);

}  // namespace
}  // namespace ipufeed
