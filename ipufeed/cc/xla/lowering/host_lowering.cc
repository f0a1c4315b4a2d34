// The op of host_call_op.cc inside a compiled program, as it is compiled: a custom call
// in the chain of the queues' calls. host_calls.cc runs it.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "tensorflow/compiler/tf2xla/shape_util.h"
#include "tensorflow/compiler/tf2xla/type_util.h"
#include "tensorflow/compiler/tf2xla/xla_op_registry.h"
#include "tensorflow/core/framework/partial_tensor_shape.h"
#include "xla/calls/names.h"
#include "xla/layout_util.h"
#include "xla/lowering/custom_call.h"
#include "xla/lowering/xla_op.h"

namespace ipufeed {
namespace {

class HostCallXlaOp : public LoweredOp {
 public:
  explicit HostCallXlaOp(tensorflow::OpKernelConstruction* ctx) : LoweredOp(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("kind", &kind_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("text", &text_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("o", &op_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("dtypes", &dtypes_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("shapes", &shapes_));
  }

  absl::Status lower(tensorflow::XlaOpKernelContext* ctx) override {
    const int last = ctx->num_inputs() - 1;
    TF_RETURN_IF_ERROR(check_scalars(ctx, {last}));
    std::vector<xla::XlaOp> operands;
    std::vector<xla::Shape> shapes;
    for (int i = 0; i <= last; ++i) {
      operands.push_back(ctx->Input(i));
      auto shape = ctx->builder()->GetShape(operands.back());
      TF_RETURN_IF_ERROR(shape.status());
      xla::LayoutUtil::SetToDefaultLayout(&*shape);
      shapes.push_back(*std::move(shape));
    }
    std::vector<xla::Shape> results;
    for (std::size_t i = 0; i < shapes_.size(); ++i) {
      tensorflow::TensorShape shape;
      if (!shapes_[i].AsTensorShape(&shape)) {
        return absl::InvalidArgumentError(
            absl::StrCat("What the host gives must have a fully defined shape, got ",
                         shapes_[i].DebugString(), "."));
      }
      xla::PrimitiveType type;
      TF_RETURN_IF_ERROR(tensorflow::DataTypeToPrimitiveType(dtypes_[i], &type));
      results.push_back(tensorflow::TensorShapeToXLAShape(type, shape));
    }
    results.push_back(token_shape());
    const xla::XlaOp done =
        call(ctx->builder(), kHostCall, operands, shapes, results,
             absl::StrCat("{kind = \"", kind_, "\", text = \"x",
                          absl::BytesToHexString(text_), "\", o = ", op_, " : i64}"));
    for (std::size_t i = 0; i < results.size(); ++i) {
      ctx->SetOutput(static_cast<int>(i),
                     xla::GetTupleElement(done, static_cast<std::int64_t>(i)));
    }
    return absl::OkStatus();
  }

 private:
  std::string kind_;
  std::string text_;
  std::int64_t op_ = 0;
  std::vector<tensorflow::DataType> dtypes_;
  std::vector<tensorflow::PartialTensorShape> shapes_;
};

REGISTER_XLA_OP(Name("IpufeedHostCall"), HostCallXlaOp);

}  // namespace
}  // namespace ipufeed
