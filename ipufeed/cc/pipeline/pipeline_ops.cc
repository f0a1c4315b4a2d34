// The ops of a pipeline. But for the first they run in compiled programs only:
// pipeline_lowering.cc.
//
//   IpufeedPipelineCount       in the program of the device: how many mini-batches
//   IpufeedPipeline            likewise: one function for each IPU
//   IpufeedSend, IpufeedReceive                           in these functions
//   IpufeedStageEnters, -Begins, -Ends         around each stage, and its update

#include "base/kernels.h"
#include "feeds/queue_ops.h"
#include "pipeline/pipeline_count.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tensorflow/core/framework/tensor.h"

namespace ipufeed {
namespace {

using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::shape_inference::InferenceContext;

absl::Status given_shapes(InferenceContext* c, const char* attribute) {
  std::vector<tensorflow::PartialTensorShape> shapes;
  TF_RETURN_IF_ERROR(c->GetAttr(attribute, &shapes));
  TF_RETURN_IF_ERROR(
      check_signature(static_cast<std::size_t>(c->num_outputs()) - 1, shapes.size()));
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    tensorflow::shape_inference::ShapeHandle shape;
    TF_RETURN_IF_ERROR(c->MakeShapeFromPartialTensorShape(shapes[i], &shape));
    c->set_output(static_cast<int>(i), shape);
  }
  return token_shape_fn(c, {c->num_inputs() - 1});
}

// Of an op with a token for its last input and its one output.
absl::Status token_shape(InferenceContext* c) {
  return token_shape_fn(c, {c->num_inputs() - 1});
}

REGISTER_OP("IpufeedPipeline")
    .Input("arguments: argument_types")
    .Input("token: uint32")
    .Output("results: result_types")
    .Output("next: uint32")
    .Attr("argument_types: list(type) >= 0")
    .Attr("result_types: list(type) >= 0")
    .Attr("result_shapes: list(shape) >= 0")
    .Attr("programs: list(func) >= 1")
    .Attr("ipus: list(int) >= 1")
    .Attr("devices: int >= 1")
    .Attr("operands: list(int) >= 0")
    .Attr("operand_counts: list(int) >= 1")
    .Attr("ring_stages: list(string) >= 0")
    .Attr("ring_ipus: list(int) >= 0")
    .Attr("ring_capacities: list(int) >= 0")
    .Attr("ring_credits: list(int) >= 0")
    .Attr("schedule: string")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext* c) { return given_shapes(c, "result_shapes"); })
    .Doc(R"(
One execution of a pipeline: runs each program on its IPU, all at once.

programs: Of each IPU. Takes those of `arguments` that `operands` names for it, as many
  as in `operand_counts`; the results of all, one program's after the other's, are
  `results`.
ipus: The number of each program's IPU.
devices: How many IPUs the pipeline has.
ring_stages: Of each ring the stage that sends, and the one that receives.
ring_ipus: Likewise their IPUs.
schedule: For a trace: what it is that runs.
)");

REGISTER_OP("IpufeedSend")
    .Input("tensors: dtypes")
    .Input("token: uint32")
    .Output("next: uint32")
    .Attr("dtypes: list(type) >= 0")
    .Attr("ring: int >= 0")
    .SetIsStateful()
    .SetShapeFn(token_shape)
    .Doc("Gives tensors to another IPU of the pipeline.");

REGISTER_OP("IpufeedReceive")
    .Input("token: uint32")
    .Output("tensors: dtypes")
    .Output("next: uint32")
    .Attr("dtypes: list(type) >= 0")
    .Attr("shapes: list(shape) >= 0")
    .Attr("ring: int >= 0")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext* c) { return given_shapes(c, "shapes"); })
    .Doc("The next tensors from another IPU of the pipeline. Waits for them.");

REGISTER_OP("IpufeedStageEnters")
    .Input("mini_batch: int32")
    .Input("token: uint32")
    .Output("next: uint32")
    .Attr("label: string")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext* c) {
      return token_shape_fn(c, {0, c->num_inputs() - 1});
    })
    .Doc("A stage begins: what the IPU waits for from here on counts for that stage.");

