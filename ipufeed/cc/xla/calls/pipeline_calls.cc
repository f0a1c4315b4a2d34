// A pipeline inside a compiled program, while it runs: one call that runs a program on
// each IPU, and in these programs the calls that send and receive.
//
//   the call -> run_on_ipus() -> run_ipu_program() on each, rings between
//
// pipeline_lowering.cc makes the programs.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/trace.h"
#include "core/mutex.h"
#include "core/wait.h"
#include "device/ipu_threads.h"
#include "device/offload.h"
#include "device/sleep.h"
#include "pipeline/ipu_program.h"
#include "pipeline/pipeline.h"
#include "pipeline/pipeline_count.h"
#include "replicas/replicas.h"
#include "run/program.h"
#include "xla/calls/names.h"
#include "xla/calls/xla_call.h"
#include "xla/ffi/api/ffi.h"

namespace ipufeed {
namespace {

using Numbers = ffi::Span<const std::int64_t>;

Memory memory_of(const ffi::AnyBuffer& buffer) {
  return {buffer.untyped_data(), buffer.size_bytes()};
}

absl::Status read(const ffi::RemainingArgs& args, std::size_t count,
                  std::vector<Memory>* out) {
  for (std::size_t i = 0; i < count; ++i) {
    const auto buffer = args.get<ffi::AnyBuffer>(i);
    if (!buffer.has_value()) {
      return absl::InternalError("a call of a pipeline without its operand.");
    }
    out->push_back(memory_of(*buffer));
  }
  return absl::OkStatus();
}

absl::Status read(ffi::RemainingRets& results, std::size_t count,
                  std::vector<Memory>* out) {
  for (std::size_t i = 0; i < count; ++i) {
    auto buffer = results.get<ffi::AnyBuffer>(i);
    if (!buffer.has_value()) {
      return absl::InternalError("a call of a pipeline without its result.");
    }
    out->push_back(memory_of(**buffer));
  }
  return absl::OkStatus();
}

// The parts of all programs, one after the other: those of the i-th.
std::vector<Memory> part_of(const std::vector<Memory>& all, Numbers places,
                            Numbers counts, std::size_t i) {
  std::size_t first = 0;
  for (std::size_t before = 0; before < i; ++before) {
    first += static_cast<std::size_t>(counts[before]);
  }
  std::vector<Memory> part;
  for (std::size_t k = 0; k < static_cast<std::size_t>(counts[i]); ++k) {
    part.push_back(all[static_cast<std::size_t>(places[first + k])]);
  }
  return part;
}

absl::Status check_ipus(const Program& program, std::int64_t needed) {
  const int ipus = program.ipus();
  if (ipus >= needed) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "The pipeline needs ", needed, " IPUs, and /device:IPU:", program.ordinal(),
      " has ", ipus, ". Configure as many (auto_select_ipus = ", needed,
      "), or map its stages onto fewer with device_mapping."));
}

// The attributes of a pipeline's call.
// The first fault of an IPU that failed by itself, not because of another. Any thread.
class FirstFault {
 public:
  void note(const absl::Status& status, bool has_waited) {
    MutexLock lock(mutex_);
    if (!has_waited) cause_.Update(status);
  }
  absl::Status cause() {
    MutexLock lock(mutex_);
    return cause_;
  }

 private:
  Mutex mutex_;
  absl::Status cause_ IPUFEED_GUARDED_BY(mutex_);
};

struct Call {
  Numbers keys;
  Numbers ipus;
  Numbers operands;        // of each program, places in the call's operands
  Numbers operand_counts;  // by program
  Numbers results;         // of each program, places in the call's results
  Numbers result_counts;
  Numbers capacities;  // of the rings
  Numbers credits;
  // Of each ring source and target, one after the other, with a comma between.
  std::string_view ring_stages;
  Numbers ring_ipus;
  std::int64_t devices;
  std::string_view schedule;
};

