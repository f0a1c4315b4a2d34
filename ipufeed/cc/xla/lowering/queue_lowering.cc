// The ops of queues, of the clock and of steps inside a compiled program, as it is
// compiled. queue_calls.cc runs them.
//
// A queue op becomes a custom call with a side effect; its operands are those of the
// op, token included, which is what keeps the calls of one computation in order.

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "feeds/queue_ops.h"
#include "tensorflow/compiler/tf2xla/shape_util.h"
#include "tensorflow/compiler/tf2xla/type_util.h"
#include "tensorflow/compiler/tf2xla/xla_op_kernel.h"
#include "tensorflow/compiler/tf2xla/xla_op_registry.h"
#include "xla/calls/names.h"
#include "xla/hlo/builder/xla_builder.h"
#include "xla/layout_util.h"
#include "xla/lowering/custom_call.h"
#include "xla/lowering/xla_op.h"
#include "xla/shape_util.h"

namespace ipufeed {
namespace {

using tensorflow::DataType;
using tensorflow::OpKernelConstruction;
using tensorflow::PartialTensorShape;
using tensorflow::TensorShape;
using tensorflow::XlaOpKernelContext;

class DequeueXlaOp : public LoweredOp {
 public:
  explicit DequeueXlaOp(OpKernelConstruction* ctx) : LoweredOp(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("dtypes", &dtypes_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("shapes", &shapes_));
  }

  absl::Status lower(XlaOpKernelContext* ctx) override {
    TF_RETURN_IF_ERROR(check_signature(dtypes_.size(), shapes_.size()));
    TF_RETURN_IF_ERROR(check_scalars(ctx, {0, 1}));
    std::vector<xla::Shape> results;
    for (std::size_t i = 0; i < shapes_.size(); ++i) {
      TensorShape shape;
      if (!shapes_[i].AsTensorShape(&shape)) {
        return absl::InvalidArgumentError(
            absl::StrCat("An infeed's shapes must be fully defined, got ",
                         shapes_[i].DebugString(), "."));
      }
      xla::PrimitiveType type;
      TF_RETURN_IF_ERROR(tensorflow::DataTypeToPrimitiveType(dtypes_[i], &type));
      results.push_back(tensorflow::TensorShapeToXLAShape(type, shape));
    }
    results.push_back(token_shape());
    const xla::Shape number =
        xla::ShapeUtil::MakeShapeWithDescendingLayout(xla::S64, {});
    const xla::XlaOp done =
        call(ctx->builder(), kDequeue, {ctx->Input(0), ctx->Input(1)},
             {number, token_shape()}, results, "");
    for (std::size_t i = 0; i < results.size(); ++i) {
      ctx->SetOutput(static_cast<int>(i),
                     xla::GetTupleElement(done, static_cast<std::int64_t>(i)));
    }
    return absl::OkStatus();
  }

 private:
  std::vector<DataType> dtypes_;
  std::vector<PartialTensorShape> shapes_;
};

class EnqueueXlaOp : public LoweredOp {
 public:
  explicit EnqueueXlaOp(OpKernelConstruction* ctx) : LoweredOp(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("last", &last_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("capacity", &capacity_));
  }

  absl::Status lower(XlaOpKernelContext* ctx) override {
    TF_RETURN_IF_ERROR(check_capacity(capacity_));
    TF_RETURN_IF_ERROR(
        check_scalars(ctx, {ctx->num_inputs() - 2, ctx->num_inputs() - 1}));
    std::vector<xla::XlaOp> operands;
    std::vector<xla::Shape> shapes;
    for (int i = 0; i < ctx->num_inputs(); ++i) {
      operands.push_back(ctx->Input(i));
      auto shape = ctx->builder()->GetShape(operands.back());
      TF_RETURN_IF_ERROR(shape.status());
      if (shape->is_dynamic()) {
        return absl::InvalidArgumentError(absl::StrCat(
            "IPUOutfeedQueue.enqueue: component ", i, " has the shape ",
            shape->ToString(), ", some of which is known only when the program runs, ",
            "as of tf.where or a slice. An outfeed carries tensors of fixed shapes: ",
            "pad it to a fixed one, and enqueue its length as well."));
      }
      xla::LayoutUtil::SetToDefaultLayout(&*shape);
      shapes.push_back(*std::move(shape));
    }
    const xla::XlaOp done =
        call(ctx->builder(), kEnqueue, operands, shapes, {token_shape()},
             absl::StrCat("{last = ", last_ ? 1 : 0, " : i64, capacity = ", capacity_,
                          " : i64}"));
    ctx->SetOutput(0, xla::GetTupleElement(done, 0));
    return absl::OkStatus();
  }

 private:
  bool last_ = false;
  std::int64_t capacity_ = 0;
};

class ClockXlaOp : public LoweredOp {
 public:
  using LoweredOp::LoweredOp;

  absl::Status lower(XlaOpKernelContext* ctx) override {
    TF_RETURN_IF_ERROR(check_scalars(ctx, {0}));
    const xla::Shape stamp =
        xla::ShapeUtil::MakeShapeWithDescendingLayout(xla::S32, {2});
    const xla::XlaOp done = call(ctx->builder(), kClock, {ctx->Input(0)},
                                 {token_shape()}, {stamp, token_shape()}, "");
    ctx->SetOutput(0, xla::GetTupleElement(done, 0));
    ctx->SetOutput(1, xla::GetTupleElement(done, 1));
    return absl::OkStatus();
  }
};

class StepXlaOp : public LoweredOp {
 public:
  using LoweredOp::LoweredOp;

  absl::Status lower(XlaOpKernelContext* ctx) override {
    TF_RETURN_IF_ERROR(check_scalars(ctx, {0, 1}));
    const xla::Shape times =
        xla::ShapeUtil::MakeShapeWithDescendingLayout(xla::S32, {8});
    const xla::Shape nanoseconds =
        xla::ShapeUtil::MakeShapeWithDescendingLayout(xla::S64, {});
    const xla::XlaOp done =
        call(ctx->builder(), kStep, {ctx->Input(0), ctx->Input(1)},
             {nanoseconds, token_shape()}, {times, token_shape()}, "");
    ctx->SetOutput(0, xla::GetTupleElement(done, 0));
    ctx->SetOutput(1, xla::GetTupleElement(done, 1));
    return absl::OkStatus();
  }
};

REGISTER_XLA_OP(Name("IpufeedClock"), ClockXlaOp);
REGISTER_XLA_OP(Name("IpufeedStep"), StepXlaOp);
REGISTER_XLA_OP(Name("IpufeedDequeue"), DequeueXlaOp);
REGISTER_XLA_OP(Name("IpufeedEnqueue"), EnqueueXlaOp);

}  // namespace
}  // namespace ipufeed
