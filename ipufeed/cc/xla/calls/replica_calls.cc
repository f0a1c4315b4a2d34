// The calls of the replicas of a compiled program. replica_lowering.cc puts them in.

#include <cstddef>
#include <cstdint>

#include "replicas/processes.h"
#include "replicas/repeat_rule.h"
#include "replicas/replicas.h"
#include "run/program.h"
#include "xla/calls/names.h"
#include "xla/calls/xla_call.h"
#include "xla/calls/xla_types.h"
#include "xla/ffi/api/ffi.h"

namespace ipufeed {
namespace {

// With the other replicas of the program in this process.
absl::Status run_collective(const CollectiveRequest& request) {
  const Context& context = current_context();
  if (context.others == nullptr) return run_collective_alone(request);
  std::int64_t arrived_ns = 0;
  TF_RETURN_IF_ERROR(context.others->run_collective(*context.program, context.replica,
                                                    request, &arrived_ns));
  // A step that follows does not make up for the wait.
  context.program->step_clock().take(arrived_ns);
  return absl::OkStatus();
}

absl::Status collective(const ffi::RemainingArgs& args, ffi::RemainingRets& results,
                        std::int64_t kind, std::int64_t reduction, std::int64_t group) {
  TF_RETURN_IF_ERROR(check_collective(kind, reduction));
  const std::size_t tensors = args.size() - 1;
  if (results.size() != args.size()) {
    return absl::InternalError("a collective without its results.");
  }
  CollectiveRequest request;
  request.collective = static_cast<Collective>(kind);
  request.reduction = static_cast<Reduction>(reduction);
  request.group = group;
  request.tensors.reserve(tensors);
  for (std::size_t i = 0; i < tensors; ++i) {
    const auto value = args.get<ffi::AnyBuffer>(i);
    auto result = results.get<ffi::AnyBuffer>(i);
    if (!value.has_value() || !result.has_value()) {
      return absl::InternalError("a collective without its operand.");
    }
    request.tensors.push_back({to_tensorflow(value->element_type()),
                               static_cast<std::int64_t>(value->element_count()),
                               value->untyped_data(),
                               static_cast<std::int64_t>((*result)->element_count()),
                               (*result)->untyped_data()});
  }
  write_token(results, tensors);
  const Context& context = current_context();
  bool is_between = false;
  TF_RETURN_IF_ERROR(is_between_processes(&request, context.replicas, &is_between));
  if (!is_between) return run_collective(request);
  CallProgram program;
  if (context.others == nullptr) {
    TF_RETURN_IF_ERROR(check_collective_alone(request));
    return reduce_over_processes(*program, request);
  }
  TF_RETURN_IF_ERROR(run_collective(request));
  for (Brought& each : request.tensors) each.input = each.result;
  if (context.replica == 0) {
    TF_RETURN_IF_ERROR(reduce_over_processes(*program, request));
  }
  // What the first replica has got from the other processes is for all here.
  request.collective = Collective::kBroadcast;
  return run_collective(request);
}

ffi::Error collective_call(ffi::RemainingArgs args, ffi::RemainingRets results,
                           std::int64_t kind, std::int64_t reduction,
                           std::int64_t group) {
  return answer(kCollectiveOfAll,
                [&] { return collective(args, results, kind, reduction, group); });
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

XLA_FFI_DEFINE_HANDLER(kCollectiveHandler, collective_call,
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
XLA_FFI_REGISTER_HANDLER(xla::ffi::GetXlaFfiApi(), kCollectiveOfAll, "Host",
                         kCollectiveHandler);
XLA_FFI_REGISTER_HANDLER(xla::ffi::GetXlaFfiApi(), kCollectiveOfGroup, "Host",
                         kCollectiveHandler);
XLA_FFI_REGISTER_HANDLER(xla::ffi::GetXlaFfiApi(), kIndex, "Host", kIndexHandler);
XLA_FFI_REGISTER_HANDLER(xla::ffi::GetXlaFfiApi(), kRepeat, "Host", kRepeatHandler);

}  // namespace
}  // namespace ipufeed
