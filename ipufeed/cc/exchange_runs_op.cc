// The op by which a process asks another one how its programs are: whoever waits for it
// runs this op in it, through the server that it has for the exchanges.
// ipufeed/parallel/peers.py does.

#include <cstdint>
#include <string>
#include <tuple>

#include "exchange_runs.h"
#include "ipu_device.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace ipufeed {
namespace {

using tensorflow::OpKernel;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::shape_inference::InferenceContext;

constexpr int kKept =
    static_cast<int>(std::tuple_size_v<decltype(ExchangeRuns::failed)>);

REGISTER_OP("IpufeedExchangeRuns")
    .Output("begun: int64")
    .Output("failed: int64")
    .Output("codes: int32")
    .Output("messages: string")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext* c) {
      c->set_output(0, c->Vector(kIpus));
      for (int i = 1; i < c->num_outputs(); ++i) {
        c->set_output(i, c->Matrix(kIpus, kKept));
      }
      return absl::OkStatus();
    })
    .Doc(R"doc(
This process's programs that exchange with other processes; see exchange_runs.h.

begun: by IPU device, how many there have been.
failed: likewise, the numbers of those that have failed last, the latest first; 0 for none.
codes, messages: of their errors.
)doc");

class ExchangeRunsOp : public OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* ctx) override {
    Tensor* begun = nullptr;
    Tensor* failed = nullptr;
    Tensor* codes = nullptr;
    Tensor* messages = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, {kIpus}, &begun));
    OP_REQUIRES_OK(ctx, ctx->allocate_output(1, {kIpus, kKept}, &failed));
    OP_REQUIRES_OK(ctx, ctx->allocate_output(2, {kIpus, kKept}, &codes));
    OP_REQUIRES_OK(ctx, ctx->allocate_output(3, {kIpus, kKept}, &messages));
    for (int ordinal = 0; ordinal < kIpus; ++ordinal) {
      const ExchangeRuns runs = exchange_runs(ordinal);
      begun->vec<std::int64_t>()(ordinal) = runs.begun;
      for (int i = 0; i < kKept; ++i) {
        const auto& [run, why] = runs.failed[static_cast<std::size_t>(i)];
        failed->matrix<std::int64_t>()(ordinal, i) = run;
        codes->matrix<std::int32_t>()(ordinal, i) =
            static_cast<std::int32_t>(why.code());
        messages->matrix<tensorflow::tstring>()(ordinal, i) =
            std::string(why.message());
      }
    }
  }
};

REGISTER_KERNEL_BUILDER(Name("IpufeedExchangeRuns").Device(tensorflow::DEVICE_CPU),
                        ExchangeRunsOp);

}  // namespace
}  // namespace ipufeed
