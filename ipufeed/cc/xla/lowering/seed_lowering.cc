// The ops of seed_ops.cc inside a compiled program, as it is compiled: a custom call
// each. seed_calls.cc runs them. The one that draws a seed has a side effect, so that
// XLA neither moves it out of a loop nor merges two of them.

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "tensorflow/compiler/tf2xla/shape_util.h"
#include "tensorflow/compiler/tf2xla/xla_op_registry.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "xla/calls/names.h"
#include "xla/lowering/custom_call.h"
#include "xla/lowering/xla_op.h"

namespace ipufeed {
namespace {

using tensorflow::OpKernelConstruction;
using tensorflow::XlaOpKernelContext;

xla::Shape seed_shape() {
  return xla::ShapeUtil::MakeShapeWithDescendingLayout(xla::S32, {2});
}

absl::Status check_two(XlaOpKernelContext* ctx, int input) {
  TF_ASSIGN_OR_RETURN(const xla::Shape shape, ctx->InputXlaShape(input));
  if (shape.dimensions() == absl::Span<const std::int64_t>({2}))
    return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("a seed must have the shape [2], got ", shape.ToString()));
}

class SeedXlaOp : public LoweredOp {
 public:
  explicit SeedXlaOp(OpKernelConstruction* ctx) : LoweredOp(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("o", &op_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("keeps_own", &keeps_own_));
  }

  absl::Status lower(XlaOpKernelContext* ctx) override {
    TF_RETURN_IF_ERROR(check_two(ctx, 0));
    const xla::XlaOp done =
        call(ctx->builder(), kSeed, {ctx->Input(0)}, {seed_shape()}, {seed_shape()},
             absl::StrCat("{o = ", op_, " : i64, keeps_own = ", keeps_own_ ? 1 : 0,
                          " : i64}"));
    ctx->SetOutput(0, xla::GetTupleElement(done, 0));
    return absl::OkStatus();
  }

 private:
  std::int64_t op_ = 0;
  bool keeps_own_ = false;
};

class RandomXlaOp : public LoweredOp {
 public:
  explicit RandomXlaOp(OpKernelConstruction* ctx) : LoweredOp(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("distribution", &distribution_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("dtype", &dtype_));
  }

  absl::Status lower(XlaOpKernelContext* ctx) override {
    TF_RETURN_IF_ERROR(check_two(ctx, 1));
    tensorflow::TensorShape dimensions;
    TF_RETURN_IF_ERROR(ctx->ConstantInputAsShape(0, &dimensions));
    xla::Shape shape;
    TF_RETURN_IF_ERROR(tensorflow::TensorShapeToXLAShape(dtype_, dimensions, &shape));
    const xla::XlaOp done =
        call(ctx->builder(), kRandom, {ctx->Input(1)}, {seed_shape()}, {shape},
             absl::StrCat("{distribution = ", distribution_, " : i64}"));
    ctx->SetOutput(0, xla::GetTupleElement(done, 0));
    return absl::OkStatus();
  }

 private:
  std::int64_t distribution_ = 0;
  tensorflow::DataType dtype_ = tensorflow::DT_INVALID;
};

REGISTER_XLA_OP(Name("IpufeedSeed"), SeedXlaOp);
REGISTER_XLA_OP(Name("IpufeedRandom").CompileTimeConstantInput("shape"), RandomXlaOp);

}  // namespace
}  // namespace ipufeed
