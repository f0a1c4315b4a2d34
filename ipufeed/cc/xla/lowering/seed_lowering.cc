// The ops of seed_ops.cc inside a compiled program: a custom call each. The one that
// draws a seed has a side effect, so that XLA neither moves it out of a loop nor merges
// two of them.

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "random/random_numbers.h"
#include "random/seed_draw.h"
#include "tensorflow/compiler/tf2xla/shape_util.h"
#include "tensorflow/compiler/tf2xla/xla_op_registry.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "xla/calls/xla_call.h"
#include "xla/calls/xla_types.h"
#include "xla/lowering/xla_op.h"

namespace ipufeed {
namespace {

using tensorflow::OpKernelConstruction;
using tensorflow::XlaOpKernelContext;

// The first is also in ipu_executable.cc: what calls it draws seeds.
constexpr char kSeed[] = "ipufeed_seed";
constexpr char kRandom[] = "ipufeed_random";

ffi::Error seed_call(ffi::BufferR1<ffi::S32> own,
                     ffi::Result<ffi::BufferR1<ffi::S32>> seed, std::int64_t o,
                     std::int64_t keeps_own) {
  return answer(kSeed, [&] {
    CallProgram program;
    draw_seed(*program, current_context(), o,
              keeps_own != 0 ? own.typed_data() : nullptr, seed->typed_data());
  });
}

ffi::Error random_call(ffi::BufferR1<ffi::S32> seed, ffi::Result<ffi::AnyBuffer> result,
                       std::int64_t distribution) {
  return answer(kRandom, [&] {
    return fill_random(static_cast<Distribution>(distribution), seed.typed_data(),
                       to_tensorflow(result->element_type()),
                       static_cast<std::int64_t>(result->element_count()),
                       result->untyped_data());
  });
}

XLA_FFI_DEFINE_HANDLER(kSeedHandler, seed_call,
                       ffi::Ffi::Bind()
                           .Arg<ffi::BufferR1<ffi::S32>>()
                           .Ret<ffi::BufferR1<ffi::S32>>()
                           .Attr<std::int64_t>("o")
                           .Attr<std::int64_t>("keeps_own"));
XLA_FFI_DEFINE_HANDLER(kRandomHandler, random_call,
                       ffi::Ffi::Bind()
                           .Arg<ffi::BufferR1<ffi::S32>>()
                           .Ret<ffi::AnyBuffer>()
                           .Attr<std::int64_t>("distribution"));
XLA_FFI_REGISTER_HANDLER(xla::ffi::GetXlaFfiApi(), kSeed, "Host", kSeedHandler);
XLA_FFI_REGISTER_HANDLER(xla::ffi::GetXlaFfiApi(), kRandom, "Host", kRandomHandler);

xla::Shape seed_shape() {
  return xla::ShapeUtil::MakeShapeWithDescendingLayout(xla::S32, {2});
}

absl::Status check_two(XlaOpKernelContext* ctx, int input) {
  const tensorflow::TensorShape shape = ctx->InputShape(input);
  if (shape == tensorflow::TensorShape({2})) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("a seed must have the shape [2], got ", shape.DebugString()));
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