// Whether counts and places are within what the call has.
absl::Status check_call(const Call& call, std::size_t operands, std::size_t results) {
  const auto fits = [](Numbers places, Numbers counts, std::size_t size,
                       std::size_t programs) {
    std::int64_t sum = 0;
    for (const std::int64_t count : counts) {
      if (count < 0) return false;
      sum += count;
    }
    return counts.size() == programs &&
           sum == static_cast<std::int64_t>(places.size()) &&
           std::all_of(places.begin(), places.end(), [size](std::int64_t place) {
             return place >= 0 && place < static_cast<std::int64_t>(size);
           });
  };
  const std::size_t programs = call.keys.size();
  const std::size_t rings = call.capacities.size();
  const std::vector<std::string_view> stages = absl::StrSplit(call.ring_stages, ',');
  if (fits(call.operands, call.operand_counts, operands, programs) &&
      fits(call.results, call.result_counts, results, programs) &&
      call.ipus.size() == programs && call.credits.size() == rings &&
      call.ring_ipus.size() == 2 * rings &&
      (rings == 0 || stages.size() == 2 * rings)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      "The lists of an IpufeedPipeline do not fit each other, or its inputs.");
}

// The origin of an error.
absl::Status at_stage(const absl::Status& status, const PipelineRun& run, int ipu) {
  const std::string stage =
      run.at(ipu).empty() ? "" : absl::StrCat("Stage ", run.at(ipu), " on ");
  return absl::Status(status.code(), absl::StrCat(status.message(), " (", stage, "IPU ",
                                                  ipu, " of the pipeline's device.)"));
}

// An execution of a pipeline, for a trace.
void record_execution(const Call& call, int ordinal, int first_ipu,
                      std::int64_t start_ns) {
  const std::int64_t now = now_ns();
  const std::string schedule(call.schedule);
  record({TraceKind::kPipeline, ordinal, number_of(schedule), start_ns, now,
          now - start_ns, 0, first_ipu, 1},
         schedule);
}

absl::Status run_pipeline(const ffi::RemainingArgs& args, ffi::RemainingRets& results,
                          const Call& call) {
  std::vector<Memory> operands;
  TF_RETURN_IF_ERROR(read(args, args.size() - 1, &operands));
  std::vector<Memory> outputs;
  TF_RETURN_IF_ERROR(read(results, results.size() - 1, &outputs));
  TF_RETURN_IF_ERROR(check_call(call, operands.size(), outputs.size()));
  CallProgram program;
  Context context = current_context();
  context.program = &*program;
  const int ordinal = program->ordinal();
  TF_RETURN_IF_ERROR(check_ipus(*program, call.devices * context.replicas));
  const int first = context.replica * static_cast<int>(call.devices);
  const std::vector<std::string_view> stages = absl::StrSplit(call.ring_stages, ',');
  const auto place = [&](std::size_t i) -> Place {
    return {std::string(stages[i]), first + static_cast<int>(call.ring_ipus[i])};
  };
  std::vector<PipelineRun::RingOptions> rings;
  for (std::size_t i = 0; i < call.capacities.size(); ++i) {
    rings.push_back(
        {call.capacities[i], call.credits[i], place(2 * i), place(2 * i + 1)});
  }
  IpuLease lease;
  TF_RETURN_IF_ERROR(lease.take(&*program));
  const std::int64_t start_ns = now_ns();
  const bool traced = traces();
  std::uint64_t pipeline = 0;  // of the run, by its IPUs' programs
  for (const std::int64_t key : call.keys) {
    pipeline = mix(pipeline ^ static_cast<std::uint64_t>(key));
  }
  RunSeeds& seeds = program->seeds();
  PipelineRun run(*program, rings, first, static_cast<int>(call.devices),
                  seeds.mini_batches(context.replica, pipeline));
  context.pipeline = &run;
  context.stages = &run;
  Replicas* const others = context.others;
  std::vector<IpuWork> works;
  FirstFault fault;
  for (std::size_t i = 0; i < call.keys.size(); ++i) {
    const int own = static_cast<int>(call.ipus[i]);
    const int index = first + own;
    context.ipu = index;
    const auto key = static_cast<std::uint64_t>(call.keys[i]);
    if (others != nullptr) context.others = &others->of_ipu(own, key);
    works.push_back({index, context, [&, i, index, key] {
                       // Until now the IPU has waited for the execution before.
                       StepClock& clock = program->step_clock();
                       clock.take(start_ns);
                       run.begin(index, clock);
                       absl::Status status = run_ipu_program(
                           key, ipu(ordinal, index, lease.set()),
                           part_of(operands, call.operands, call.operand_counts, i),
                           part_of(outputs, call.results, call.result_counts, i));
                       if (!status.ok()) {
                         absl::Status named = at_stage(status, run, index);
                         fault.note(named, run.waited(index));
                         return named;
                       }
                       // Waiters for this IPU wait in vain.
                       run.leave(index);
                       const Context& own_context = current_context();
                       if (own_context.others != nullptr) {
                         own_context.others->leave(own_context.replica);
                       }
                       return status;
                     }});
  }
  const WokenByStop woken(&*program, &run);
  const absl::Status status = run_on_ipus(ordinal, lease.set(), works,
                                          [&run](const absl::Status&) { run.fail(); });
  seeds.add_mini_batches(context.replica, pipeline, run.mini_batches());
  // The thread that continues after all IPUs may have waited for the last.
  program->step_clock().take(now_ns());
  if (traced) record_execution(call, ordinal, first, start_ns);
  TF_RETURN_IF_ERROR(fault.cause());
  TF_RETURN_IF_ERROR(status);
  write_token(results, results.size() - 1);
  return absl::OkStatus();
}

