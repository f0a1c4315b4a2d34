// The queue ops inside a compiled program: calls back into the feeds.
//
// 85 CPU-seconds to compile, for XLA's headers. A queue op becomes a custom call with a
// side effect; its operands are those of the op, token included, which is what keeps
// the calls of one computation in order.

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/kernels.h"
#include "base/trace.h"
#include "core/step_clock.h"
#include "core/wait.h"
#include "device/step_op.h"
#include "feeds/infeed.h"
#include "feeds/outfeed.h"
#include "feeds/queue_ops.h"
#include "run/program.h"
#include "tensorflow/compiler/tf2xla/shape_util.h"
#include "tensorflow/compiler/tf2xla/type_util.h"
#include "tensorflow/compiler/tf2xla/xla_op_kernel.h"
#include "tensorflow/compiler/tf2xla/xla_op_registry.h"
#include "xla/calls/xla_call.h"
#include "xla/calls/xla_types.h"
#include "xla/ffi/api/ffi.h"
#include "xla/hlo/builder/xla_builder.h"
#include "xla/layout_util.h"
#include "xla/lowering/xla_op.h"
#include "xla/shape_util.h"

namespace ipufeed {
namespace {

using tensorflow::DataType;
using tensorflow::OpKernelConstruction;
using tensorflow::PartialTensorShape;
using tensorflow::Tensor;
using tensorflow::TensorShape;
using tensorflow::XlaOpKernelContext;

constexpr char kDequeue[] = "ipufeed_dequeue";
constexpr char kEnqueue[] = "ipufeed_enqueue";
constexpr char kClock[] = "ipufeed_clock";
constexpr char kStep[] = "ipufeed_step";

absl::Status read_number(const ffi::RemainingArgs& args, std::size_t index,
                         std::int64_t* number) {
  const auto buffer = args.get<ffi::AnyBuffer>(index);
  if (!buffer.has_value() || buffer->size_bytes() != sizeof(*number)) {
    return absl::InternalError("a call without its 64-bit number.");
  }
  std::memcpy(number, buffer->untyped_data(), sizeof(*number));
  return absl::OkStatus();
}

std::int64_t total_bytes(const std::vector<Tensor>& components) {
  std::int64_t bytes = 0;
  for (const Tensor& each : components) {
    bytes += static_cast<std::int64_t>(each.TotalBytes());
  }
  return bytes;
}

// Before an element is taken: whether the program has room for it. The queue checks
// that its elements are what its signature says.
absl::Status check_infeed(const Infeed& feed, ffi::RemainingRets& results) {
  const Signature& elements = feed.signature();
  bool same = elements.dtypes.size() + 1 == results.size();
  for (std::size_t i = 0; same && i < elements.dtypes.size(); ++i) {
    auto result = results.get<ffi::AnyBuffer>(i);
    if (!result.has_value())
      return absl::InternalError("a dequeue without its result.");
    const auto dimensions = (*result)->dimensions();
    const TensorShape& shape = elements.shapes[i];
    same = to_tensorflow((*result)->element_type()) == elements.dtypes[i] &&
           shape.dims() == static_cast<int>(dimensions.size());
    for (int d = 0; same && d < shape.dims(); ++d) {
      same = shape.dim_size(d) == dimensions[static_cast<std::size_t>(d)];
    }
  }
  if (same) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "The program was compiled for another infeed: the elements of queue '",
      feed.name(), "' are ", elements.describe(), "."));
}

absl::Status dequeue(const ffi::RemainingArgs& args, ffi::RemainingRets& results) {
  std::int64_t number = 0;
  TF_RETURN_IF_ERROR(read_number(args, 0, &number));
  CallProgram program;
  Infeed* feed = nullptr;
  TF_RETURN_IF_ERROR(program->infeed(number, &feed));
  std::vector<Tensor> components;
  const bool traced = traces();
  const std::int64_t start_ns = traced ? now_ns() : 0;
  TF_RETURN_IF_ERROR(check_infeed(*feed, results));
  TF_RETURN_IF_ERROR(feed->dequeue(*program, current_context().replica, &components));
  const std::int64_t got_ns = traced ? now_ns() : 0;
  for (std::size_t i = 0; i < components.size(); ++i) {
    auto result = results.get<ffi::AnyBuffer>(i);
    std::memcpy((*result)->untyped_data(), components[i].data(),
                components[i].TotalBytes());
  }
  if (traced) {
    const std::int64_t end_ns = now_ns();
    record({TraceKind::kHostToDevice, program->ordinal(), number, start_ns, end_ns,
            end_ns - got_ns, got_ns - start_ns, total_bytes(components), 1},
           feed->name());
  }
  write_token(results, components.size());
  return absl::OkStatus();
}

