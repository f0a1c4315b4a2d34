// The op by which a process asks another one how its programs are: whoever waits for it
// runs this op in it, through the server that it has for the exchanges.
// ipufeed/parallel/peers.py does.

#include <cstdint>
#include <string>
#include <tuple>

#include "ipu_device.h"
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

constexpr int kKept = static_cast<int>(std::tuple_size_v<FailedRuns>);

REGISTER_OP("IpufeedFailedRuns")
    .Output("runs: int64")
    .Output("codes: int32")
    .Output("messages: string")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext* c) {
      const auto shape = c->Matrix(kIpus, kKept);
      for (int i = 0; i < c->num_outputs(); ++i) c->set_output(i, shape);
      return absl::OkStatus();
    })
    .Doc(R"doc(
Which of this process's programs that exchange with other processes have failed last.

runs: by IPU device, the latest first: numbers among them, from 1; 0 for none.
codes, messages: of their errors.
)doc");

class FailedRunsOp : public OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* ctx) override {
    Tensor* runs = nullptr;
    Tensor* codes = nullptr;
    Tensor* messages = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, {kIpus, kKept}, &runs));
    OP_REQUIRES_OK(ctx, ctx->allocate_output(1, {kIpus, kKept}, &codes));
    OP_REQUIRES_OK(ctx, ctx->allocate_output(2, {kIpus, kKept}, &messages));
    for (int ordinal = 0; ordinal < kIpus; ++ordinal) {
      const FailedRuns failed = failed_runs(ordinal);
      for (int i = 0; i < kKept; ++i) {
        const auto& [run, why] = failed[static_cast<std::size_t>(i)];
        runs->matrix<std::int64_t>()(ordinal, i) = run;
        codes->matrix<std::int32_t>()(ordinal, i) =
            static_cast<std::int32_t>(why.code());
        messages->matrix<tensorflow::tstring>()(ordinal, i) =
            std::string(why.message());
      }
    }
  }
};

REGISTER_KERNEL_BUILDER(Name("IpufeedFailedRuns").Device(tensorflow::DEVICE_CPU),
                        FailedRunsOp);

}  // namespace
}  // namespace ipufeed