ffi::Error pipeline_call(ffi::RemainingArgs args, ffi::RemainingRets results,
                         Numbers keys, Numbers ipus, Numbers operands,
                         Numbers operand_counts, Numbers places, Numbers result_counts,
                         Numbers capacities, Numbers credits,
                         std::string_view ring_stages, Numbers ring_ipus,
                         std::int64_t devices, std::string_view schedule) {
  return answer(kPipeline, [&] {
    return run_pipeline(
        args, results,
        {keys, ipus, operands, operand_counts, places, result_counts, capacities,
         credits, ring_stages, ring_ipus, devices, schedule});
  });
}

absl::StatusOr<PipelineRun*> current_pipeline() {
  PipelineRun* run = current_context().pipeline;
  if (run == nullptr) {
    return absl::InternalError("a call of a pipeline's ipu, outside of a pipeline.");
  }
  return run;
}

absl::Status send(const ffi::RemainingArgs& args, ffi::RemainingRets& results,
                  std::int64_t ring) {
  TF_ASSIGN_OR_RETURN(PipelineRun * run, current_pipeline());
  std::vector<Memory> tensors;
  TF_RETURN_IF_ERROR(read(args, args.size() - 1, &tensors));
  TF_RETURN_IF_ERROR(run->send(static_cast<std::size_t>(ring), tensors));
  write_token(results, 0);
  return absl::OkStatus();
}

absl::Status receive(ffi::RemainingRets& results, std::int64_t ring) {
  TF_ASSIGN_OR_RETURN(PipelineRun * run, current_pipeline());
  std::vector<Memory> tensors;
  TF_RETURN_IF_ERROR(read(results, results.size() - 1, &tensors));
  TF_RETURN_IF_ERROR(run->receive(static_cast<std::size_t>(ring), tensors));
  write_token(results, results.size() - 1);
  return absl::OkStatus();
}

absl::Status stage_enters(const ffi::RemainingArgs& args, ffi::RemainingRets& results,
                          std::string_view label) {
  TF_ASSIGN_OR_RETURN(PipelineRun * run, current_pipeline());
  std::vector<Memory> from;
  TF_RETURN_IF_ERROR(read(args, 1, &from));
  std::int32_t mini_batch = 0;
  std::memcpy(&mini_batch, from[0].data, sizeof(mini_batch));
  run->enter(current_context().ipu, label, mini_batch);
  write_token(results, 0);
  return absl::OkStatus();
}