REGISTER_OP("IpufeedStageBegins")
    .Input("inputs: dtypes")
    .Input("token: uint32")
    .Output("same: dtypes")
    .Output("started: int32")
    .Output("next: uint32")
    .Attr("dtypes: list(type) >= 0")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext* c) {
      for (int i = 0; i + 1 < c->num_inputs(); ++i) c->set_output(i, c->input(i));
      c->set_output(c->num_outputs() - 2, c->Vector(2));
      return token_shape(c);
    })
    .Doc(R"(
Where a stage has its inputs. What it computes must take them from here.

A token orders calls, and no computing: that is ordered by its data alone. What took its
inputs from where they were received could be computed before this, or after the end.

started: When, for IpufeedStageEnds.
)");

REGISTER_OP("IpufeedStageEnds")
    .Input("mini_batch: int32")
    .Input("started: int32")
    .Input("after: dtypes")
    .Input("token: uint32")
    .Output("next: uint32")
    .Attr("dtypes: list(type) >= 0")
    .Attr("label: string")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext* c) {
      tensorflow::shape_inference::ShapeHandle started;
      TF_RETURN_IF_ERROR(c->WithRank(c->input(1), 1, &started));
      return token_shape_fn(c, {0, c->num_inputs() - 1});
    })
    .Doc("Where a stage has made its outputs, which are `after`: for a trace.");

REGISTER_OP("IpufeedPipelineCount")
    .Input("count: int64")
    .Output("same: int32")
    .Attr("multiple: int >= 1")
    .Attr("least: int >= 0")
    .Attr("most: int >= 1")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext* c) { return token_shape_fn(c, {0}); })
    .Doc("How many mini-batches an execution has, which must be possible.");

class PipelineCountOp : public Kernel {
 public:
  explicit PipelineCountOp(OpKernelConstruction* ctx) : Kernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("multiple", &multiple_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("least", &least_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("most", &most_));
  }

  absl::Status run(OpKernelContext* ctx) override {
    TF_RETURN_IF_ERROR(check_scalars(ctx, {0}));
    const std::int64_t count = ctx->input(0).scalar<std::int64_t>()();
    TF_RETURN_IF_ERROR(check_pipeline_count(count, multiple_, least_, most_));
    tensorflow::Tensor* same = nullptr;
    TF_RETURN_IF_ERROR(allocate_output(ctx, 0, {}, &same));
    same->scalar<std::int32_t>()() = static_cast<std::int32_t>(count);
    return absl::OkStatus();
  }

 private:
  std::int64_t multiple_ = 1;
  std::int64_t least_ = 0;
  std::int64_t most_ = 1;
};

class CompiledOnly : public Kernel {
 public:
  using Kernel::Kernel;

  absl::Status run(OpKernelContext* ctx) override {
    return absl::UnimplementedError(
        "A pipeline runs in compiled programs only: build it inside "
        "ipu_compiler.compile, or a tf.function with jit_compile=True, that has no "
        "outside_compilation_scope.");
  }
};

REGISTER_KERNEL_BUILDER(Name("IpufeedPipelineCount").Device(tensorflow::DEVICE_CPU),
                        PipelineCountOp);
REGISTER_KERNEL_BUILDER(Name("IpufeedPipeline").Device(tensorflow::DEVICE_CPU),
                        CompiledOnly);
REGISTER_KERNEL_BUILDER(Name("IpufeedSend").Device(tensorflow::DEVICE_CPU),
                        CompiledOnly);
REGISTER_KERNEL_BUILDER(Name("IpufeedReceive").Device(tensorflow::DEVICE_CPU),
                        CompiledOnly);
REGISTER_KERNEL_BUILDER(Name("IpufeedStageEnters").Device(tensorflow::DEVICE_CPU),
                        CompiledOnly);
REGISTER_KERNEL_BUILDER(Name("IpufeedStageBegins").Device(tensorflow::DEVICE_CPU),
                        CompiledOnly);
REGISTER_KERNEL_BUILDER(Name("IpufeedStageEnds").Device(tensorflow::DEVICE_CPU),
                        CompiledOnly);

}  // namespace
}  // namespace ipufeed
