// The ops of replicated programs and of training loops, and their kernels for
// TensorFlow's executor, which runs one copy of a program. What they become in a
// compiled program is in replica_lowering.cc.

#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/kernels.h"
#include "feeds/queue_ops.h"
#include "replicas/processes.h"
#include "replicas/repeat_rule.h"
#include "replicas/replicas.h"
#include "run/step_program.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tensorflow/core/framework/tensor.h"

namespace ipufeed {
namespace {

using tensorflow::DataType;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::TensorShape;
using tensorflow::shape_inference::DimensionHandle;
using tensorflow::shape_inference::InferenceContext;
using tensorflow::shape_inference::ShapeHandle;

// A bound far above any system, and below which no shape's size overflows here.
absl::Status check_replicas(std::int64_t replicas) {
  constexpr std::int64_t kMostReplicas = 1 << 20;
  if (replicas >= 1 && replicas <= kMostReplicas) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "`replicas` must be in [1, ", kMostReplicas, "], got ", replicas, "."));
}

REGISTER_OP("IpufeedCollective")
    .Input("values: dtypes")
    .Input("token: uint32")
    .Output("results: dtypes")
    .Output("next: uint32")
    .Attr("dtypes: list(type) >= 1")
    .Attr("collective: int >= 0")
    .Attr("reduction: int >= 0 = 0")
    .Attr("group: int >= 0 = 0")
    .Attr("replicas: int >= 1 = 1")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext* c) -> absl::Status {
      std::int64_t collective = 0;
      std::int64_t replicas = 0;
      TF_RETURN_IF_ERROR(c->GetAttr("collective", &collective));
      TF_RETURN_IF_ERROR(c->GetAttr("replicas", &replicas));
      TF_RETURN_IF_ERROR(check_replicas(replicas));
      const int last = c->num_outputs() - 1;
      for (int i = 0; i < last; ++i) {
        ShapeHandle shape = c->input(i);
        if (collective == static_cast<std::int64_t>(Collective::kGather)) {
          TF_RETURN_IF_ERROR(c->Concatenate(c->Vector(replicas), shape, &shape));
        } else if (collective ==
                   static_cast<std::int64_t>(Collective::kReduceScatter)) {
          const DimensionHandle count = c->NumElements(shape);
          shape =
              c->Vector(c->ValueKnown(count)
                            ? c->MakeDim((c->Value(count) + replicas - 1) / replicas)
                            : c->UnknownDim());
        }
        c->set_output(i, shape);
      }
      return token_shape_fn(c, {last});
    })
    .Doc(R"doc(
A collective of the copies of a program; waits for all of them.

collective, reduction: Collective and Reduction of ipufeed/cc/replicas/replicas.h.
group: this many copies take part, of those that follow each other; 0 for all.
replicas: how many there are, for the shapes of gather and reduce_scatter.
)doc");

class CollectiveOp : public Kernel {
 public:
  explicit CollectiveOp(OpKernelConstruction* ctx) : Kernel(ctx) {
    std::int64_t collective = 0;
    std::int64_t reduction = 0;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("collective", &collective));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("reduction", &reduction));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("group", &request_.group));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("replicas", &replicas_));
    OP_REQUIRES_OK(ctx, check_replicas(replicas_));
    OP_REQUIRES_OK(ctx, check_collective(collective, reduction));
    request_.collective = static_cast<Collective>(collective);
    request_.reduction = static_cast<Reduction>(reduction);
  }

  absl::Status run(OpKernelContext* ctx) override {
    CollectiveRequest request = request_;
    const int last = ctx->num_outputs() - 1;
    TF_RETURN_IF_ERROR(check_scalars(ctx, {last}));
    for (int i = 0; i < last; ++i) {
      const Tensor& value = ctx->input(i);
      TF_RETURN_IF_ERROR(
          check_bytes(type_string(), static_cast<std::size_t>(i), value.dtype()));
      TensorShape shape = value.shape();
      if (request.collective == Collective::kGather) {
        TF_RETURN_IF_ERROR(shape.InsertDimWithStatus(0, replicas_));
      } else if (request.collective == Collective::kReduceScatter) {
        shape = TensorShape({(value.NumElements() + replicas_ - 1) / replicas_});
      }
      Tensor* result = nullptr;
      TF_RETURN_IF_ERROR(allocate_output(ctx, i, shape, &result));
      request.tensors.push_back({value.dtype(), value.NumElements(), value.data(),
                                 result->NumElements(), result->data()});
    }
    bool is_between = false;
    TF_RETURN_IF_ERROR(is_between_processes(&request, 1, &is_between));
    TF_RETURN_IF_ERROR(run_collective_alone(request));
    if (is_between) {
      TF_RETURN_IF_ERROR(with_step_program(ctx, [&](Program& program) {
        return reduce_over_processes(program, request);
      }));
    }
    ctx->set_output(last, ctx->input(last));
    return absl::OkStatus();
  }

 private:
  CollectiveRequest request_;
  std::int64_t replicas_ = 1;
};

REGISTER_KERNEL_BUILDER(Name("IpufeedCollective").Device(tensorflow::DEVICE_CPU),
                        CollectiveOp);

REGISTER_OP("IpufeedReplicationIndex")
    .Output("index: int32")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::ScalarShape)
    .Doc("Which copy of the program this is, from 0.");

class ReplicationIndexOp : public Kernel {
 public:
  using Kernel::Kernel;
  absl::Status run(OpKernelContext* ctx) override {
    Tensor* index = nullptr;
    TF_RETURN_IF_ERROR(allocate_output(ctx, 0, {}, &index));
    index->scalar<std::int32_t>()() = process_index();  // whose only one this is
    return absl::OkStatus();
  }
};

REGISTER_KERNEL_BUILDER(Name("IpufeedReplicationIndex").Device(tensorflow::DEVICE_CPU),
                        ReplicationIndexOp);

REGISTER_OP("IpufeedRepeatCount")
    .Input("count: T")
    .Output("same: T")
    .Attr("T: {int32, int64}")
    .Attr("mini_batches: int >= 1 = 1")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext* c) { return token_shape_fn(c, {0}); })
    .Doc(R"doc(
How often a loop runs, which must be a multiple.

count: -1 for what is in no loop.
mini_batches: of which number; 1 for any.
)doc");

class RepeatCountOp : public Kernel {
 public:
  explicit RepeatCountOp(OpKernelConstruction* ctx) : Kernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("mini_batches", &mini_batches_));
  }
  absl::Status run(OpKernelContext* ctx) override {
    TF_RETURN_IF_ERROR(check_scalars(ctx, {0}));
    const Tensor& count = ctx->input(0);
    const std::int64_t value = count.dtype() == tensorflow::DT_INT32
                                   ? count.scalar<std::int32_t>()()
                                   : count.scalar<std::int64_t>()();
    TF_RETURN_IF_ERROR(check_repeat_count(value, mini_batches_));
    ctx->set_output(0, count);
    return absl::OkStatus();
  }

 private:
  std::int64_t mini_batches_ = 1;
};

REGISTER_KERNEL_BUILDER(Name("IpufeedRepeatCount").Device(tensorflow::DEVICE_CPU),
                        RepeatCountOp);

}  // namespace
}  // namespace ipufeed