// The inputs, and when they were there: 0 if not recorded.
absl::Status stage_begins(const ffi::RemainingArgs& args, ffi::RemainingRets& results) {
  const std::size_t inputs = args.size() - 1;
  std::vector<Memory> from;
  std::vector<Memory> to;
  TF_RETURN_IF_ERROR(read(args, inputs, &from));
  TF_RETURN_IF_ERROR(read(results, inputs + 1, &to));
  for (std::size_t i = 0; i < inputs; ++i) {
    if (from[i].data == to[i].data || from[i].bytes == 0) continue;
    std::memcpy(to[i].data, from[i].data, from[i].bytes);
  }
  const std::int64_t now = traces() ? now_ns() : 0;
  std::memcpy(to[inputs].data, &now, sizeof(now));
  write_token(results, inputs + 1);
  return absl::OkStatus();
}

absl::Status stage_ends(const ffi::RemainingArgs& args, ffi::RemainingRets& results,
                        std::string_view label) {
  write_token(results, 0);
  if (!traces()) return absl::OkStatus();
  const std::int64_t now = now_ns();
  std::vector<Memory> from;
  TF_RETURN_IF_ERROR(read(args, 2, &from));
  std::int32_t mini_batch = 0;
  std::memcpy(&mini_batch, from[0].data, sizeof(mini_batch));
  std::int64_t start = 0;
  std::memcpy(&start, from[1].data, sizeof(start));
  if (start == 0) return absl::OkStatus();  // the trace began in the middle of it
  const Context& context = current_context();
  const int ordinal = context.program == nullptr ? -1 : context.program->ordinal();
  const std::string name = absl::StrCat(label, " on chip ", context.ipu);
  record({TraceKind::kStage, ordinal, number_of(name), start, now, now - start, 0,
          mini_batch, 1},
         name);
  return absl::OkStatus();
}

ffi::Error send_call(ffi::RemainingArgs args, ffi::RemainingRets results,
                     std::int64_t ring) {
  return answer(kSend, [&] { return send(args, results, ring); });
}

ffi::Error receive_call(ffi::RemainingArgs, ffi::RemainingRets results,
                        std::int64_t ring) {
  return answer(kReceive, [&] { return receive(results, ring); });
}

ffi::Error enters_call(ffi::RemainingArgs args, ffi::RemainingRets results,
                       std::string_view label) {
  return answer(kEnters, [&] { return stage_enters(args, results, label); });
}

ffi::Error begins_call(ffi::RemainingArgs args, ffi::RemainingRets results) {
  return answer(kBegins, [&] { return stage_begins(args, results); });
}

ffi::Error ends_call(ffi::RemainingArgs args, ffi::RemainingRets results,
                     std::string_view label) {
  return answer(kEnds, [&] { return stage_ends(args, results, label); });
}

absl::Status wait(const ffi::RemainingArgs& args, ffi::RemainingRets& results,
                  std::int64_t nanoseconds) {
  std::vector<Memory> from;
  std::vector<Memory> to;
  TF_RETURN_IF_ERROR(read(args, 1, &from));
  TF_RETURN_IF_ERROR(read(results, 1, &to));
  TF_RETURN_IF_ERROR(sleep_as_program(nanoseconds));
  if (to[0].bytes > 0) std::memcpy(to[0].data, from[0].data, to[0].bytes);
  return absl::OkStatus();
}

ffi::Error wait_call(ffi::RemainingArgs args, ffi::RemainingRets results,
                     std::int64_t nanoseconds) {
  return answer(kWait, [&] { return wait(args, results, nanoseconds); });
}

absl::Status remote(const ffi::RemainingArgs& args, ffi::RemainingRets& results,
                    std::int64_t number, std::int64_t stores) {
  std::vector<Memory> from;
  std::vector<Memory> to;
  TF_RETURN_IF_ERROR(read(args, 1, &from));
  TF_RETURN_IF_ERROR(read(results, 1, &to));
  move_remote(to[0].data, from[0].data, to[0].bytes, number, stores != 0);
  return absl::OkStatus();
}

ffi::Error remote_call(ffi::RemainingArgs args, ffi::RemainingRets results,
                       std::int64_t number, std::int64_t stores) {
  return answer(kRemote, [&] { return remote(args, results, number, stores); });
}

ffi::Error count_call(ffi::BufferR0<ffi::S64> count,
                      ffi::Result<ffi::BufferR0<ffi::S32>> same, std::int64_t multiple,
                      std::int64_t least, std::int64_t most) {
  return answer(kCount, [&] {
    const std::int64_t value = *count.typed_data();
    *same->typed_data() = static_cast<std::int32_t>(value);
    return check_pipeline_count(value, multiple, least, most);
  });
}

