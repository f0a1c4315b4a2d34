// The op with which a process queries the state of another one's programs: the waiting
// process runs it in the other, through that one's server for collectives.
// ipufeed/parallel/collectives/peers.py does.

#include <cstdint>
#include <string>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "base/kernels.h"
#include "core/ipus.h"
#include "run/collective_runs.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace ipufeed {
namespace {

using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::shape_inference::InferenceContext;

constexpr int kFailuresKept =
    static_cast<int>(std::tuple_size_v<decltype(CollectiveRuns::failed)>);

REGISTER_OP("IpufeedCollectiveRuns")
    .Output("begun: int64")
    .Output("failed: int64")
    .Output("codes: int32")
    .Output("messages: string")
    .Output("ended: int64")
    .Output("waits: string")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext* c) {
      for (const int i : {0, 4, 5}) c->set_output(i, c->Vector(kDevices));
      for (const int i : {1, 2, 3})
        c->set_output(i, c->Matrix(kDevices, kFailuresKept));
      return absl::OkStatus();
    })
    .Doc(R"doc(
This process's programs with collectives between processes; see collective_runs.h.

begun: by IPU device, how many there have been.
failed: likewise, the numbers of those that have failed last, the latest first; 0 for none.
codes, messages: of their errors.
ended: like `begun`, the last that has ended without an error.
waits: of each collective that one waits in a line: its stream, the program's number, its own,
  and what it is; with spaces between.
)doc");

class CollectiveRunsOp : public Kernel {
 public:
  using Kernel::Kernel;

  absl::Status run(OpKernelContext* ctx) override {
    Tensor* begun = nullptr;
    Tensor* failed = nullptr;
    Tensor* codes = nullptr;
    Tensor* messages = nullptr;
    TF_RETURN_IF_ERROR(allocate_output(ctx, 0, {kDevices}, &begun));
    TF_RETURN_IF_ERROR(allocate_output(ctx, 1, {kDevices, kFailuresKept}, &failed));
    TF_RETURN_IF_ERROR(allocate_output(ctx, 2, {kDevices, kFailuresKept}, &codes));
    TF_RETURN_IF_ERROR(allocate_output(ctx, 3, {kDevices, kFailuresKept}, &messages));
    Tensor* ended = nullptr;
    Tensor* waits = nullptr;
    TF_RETURN_IF_ERROR(allocate_output(ctx, 4, {kDevices}, &ended));
    TF_RETURN_IF_ERROR(allocate_output(ctx, 5, {kDevices}, &waits));
    for (int ordinal = 0; ordinal < kDevices; ++ordinal) {
      const CollectiveRuns runs = collective_runs(ordinal);
      begun->vec<std::int64_t>()(ordinal) = runs.begun;
      ended->vec<std::int64_t>()(ordinal) = runs.ended;
      std::string lines;
      for (const auto& [stream, wait] : runs.waits) {
        if (wait.is_over) continue;
        absl::StrAppend(&lines, stream, " ", wait.run, " ", wait.number, " ", wait.what,
                        "\n");
      }
      waits->vec<tensorflow::tstring>()(ordinal) = lines;
      for (int i = 0; i < kFailuresKept; ++i) {
        const auto& [run, why] = runs.failed[static_cast<std::size_t>(i)];
        failed->matrix<std::int64_t>()(ordinal, i) = run;
        codes->matrix<std::int32_t>()(ordinal, i) =
            static_cast<std::int32_t>(why.code());
        messages->matrix<tensorflow::tstring>()(ordinal, i) =
            std::string(why.message());
      }
    }
    return absl::OkStatus();
  }
};

REGISTER_KERNEL_BUILDER(Name("IpufeedCollectiveRuns").Device(tensorflow::DEVICE_CPU),
                        CollectiveRunsOp);

}  // namespace
}  // namespace ipufeed
