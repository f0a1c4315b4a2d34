// The ops of replica_ops.cc inside a compiled program. What is exchanged becomes one
// custom call in the chain of the queues' calls, so that all replicas come to their
// meetings in the same order.

#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "replicas/processes.h"
#include "replicas/repeat_rule.h"
#include "replicas/replicas.h"
#include "run/program.h"
#include "tensorflow/compiler/tf2xla/xla_op_kernel.h"
#include "tensorflow/compiler/tf2xla/xla_op_registry.h"
#include "tensorflow/core/framework/types.h"
#include "xla/calls/xla_call.h"
#include "xla/calls/xla_types.h"
#include "xla/layout_util.h"
#include "xla/lowering/xla_op.h"

namespace ipufeed {
namespace {

using tensorflow::OpKernelConstruction;
using tensorflow::XlaOpKernelContext;

constexpr char kIndex[] = "ipufeed_replication_index";
constexpr char kRepeat[] = "ipufeed_repeat_count";

// With the other replicas of the program in this process.
absl::Status meet(const Meeting& meeting) {
  const Context& context = current_context();
  if (context.others == nullptr) return meet_alone(meeting);
  std::int64_t met_ns = 0;
  TF_RETURN_IF_ERROR(
      context.others->meet(*context.program, context.replica, meeting, &met_ns));
  // A step that follows does not make up for the wait.
  context.program->step_clock().take(met_ns);
  return absl::OkStatus();
}

absl::Status exchange(const ffi::RemainingArgs& args, ffi::RemainingRets& results,
                      std::int64_t kind, std::int64_t reduction, std::int64_t group) {
  TF_RETURN_IF_ERROR(check_exchange(kind, reduction));
  const std::size_t tensors = args.size() - 1;
  if (results.size() != args.size()) {
    return absl::InternalError("an exchange without its results.");
  }
  Meeting meeting;
  meeting.exchange = static_cast<Exchange>(kind);
  meeting.reduction = static_cast<Reduction>(reduction);
  meeting.group = group;
  meeting.tensors.reserve(tensors);
  for (std::size_t i = 0; i < tensors; ++i) {
    const auto value = args.get<ffi::AnyBuffer>(i);
    auto result = results.get<ffi::AnyBuffer>(i);
    if (!value.has_value() || !result.has_value()) {
      return absl::InternalError("an exchange without its operand.");
    }
    meeting.tensors.push_back({to_tensorflow(value->element_type()),
                               static_cast<std::int64_t>(value->element_count()),
                               value->untyped_data(),
                               static_cast<std::int64_t>((*result)->element_count()),
                               (*result)->untyped_data()});
  }
  write_token(results, tensors);
  const Context& context = current_context();
  bool is_between = false;
  TF_RETURN_IF_ERROR(is_between_processes(&meeting, context.replicas, &is_between));
  TF_RETURN_IF_ERROR(meet(meeting));
  if (!is_between) return absl::OkStatus();
  if (context.replica == 0) {
    CallProgram program;
    TF_RETURN_IF_ERROR(exchange_over_processes(*program, meeting));
  }
  // What the first replica has got from the other processes is for all here.
  meeting.exchange = Exchange::kBroadcast;
  for (Brought& each : meeting.tensors) each.input = each.result;
  return meet(meeting);
}

ffi::Error exchange_call(ffi::RemainingArgs args, ffi::RemainingRets results,
                         std::int64_t kind, std::int64_t reduction,
                         std::int64_t group) {
  return answer(kExchangeOfAll,
                [&] { return exchange(args, results, kind, reduction, group); });
}

ffi::Error index_call(ffi::Result<ffi::BufferR0<ffi::S32>> index) {
  return answer(kIndex, [&] {
    const Context& context = current_context();
    *index->typed_data() = process_index() * context.replicas + context.replica;
  });
}

ffi::Error repeat_call(ffi::BufferR0<ffi::S64> count,
                       ffi::Result<ffi::BufferR0<ffi::S64>> same,
                       std::int64_t mini_batches) {
  return answer(kRepeat, [&] {
    *same->typed_data() = *count.typed_data();
    return check_repeat_count(*count.typed_data(), mini_batches);
  });
}

XLA_FFI_DEFINE_HANDLER(kExchangeHandler, exchange_call,
                       ffi::Ffi::Bind()
                           .RemainingArgs()
                           .RemainingRets()
                           .Attr<std::int64_t>("kind")
                           .Attr<std::int64_t>("reduction")
                           .Attr<std::int64_t>("group"));
XLA_FFI_DEFINE_HANDLER(kIndexHandler, index_call,
                       ffi::Ffi::Bind().Ret<ffi::BufferR0<ffi::S32>>());
XLA_FFI_DEFINE_HANDLER(kRepeatHandler, repeat_call,
                       ffi::Ffi::Bind()
                           .Arg<ffi::BufferR0<ffi::S64>>()
                           .Ret<ffi::BufferR0<ffi::S64>>()
                           .Attr<std::int64_t>("mini_batches"));
XLA_FFI_REGISTER_HANDLER(xla::ffi::GetXlaFfiApi(), kExchangeOfAll, "Host",
                         kExchangeHandler);
XLA_FFI_REGISTER_HANDLER(xla::ffi::GetXlaFfiApi(), kExchangeOfGroup, "Host",
                         kExchangeHandler);
XLA_FFI_REGISTER_HANDLER(xla::ffi::GetXlaFfiApi(), kIndex, "Host", kIndexHandler);
XLA_FFI_REGISTER_HANDLER(xla::ffi::GetXlaFfiApi(), kRepeat, "Host", kRepeatHandler);

class ExchangeXlaOp : public LoweredOp {
 public:
  explicit ExchangeXlaOp(OpKernelConstruction* ctx) : LoweredOp(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("exchange", &exchange_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("reduction", &reduction_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("group", &group_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("replicas", &replicas_));
  }

  absl::Status lower(XlaOpKernelContext* ctx) override {
    const int last = ctx->num_inputs() - 1;
    TF_RETURN_IF_ERROR(check_exchange(exchange_, reduction_));
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
        call(ctx->builder(), group_ == 0 ? kExchangeOfAll : kExchangeOfGroup, operands,
             shapes, results,
             absl::StrCat("{kind = ", exchange_, " : i64, reduction = ", reduction_,
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
    if (exchange_ == static_cast<std::int64_t>(Exchange::kGather)) {
      dimensions.insert(dimensions.begin(), replicas_);
    } else if (exchange_ == static_cast<std::int64_t>(Exchange::kReduceScatter)) {
      const std::int64_t count = xla::ShapeUtil::ElementsIn(shape);
      dimensions = {(count + replicas_ - 1) / replicas_};
    }
    return xla::ShapeUtil::MakeShapeWithDescendingLayout(shape.element_type(),
                                                         dimensions);
  }

  std::int64_t exchange_ = 0;
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

REGISTER_XLA_OP(Name("IpufeedExchange"), ExchangeXlaOp);
REGISTER_XLA_OP(Name("IpufeedRepeatCount"), RepeatCountXlaOp);
REGISTER_XLA_OP(Name("IpufeedReplicationIndex"), ReplicationIndexXlaOp);

}  // namespace
}  // namespace ipufeed
