// The op by which a process asks another one how its programs are: whoever waits for it
// runs this op in it, through the server that it has for the exchanges.
// ipufeed/parallel/peers.py does.

#include <cstdint>
#include <string>

#include "processes.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace ipufeed {
namespace {

using tensorflow::OpKernel;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::shape_inference::InferenceContext;

REGISTER_OP("IpufeedExchangeRuns")
    .Output("failed: int64")
    .Output("code: int32")
    .Output("message: string")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext* c) {
      for (int i = 0; i < c->num_outputs(); ++i) c->set_output(i, c->Scalar());
      return absl::OkStatus();
    })
    .Doc(R"doc(
Which of this process's programs that exchange with other processes has failed last.

failed: its number among them, from 1; 0 for none.
code, message: of its error.
)doc");

class ExchangeRunsOp : public OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* ctx) override {
    const ExchangeRuns runs = exchange_runs();
    Tensor* failed = nullptr;
    Tensor* code = nullptr;
    Tensor* message = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, {}, &failed));
    OP_REQUIRES_OK(ctx, ctx->allocate_output(1, {}, &code));
    OP_REQUIRES_OK(ctx, ctx->allocate_output(2, {}, &message));
    failed->scalar<std::int64_t>()() = runs.failed;
    code->scalar<std::int32_t>()() = static_cast<std::int32_t>(runs.why.code());
    message->scalar<tensorflow::tstring>()() = std::string(runs.why.message());
  }
};

REGISTER_KERNEL_BUILDER(Name("IpufeedExchangeRuns").Device(tensorflow::DEVICE_CPU),
                        ExchangeRunsOp);

}  // namespace
}  // namespace ipufeed
