// Assertions in compiled programs: a custom call that fails, in the chain of the
// queues' calls. assert_calls.cc runs it.

#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "tensorflow/compiler/tf2xla/xla_op_registry.h"
#include "xla/calls/names.h"
#include "xla/lowering/custom_call.h"
#include "xla/lowering/xla_op.h"

namespace ipufeed {
namespace {

class AssertXlaOp : public LoweredOp {
 public:
  explicit AssertXlaOp(tensorflow::OpKernelConstruction* ctx) : LoweredOp(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("text", &text_));
  }

  absl::Status lower(tensorflow::XlaOpKernelContext* ctx) override {
    TF_RETURN_IF_ERROR(check_scalars(ctx, {0, 1}));
    const xla::Shape condition =
        xla::ShapeUtil::MakeShapeWithDescendingLayout(xla::PRED, {});
    // In hexadecimal digits, since a text may hold quotes.
    const xla::XlaOp done =
        call(ctx->builder(), kAssert, {ctx->Input(0), ctx->Input(1)},
             {condition, token_shape()}, {token_shape()},
             absl::StrCat("{text = \"x", absl::BytesToHexString(text_), "\"}"));
    ctx->SetOutput(0, xla::GetTupleElement(done, 0));
    return absl::OkStatus();
  }

 private:
  std::string text_;
};

REGISTER_XLA_OP(Name("IpufeedAssert"), AssertXlaOp);

}  // namespace
}  // namespace ipufeed
