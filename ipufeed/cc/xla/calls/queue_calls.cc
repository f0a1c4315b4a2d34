// The calls of the queues, of the clock and of steps, as a compiled program makes them.
// queue_lowering.cc puts them in.

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
#include "feeds/lease.h"
#include "feeds/outfeed.h"
#include "run/program.h"
#include "xla/calls/names.h"
#include "xla/calls/xla_call.h"
#include "xla/calls/xla_types.h"
#include "xla/ffi/api/ffi.h"

namespace ipufeed {
namespace {

using tensorflow::DataType;
using tensorflow::Tensor;
using tensorflow::TensorShape;

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
// that its elements match its signature.
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
  TF_RETURN_IF_ERROR(lease_infeed(*program, number, &feed));
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
  TF_RETURN_IF_ERROR(lease_outfeed(*program, number,
                                   last != 0 ? OutfeedMode::kLast : OutfeedMode::kAll,
                                   static_cast<std::size_t>(capacity), &feed));
  const bool traced = traces();
  const std::int64_t start_ns = traced ? now_ns() : 0;
  const Context& context = current_context();
  // Kept, so that no result allocates it.
  static thread_local std::vector<ResultPart> parts;
  parts.clear();
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
    parts.push_back({dtype, std::move(shape), operand->untyped_data()});
  }
  const std::int64_t waited_before_ns = traced ? feed->stats().device.waited_ns : 0;
  if (context.replicas > 1) {
    TF_RETURN_IF_ERROR(feed->enqueue_part(*program, context.replica, parts));
  } else {
    TF_RETURN_IF_ERROR(feed->enqueue(*program, parts));
  }
  if (traced) {
    const std::int64_t end_ns = now_ns();
    const std::int64_t waited_ns = feed->stats().device.waited_ns - waited_before_ns;
    record({TraceKind::kDeviceToHost, program->ordinal(), number, start_ns, end_ns,
            end_ns - start_ns - waited_ns, waited_ns, bytes, 1},
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

}  // namespace
}  // namespace ipufeed
