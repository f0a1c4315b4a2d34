// The ops of replica_ops.cc inside a compiled program, as it is compiled.
// replica_calls.cc runs them. A collective becomes one custom call in the chain of
// the queues' calls, so that all replicas reach their collectives in the same order.

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "replicas/replicas.h"
#include "tensorflow/compiler/tf2xla/xla_op_kernel.h"
#include "tensorflow/compiler/tf2xla/xla_op_registry.h"
#include "xla/calls/names.h"
#include "xla/layout_util.h"
#include "xla/lowering/custom_call.h"
#include "xla/lowering/xla_op.h"

namespace ipufeed {
namespace {

using tensorflow::OpKernelConstruction;
using tensorflow::XlaOpKernelContext;

class CollectiveXlaOp : public LoweredOp {
 public:
  explicit CollectiveXlaOp(OpKernelConstruction* ctx) : LoweredOp(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("collective", &collective_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("reduction", &reduction_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("group", &group_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("replicas", &replicas_));
  }

  absl::Status lower(XlaOpKernelContext* ctx) override {
    const int last = ctx->num_inputs() - 1;
    TF_RETURN_IF_ERROR(check_collective(collective_, reduction_));
    TF_RETURN_IF_ERROR(check_scalars(ctx, {last}));
    std::vector<xla::XlaOp> operands;
    std::vector<xla::Shape> shapes;
    std::vector<xla::Shape> results;
    for (int i = 0; i < ctx->num_inputs(); ++i) {
      operands.push_back(ctx->Input(i));
      auto shape = ctx->builder()->GetShape(operands.back());
      TF_RETURN_IF_ERROR(shape.status());
      xla::LayoutUtil::SetToDefaultLayout(&*shape);
      results.push_back(i == last ? token_shape() : result_of(*shape));
      shapes.push_back(*std::move(shape));
    }
    const xla::XlaOp done =
        call(ctx->builder(), group_ == 0 ? kCollectiveOfAll : kCollectiveOfGroup,
             operands, shapes, results,
             absl::StrCat("{kind = ", collective_, " : i64, reduction = ", reduction_,
                          " : i64, group = ", group_, " : i64}"));
    for (int i = 0; i <= last; ++i) {
      ctx->SetOutput(i, xla::GetTupleElement(done, i));
    }
    return absl::OkStatus();
  }

 private:
  xla::Shape result_of(const xla::Shape& shape) const {
    std::vector<std::int64_t> dimensions(shape.dimensions().begin(),
                                         shape.dimensions().end());
    if (collective_ == static_cast<std::int64_t>(Collective::kGather)) {
      dimensions.insert(dimensions.begin(), replicas_);
    } else if (collective_ == static_cast<std::int64_t>(Collective::kReduceScatter)) {
      const std::int64_t count = xla::ShapeUtil::ElementsIn(shape);
      dimensions = {(count + replicas_ - 1) / replicas_};
    }
    return xla::ShapeUtil::MakeShapeWithDescendingLayout(shape.element_type(),
                                                         dimensions);
  }

  std::int64_t collective_ = 0;
  std::int64_t reduction_ = 0;
  std::int64_t group_ = 0;
  std::int64_t replicas_ = 1;
};

class ReplicationIndexXlaOp : public LoweredOp {
 public:
  using LoweredOp::LoweredOp;

  absl::Status lower(XlaOpKernelContext* ctx) override {
    const xla::Shape index =
        xla::ShapeUtil::MakeShapeWithDescendingLayout(xla::S32, {});
    const xla::XlaOp done = call(ctx->builder(), kIndex, {}, {}, {index}, "");
    ctx->SetOutput(0, xla::GetTupleElement(done, 0));
    return absl::OkStatus();
  }
};

class RepeatCountXlaOp : public LoweredOp {
 public:
  explicit RepeatCountXlaOp(OpKernelConstruction* ctx) : LoweredOp(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("mini_batches", &mini_batches_));
  }

  absl::Status lower(XlaOpKernelContext* ctx) override {
    TF_RETURN_IF_ERROR(check_scalars(ctx, {0}));
    if (mini_batches_ == 1) {
      ctx->SetOutput(0, ctx->Input(0));
      return absl::OkStatus();
    }
    auto shape = ctx->builder()->GetShape(ctx->Input(0));
    TF_RETURN_IF_ERROR(shape.status());
    const xla::Shape count =
        xla::ShapeUtil::MakeShapeWithDescendingLayout(xla::S64, {});
    const xla::XlaOp done = call(
        ctx->builder(), kRepeat, {xla::ConvertElementType(ctx->Input(0), xla::S64)},
        {count}, {count}, absl::StrCat("{mini_batches = ", mini_batches_, " : i64}"));
    ctx->SetOutput(0, xla::ConvertElementType(xla::GetTupleElement(done, 0),
                                              shape->element_type()));
    return absl::OkStatus();
  }

 private:
  std::int64_t mini_batches_ = 1;
};

REGISTER_XLA_OP(Name("IpufeedCollective"), CollectiveXlaOp);
REGISTER_XLA_OP(Name("IpufeedRepeatCount"), RepeatCountXlaOp);
REGISTER_XLA_OP(Name("IpufeedReplicationIndex"), ReplicationIndexXlaOp);

}  // namespace
}  // namespace ipufeed