absl::Status enqueue(const ffi::RemainingArgs& args, ffi::RemainingRets& results,
                     std::int64_t last, std::int64_t capacity) {
  if (args.size() < 2) return absl::InternalError("an enqueue without its number.");
  const std::size_t components = args.size() - 2;
  std::int64_t number = 0;
  TF_RETURN_IF_ERROR(read_number(args, components, &number));
  CallProgram program;
  Outfeed* feed = nullptr;
  TF_RETURN_IF_ERROR(
      program->outfeed(number, last != 0 ? OutfeedMode::kLast : OutfeedMode::kAll,
                       static_cast<std::size_t>(capacity), &feed));
  const bool traced = traces();
  const std::int64_t start_ns = traced ? now_ns() : 0;
  const Context& context = current_context();
  const bool replicated = context.replicas > 1;
  std::vector<ResultPart> parts;
  ResultElement element;
  element.components.reserve(components);
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < components; ++i) {
    const auto operand = args.get<ffi::AnyBuffer>(i);
    if (!operand.has_value()) {
      return absl::InternalError("an enqueue without its operand.");
    }
    TensorShape shape;
    for (const auto dimension : operand->dimensions()) {
      TF_RETURN_IF_ERROR(shape.AddDimWithStatus(dimension));
    }
    const DataType dtype = to_tensorflow(operand->element_type());
    if (dtype == tensorflow::DT_INVALID) {
      return absl::InvalidArgumentError(
          absl::StrCat("Outfeed queue '", feed->name(),
                       "' cannot carry the dtype of component ", i, "."));
    }
    bytes += static_cast<std::int64_t>(operand->size_bytes());
    if (replicated) {  // it copies by itself, to its place among the others
      parts.push_back({dtype, std::move(shape), operand->untyped_data()});
      continue;
    }
    Tensor& tensor = element.components.emplace_back();
    TF_RETURN_IF_ERROR(
        allocate(dtype, shape, "a result of outfeed queue", feed->name(), &tensor));
    std::memcpy(tensor.data(), operand->untyped_data(), operand->size_bytes());
  }
  const std::int64_t copied_ns = traced ? now_ns() : 0;
  if (replicated) {
    TF_RETURN_IF_ERROR(feed->enqueue_part(*program, context.replica, parts));
  } else {
    TF_RETURN_IF_ERROR(feed->enqueue(*program, std::move(element)));
  }
  if (traced) {
    const std::int64_t end_ns = now_ns();
    record({TraceKind::kDeviceToHost, program->ordinal(), number, start_ns, end_ns,
            copied_ns - start_ns, end_ns - copied_ns, bytes, 1},
           feed->name());
  }
  write_token(results, 0);
  return absl::OkStatus();
}

ffi::Error dequeue_call(ffi::RemainingArgs args, ffi::RemainingRets results) {
  return answer(kDequeue, [&] { return dequeue(args, results); });
}

ffi::Error enqueue_call(ffi::RemainingArgs args, ffi::RemainingRets results,
                        std::int64_t last, std::int64_t capacity) {
  return answer(kEnqueue, [&] { return enqueue(args, results, last, capacity); });
}

absl::Status clock(const ffi::RemainingArgs& args, ffi::RemainingRets& results) {
  const std::int64_t now = now_ns();
  auto stamp = results.get<ffi::AnyBuffer>(0);
  if (args.size() != 1 || !stamp.has_value() || (*stamp)->size_bytes() != sizeof(now)) {
    return absl::InternalError("a clock call without its result.");
  }
  std::memcpy((*stamp)->untyped_data(), &now, sizeof(now));
  write_token(results, 1);
  return absl::OkStatus();
}

ffi::Error clock_call(ffi::RemainingArgs args, ffi::RemainingRets results) {
  return answer(kClock, [&] { return clock(args, results); });
}

absl::Status step(const ffi::RemainingArgs& args, ffi::RemainingRets& results) {
  std::int64_t step_ns = 0;
  TF_RETURN_IF_ERROR(read_number(args, 0, &step_ns));
  StepTimes times;
  auto result = results.get<ffi::AnyBuffer>(0);
  if (!result.has_value() || (*result)->size_bytes() != sizeof(times)) {
    return absl::InternalError("a step call without its result.");
  }
  CallProgram program;
  TF_RETURN_IF_ERROR(run_step(*program, step_ns, &times));
  std::memcpy((*result)->untyped_data(), &times, sizeof(times));
  write_token(results, 1);
  return absl::OkStatus();
}

ffi::Error step_call(ffi::RemainingArgs args, ffi::RemainingRets results) {
  return answer(kStep, [&] { return step(args, results); });
}

XLA_FFI_DEFINE_HANDLER(kDequeueHandler, dequeue_call,
                       ffi::Ffi::Bind().RemainingArgs().RemainingRets());
XLA_FFI_DEFINE_HANDLER(kEnqueueHandler, enqueue_call,
                       ffi::Ffi::Bind()
                           .RemainingArgs()
                           .RemainingRets()
                           .Attr<std::int64_t>("last")
                           .Attr<std::int64_t>("capacity"));
XLA_FFI_DEFINE_HANDLER(kClockHandler, clock_call,
                       ffi::Ffi::Bind().RemainingArgs().RemainingRets());
XLA_FFI_DEFINE_HANDLER(kStepHandler, step_call,
                       ffi::Ffi::Bind().RemainingArgs().RemainingRets());
XLA_FFI_REGISTER_HANDLER(xla::ffi::GetXlaFfiApi(), kStep, "Host", kStepHandler);
XLA_FFI_REGISTER_HANDLER(xla::ffi::GetXlaFfiApi(), kClock, "Host", kClockHandler);
XLA_FFI_REGISTER_HANDLER(xla::ffi::GetXlaFfiApi(), kDequeue, "Host", kDequeueHandler);
XLA_FFI_REGISTER_HANDLER(xla::ffi::GetXlaFfiApi(), kEnqueue, "Host", kEnqueueHandler);

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
