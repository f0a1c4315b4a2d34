// The op with which programs call the host, and its kernel for TensorFlow's executor.
// What it becomes in a compiled program is in host_lowering.cc.

#include <string>
#include <vector>

#include "base/kernels.h"
#include "feeds/queue_ops.h"
#include "host/host_call.h"
#include "run/step_program.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/partial_tensor_shape.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tensorflow/core/framework/tensor.h"

namespace ipufeed {
namespace {

using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::PartialTensorShape;
using tensorflow::Tensor;
using tensorflow::TensorShape;
using tensorflow::shape_inference::InferenceContext;
using tensorflow::shape_inference::ShapeHandle;

REGISTER_OP("IpufeedHostCall")
    .Input("inputs: Tin")
    .Input("token: uint32")
    .Output("outputs: dtypes")
    .Output("next: uint32")
    .Attr("Tin: list(type) >= 0")
    .Attr("dtypes: list(type) >= 0")
    .Attr("shapes: list(shape) >= 0")
    .Attr("kind: string")
    .Attr("text: string = ''")
    .Attr("o: int = 0")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext* c) -> absl::Status {
      std::vector<PartialTensorShape> shapes;
      TF_RETURN_IF_ERROR(c->GetAttr("shapes", &shapes));
      TF_RETURN_IF_ERROR(check_signature(static_cast<std::size_t>(c->num_outputs()) - 1,
                                         shapes.size()));
      for (std::size_t i = 0; i < shapes.size(); ++i) {
        ShapeHandle shape;
        TF_RETURN_IF_ERROR(c->MakeShapeFromPartialTensorShape(shapes[i], &shape));
        c->set_output(static_cast<int>(i), shape);
      }
      return token_shape_fn(c, {c->num_inputs() - 1});
    })
    .Doc(R"doc(
Calls a function of the host, and waits for it: see ipufeed/cc/host/host_call.h.

kind, text: which function, and the attributes that it gets.
o: the op's number in its program.
)doc");

std::vector<std::int64_t> sizes_of(const TensorShape& shape) {
  const auto sizes = shape.dim_sizes();
  return {sizes.begin(), sizes.end()};
}

class HostCallOp : public Kernel {
 public:
  explicit HostCallOp(OpKernelConstruction* ctx) : Kernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("kind", &kind_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("text", &text_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("o", &op_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("shapes", &shapes_));
  }

 private:
  absl::Status run(OpKernelContext* ctx) override {
    const int last = ctx->num_inputs() - 1;
    TF_RETURN_IF_ERROR(check_scalars(ctx, {last}));
    HostTensors inputs;
    HostTensors outputs;
    for (int i = 0; i < last; ++i) {
      const Tensor& value = ctx->input(i);
      TF_RETURN_IF_ERROR(
          check_bytes(type_string(), static_cast<std::size_t>(i), value.dtype()));
      inputs.add(value.dtype(), sizes_of(value.shape()), value.data());
    }
    for (std::size_t i = 0; i < shapes_.size(); ++i) {
      TensorShape shape;
      if (!shapes_[i].AsTensorShape(&shape)) {
        return absl::InvalidArgumentError(
            absl::StrCat("What the host gives must have a fully defined shape, got ",
                         shapes_[i].DebugString(), "."));
      }
      const int index = static_cast<int>(i);
      TF_RETURN_IF_ERROR(check_bytes(type_string(), i, output_type(index)));
      Tensor* result = nullptr;
      TF_RETURN_IF_ERROR(allocate_output(ctx, index, shape, &result));
      outputs.add(result->dtype(), sizes_of(shape), result->data());
    }
    HostCall call{};
    call.kind = kind_.c_str();
    call.text = text_.c_str();
    call.text_size = static_cast<std::int64_t>(text_.size());
    call.op = op_;
    call.inputs = inputs.size();
    call.outputs = outputs.size();
    call.input = inputs.get();
    call.output = outputs.get();
    TF_RETURN_IF_ERROR(with_step_program(ctx, [&](Program& program) {
      return call_host(program, current_context(), &call);
    }));
    ctx->set_output(ctx->num_outputs() - 1, ctx->input(last));
    return absl::OkStatus();
  }

  std::string kind_;
  std::string text_;
  std::int64_t op_ = 0;
  std::vector<PartialTensorShape> shapes_;
};

REGISTER_KERNEL_BUILDER(Name("IpufeedHostCall").Device(tensorflow::DEVICE_CPU),
                        HostCallOp);

}  // namespace
}  // namespace ipufeed
