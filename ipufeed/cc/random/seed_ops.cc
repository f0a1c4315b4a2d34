// The ops of a program's random operations, and their kernels for TensorFlow's
// executor. seed_lowering.cc has their form in compiled programs.

#include "base/kernels.h"
#include "random/random_numbers.h"
#include "random/seed_draw.h"
#include "run/step_program.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/tensor_util.h"

namespace ipufeed {
namespace {

using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::TensorShape;
using tensorflow::shape_inference::DimensionHandle;
using tensorflow::shape_inference::InferenceContext;
using tensorflow::shape_inference::ShapeHandle;

absl::Status check_two(const Tensor& seed) {
  if (seed.shape() == TensorShape({2})) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("a seed must have the shape [2], got ", seed.shape().DebugString()));
}

absl::Status check_two(InferenceContext* c, int input) {
  ShapeHandle shape;
  TF_RETURN_IF_ERROR(c->WithRank(c->input(input), 1, &shape));
  DimensionHandle size;
  return c->WithValue(c->Dim(shape, 0), 2, &size);
}

REGISTER_OP("IpufeedSeed")
    .Input("own: int32")
    .Output("seed: int32")
    .Attr("o: int")
    .Attr("keeps_own: bool = false")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext* c) {
      TF_RETURN_IF_ERROR(check_two(c, 0));
      c->set_output(0, c->Vector(2));
      return absl::OkStatus();
    })
    .Doc(R"doc(
Draws the seed of a random operation: see ipufeed/cc/core/seeds.h.

own: int32 [2]. The op comes after what computes it.
o: the op's number in its program.
keeps_own: gives `own` (of another replica than the first: changed) unless the device's
  seed has been reset.
)doc");

class SeedOp : public Kernel {
 public:
  explicit SeedOp(OpKernelConstruction* ctx) : Kernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("o", &op_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("keeps_own", &keeps_own_));
  }

  absl::Status run(OpKernelContext* ctx) override {
    TF_RETURN_IF_ERROR(check_two(ctx->input(0)));
    Tensor* seed = nullptr;
    TF_RETURN_IF_ERROR(allocate_output(ctx, 0, TensorShape({2}), &seed));
    const std::int32_t* own =
        keeps_own_ ? ctx->input(0).flat<std::int32_t>().data() : nullptr;
    return with_step_program(ctx, [&](Program& program) {
      draw_seed(program, current_context(), op_, own,
                seed->flat<std::int32_t>().data());
      return absl::OkStatus();
    });
  }

 private:
  std::int64_t op_ = 0;
  bool keeps_own_ = false;
};

REGISTER_KERNEL_BUILDER(Name("IpufeedSeed").Device(tensorflow::DEVICE_CPU), SeedOp);

REGISTER_OP("IpufeedRandom")
    .Input("shape: int32")
    .Input("seed: int32")
    .Output("numbers: dtype")
    .Attr("dtype: {half, bfloat16, float, double}")
    .Attr("distribution: int")
    .SetShapeFn([](InferenceContext* c) -> absl::Status {
      TF_RETURN_IF_ERROR(check_two(c, 1));
      ShapeHandle shape;
      TF_RETURN_IF_ERROR(c->MakeShapeFromShapeTensor(0, &shape));
      c->set_output(0, shape);
      return absl::OkStatus();
    })
    .Doc("Random numbers of a seed: see ipufeed/cc/random/random_numbers.h.");

class RandomOp : public Kernel {
 public:
  explicit RandomOp(OpKernelConstruction* ctx) : Kernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("distribution", &distribution_));
  }

  absl::Status run(OpKernelContext* ctx) override {
    TensorShape shape;
    TF_RETURN_IF_ERROR(tensorflow::tensor::MakeShape(ctx->input(0), &shape));
    TF_RETURN_IF_ERROR(check_two(ctx->input(1)));
    Tensor* numbers = nullptr;
    TF_RETURN_IF_ERROR(allocate_output(ctx, 0, shape, &numbers));
    return fill_random(static_cast<Distribution>(distribution_),
                       ctx->input(1).flat<std::int32_t>().data(), numbers->dtype(),
                       numbers->NumElements(), numbers->data());
  }

 private:
  std::int64_t distribution_ = 0;
};

REGISTER_KERNEL_BUILDER(Name("IpufeedRandom").Device(tensorflow::DEVICE_CPU), RandomOp);

}  // namespace
}  // namespace ipufeed
