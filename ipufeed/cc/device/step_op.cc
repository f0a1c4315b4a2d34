// The op that is a step of a simulated device, and its kernel for TensorFlow's
// executor. What it becomes in a compiled program is in queue_lowering.cc.
//
// It takes and gives a token like a queue op (queue_ops.h), so that it runs after the
// dequeue and before the enqueue that it was written between.

#include "device/step_op.h"

#include <cstring>
#include <optional>

#include "absl/strings/str_cat.h"
#include "base/kernels.h"
#include "device/sleep.h"
#include "feeds/queue_ops.h"
#include "run/step_program.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace ipufeed {
namespace {

using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::shape_inference::InferenceContext;

REGISTER_OP("IpufeedStep")
    .Input("nanoseconds: int64")
    .Input("token: uint32")
    .Output("times: int32")
    .Output("next: uint32")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext* c) {
      c->set_output(0, c->Vector(8));
      return token_shape_fn(c, {0, 1});
    })
    .Doc(R"doc(
Takes so long as a device that computes elsewhere.

nanoseconds: from when the previous step has ended and the last element taken was there.
times: four int64 as they lie in memory, see step_clock.h; feeds carry no int64.
)doc");

class StepOp : public Kernel {
 public:
  using Kernel::Kernel;

  absl::Status run(OpKernelContext* ctx) override {
    TF_RETURN_IF_ERROR(check_scalars(ctx, {0, 1}));
    const std::int64_t step_ns = ctx->input(0).scalar<std::int64_t>()();
    StepTimes times;
    TF_RETURN_IF_ERROR(with_step_program(ctx, [&](Program& program) -> absl::Status {
      return run_step(program, step_ns, &times);
    }));
    Tensor* output = nullptr;
    TF_RETURN_IF_ERROR(allocate_output(ctx, 0, {8}, &output));
    static_assert(sizeof(times) == 8 * sizeof(std::int32_t));
    std::memcpy(output->data(), &times, sizeof(times));
    ctx->set_output(1, ctx->input(1));
    return absl::OkStatus();
  }
};

REGISTER_KERNEL_BUILDER(Name("IpufeedStep").Device(tensorflow::DEVICE_CPU), StepOp);

}  // namespace

absl::Status run_step(Program& program, std::int64_t step_ns, StepTimes* times) {
  if (step_ns < 0 || step_ns > kLongestStepNs) {
    return absl::InvalidArgumentError(
        absl::StrCat("A step must take 0 to ", kLongestStepNs / 1'000'000'000,
                     " seconds, got ", static_cast<double>(step_ns) / 1e9, "."));
  }
  std::optional<PreciseSleep> precise;
  if (step_ns > 0) precise.emplace();
  if (program.compute(step_ns, times)) return absl::OkStatus();
  const absl::Status why = program.stop_status();
  return absl::Status(why.code(), absl::StrCat("The program was stopped in a step of ",
                                               static_cast<double>(step_ns) / 1e9,
                                               " s: ", why.message()));
}

}  // namespace ipufeed