XLA_FFI_DEFINE_HANDLER(kPipelineHandler, pipeline_call,
                       ffi::Ffi::Bind()
                           .RemainingArgs()
                           .RemainingRets()
                           .Attr<Numbers>("keys")
                           .Attr<Numbers>("ipus")
                           .Attr<Numbers>("operands")
                           .Attr<Numbers>("operand_counts")
                           .Attr<Numbers>("results")
                           .Attr<Numbers>("result_counts")
                           .Attr<Numbers>("capacities")
                           .Attr<Numbers>("credits")
                           .Attr<std::string_view>("ring_stages")
                           .Attr<Numbers>("ring_ipus")
                           .Attr<std::int64_t>("devices")
                           .Attr<std::string_view>("schedule"));
XLA_FFI_DEFINE_HANDLER(kCountHandler, count_call,
                       ffi::Ffi::Bind()
                           .Arg<ffi::BufferR0<ffi::S64>>()
                           .Ret<ffi::BufferR0<ffi::S32>>()
                           .Attr<std::int64_t>("multiple")
                           .Attr<std::int64_t>("least")
                           .Attr<std::int64_t>("most"));
XLA_FFI_DEFINE_HANDLER(
    kSendHandler, send_call,
    ffi::Ffi::Bind().RemainingArgs().RemainingRets().Attr<std::int64_t>("ring"));
XLA_FFI_DEFINE_HANDLER(
    kReceiveHandler, receive_call,
    ffi::Ffi::Bind().RemainingArgs().RemainingRets().Attr<std::int64_t>("ring"));
XLA_FFI_DEFINE_HANDLER(
    kEntersHandler, enters_call,
    ffi::Ffi::Bind().RemainingArgs().RemainingRets().Attr<std::string_view>("label"));
XLA_FFI_DEFINE_HANDLER(kBeginsHandler, begins_call,
                       ffi::Ffi::Bind().RemainingArgs().RemainingRets());
XLA_FFI_DEFINE_HANDLER(
    kEndsHandler, ends_call,
    ffi::Ffi::Bind().RemainingArgs().RemainingRets().Attr<std::string_view>("label"));
XLA_FFI_DEFINE_HANDLER(
    kWaitHandler, wait_call,
    ffi::Ffi::Bind().RemainingArgs().RemainingRets().Attr<std::int64_t>("nanoseconds"));
XLA_FFI_DEFINE_HANDLER(kRemoteHandler, remote_call,
                       ffi::Ffi::Bind()
                           .RemainingArgs()
                           .RemainingRets()
                           .Attr<std::int64_t>("number")
                           .Attr<std::int64_t>("stores"));
XLA_FFI_REGISTER_HANDLER(xla::ffi::GetXlaFfiApi(), kRemote, "Host", kRemoteHandler);
XLA_FFI_REGISTER_HANDLER(xla::ffi::GetXlaFfiApi(), kWait, "Host", kWaitHandler);
XLA_FFI_REGISTER_HANDLER(xla::ffi::GetXlaFfiApi(), kCount, "Host", kCountHandler);
XLA_FFI_REGISTER_HANDLER(xla::ffi::GetXlaFfiApi(), kPipeline, "Host", kPipelineHandler);
XLA_FFI_REGISTER_HANDLER(xla::ffi::GetXlaFfiApi(), kSend, "Host", kSendHandler);
XLA_FFI_REGISTER_HANDLER(xla::ffi::GetXlaFfiApi(), kReceive, "Host", kReceiveHandler);
XLA_FFI_REGISTER_HANDLER(xla::ffi::GetXlaFfiApi(), kEnters, "Host", kEntersHandler);
XLA_FFI_REGISTER_HANDLER(xla::ffi::GetXlaFfiApi(), kBegins, "Host", kBeginsHandler);
XLA_FFI_REGISTER_HANDLER(xla::ffi::GetXlaFfiApi(), kEnds, "Host", kEndsHandler);

}  // namespace
}  // namespace ipufeed
