// A pipeline inside a compiled program: one call that runs a program on each chip, and
// in these programs the calls that send and receive.
//
//   lowering: each function -> its own computation -> build_chip_program() -> key
//             and a custom call with the keys, the arguments and room for the results
//   running:  the call -> run_on_chips() -> run_chip_program() on each, rings between
//
// Variables: a chip program gets their values as arguments, as every program does, and
// gives the new ones of those that it has assigned; the call hands them on.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "chip_program.h"
#include "chips.h"
#include "pipeline.h"
#include "pipeline_count.h"
#include "program.h"
#include "remote.h"
#include "replicas.h"
#include "sleep.h"
#include "tensorflow/compiler/tf2xla/shape_util.h"
#include "tensorflow/compiler/tf2xla/type_util.h"
#include "tensorflow/compiler/tf2xla/xla_compiler.h"
#include "tensorflow/compiler/tf2xla/xla_op_kernel.h"
#include "tensorflow/compiler/tf2xla/xla_op_registry.h"
#include "tensorflow/compiler/tf2xla/xla_resource.h"
#include "trace.h"
#include "wait.h"
#include "xla/layout_util.h"
#include "xla_call.h"

namespace ipufeed {
namespace {

using tensorflow::DataType;
using tensorflow::OpKernelConstruction;
using tensorflow::PartialTensorShape;
using tensorflow::TensorShape;
using tensorflow::XlaCompiler;
using tensorflow::XlaOpKernel;
using tensorflow::XlaOpKernelContext;
using tensorflow::XlaResource;
using Numbers = ffi::Span<const std::int64_t>;

// ---- Running

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

absl::Status check_chips(int ordinal, std::int64_t needed) {
  const int chips = chips_of(ordinal);
  if (chips >= needed) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("The pipeline needs ", needed, " IPUs, and /device:IPU:", ordinal,
                   " has ", chips, ". Configure as many (auto_select_ipus = ", needed,
                   "), or map its stages onto fewer with device_mapping."));
}

// The attributes of a pipeline's call.
struct Call {
  Numbers keys;
  Numbers chips;
  Numbers operands;        // of each program, places in the call's operands
  Numbers operand_counts;  // by program
  Numbers results;         // of each program, places in the call's results
  Numbers result_counts;
  Numbers capacities;  // of the rings
  Numbers credits;
  // Of each ring source and target, one behind the other; with a comma between.
  std::string_view ring_stages;
  Numbers ring_chips;
  std::int64_t devices;
  std::string_view schedule;
};

// Where an error has come from.
absl::Status at_stage(const absl::Status& status, const PipelineRun& run, int chip) {
  const std::string stage =
      run.at(chip).empty() ? "" : absl::StrCat("Stage ", run.at(chip), " on ");
  return absl::Status(status.code(), absl::StrCat(status.message(), " (", stage, "IPU ",
                                                  chip, " of the pipeline's device.)"));
}

// An execution of a pipeline, for a trace.
void record_execution(const Call& call, int ordinal, int first_chip,
                      std::int64_t start_ns) {
  const std::int64_t now = now_ns();
  const std::string schedule(call.schedule);
  record({TraceKind::kPipeline, ordinal, number_of(schedule), start_ns, now,
          now - start_ns, 0, first_chip, 1},
         schedule);
}

absl::Status run_pipeline(const ffi::RemainingArgs& args, ffi::RemainingRets& results,
                          const Call& call) {
  std::vector<Memory> operands;
  TF_RETURN_IF_ERROR(read(args, args.size() - 1, &operands));
  std::vector<Memory> outputs;
  TF_RETURN_IF_ERROR(read(results, results.size() - 1, &outputs));
  CallProgram program;
  Context context = current_context();
  context.program = &*program;
  const int ordinal = program->ordinal();
  TF_RETURN_IF_ERROR(check_chips(ordinal, call.devices * context.replicas));
  const int first = context.replica * static_cast<int>(call.devices);
  const std::vector<std::string_view> stages = absl::StrSplit(call.ring_stages, ',');
  const auto place = [&](std::size_t i) -> Place {
    return {std::string(stages[i]), first + static_cast<int>(call.ring_chips[i])};
  };
  std::vector<PipelineRun::RingOptions> rings;
  for (std::size_t i = 0; i < call.capacities.size(); ++i) {
    rings.push_back(
        {call.capacities[i], call.credits[i], place(2 * i), place(2 * i + 1)});
  }
  ChipLease lease;
  TF_RETURN_IF_ERROR(lease.take(&*program));
  const std::int64_t start_ns = now_ns();
  const bool traced = traces();
  PipelineRun run(*program, rings, first, static_cast<int>(call.devices));
  context.pipeline = &run;
  Replicas* const others = context.others;
  std::vector<ChipWork> works;
  for (std::size_t i = 0; i < call.keys.size(); ++i) {
    const int own = static_cast<int>(call.chips[i]);
    const int index = first + own;
    context.chip = index;
    const auto key = static_cast<std::uint64_t>(call.keys[i]);
    if (others != nullptr) context.others = &others->of_chip(own, key);
    works.push_back({index, context, [&, i, index, key] {
                       // Until now the chip has waited for the execution before.
                       program->step_clock().take(start_ns);
                       const absl::Status status = run_chip_program(
                           key, chip(ordinal, index),
                           part_of(operands, call.operands, call.operand_counts, i),
                           part_of(outputs, call.results, call.result_counts, i));
                       if (!status.ok()) return at_stage(status, run, index);
                       // Who waits for this chip waits in vain.
                       run.leave(index);
                       const Context& own_context = current_context();
                       if (own_context.others != nullptr) {
                         own_context.others->leave(own_context.replica);
                       }
                       return status;
                     }});
  }
  program->add(&run);
  const absl::Status status =
      run_on_chips(ordinal, works, [&run](const absl::Status&) { run.fail(); });
  program->remove(&run);
  // Who goes on after all chips may have waited for the last.
  program->step_clock().take(now_ns());
  if (traced) record_execution(call, ordinal, first, start_ns);
  TF_RETURN_IF_ERROR(status);
  write_token(results, results.size() - 1);
  return absl::OkStatus();
}

ffi::Error pipeline_call(ffi::RemainingArgs args, ffi::RemainingRets results,
                         Numbers keys, Numbers chips, Numbers operands,
                         Numbers operand_counts, Numbers places, Numbers result_counts,
                         Numbers capacities, Numbers credits,
                         std::string_view ring_stages, Numbers ring_chips,
                         std::int64_t devices, std::string_view schedule) {
  return to_ffi(
      run_pipeline(args, results,
                   {keys, chips, operands, operand_counts, places, result_counts,
                    capacities, credits, ring_stages, ring_chips, devices, schedule}));
}

absl::StatusOr<PipelineRun*> current_pipeline() {
  PipelineRun* run = current_context().pipeline;
  if (run == nullptr) {
    return absl::InternalError("a call of a pipeline's chip, outside of a pipeline.");
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

absl::Status stage_enters(ffi::RemainingRets& results, std::string_view label) {
  TF_ASSIGN_OR_RETURN(PipelineRun * run, current_pipeline());
  run->enter(current_context().chip, label);
  write_token(results, 0);
  return absl::OkStatus();
}

// The inputs, and when they were there: 0 if nobody wants to know.
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
  const std::string name = absl::StrCat(label, " on chip ", context.chip);
  record({TraceKind::kStage, ordinal, number_of(name), start, now, now - start, 0,
          mini_batch, 1},
         name);
  return absl::OkStatus();
}

ffi::Error send_call(ffi::RemainingArgs args, ffi::RemainingRets results,
                     std::int64_t ring) {
  return to_ffi(send(args, results, ring));
}

ffi::Error receive_call(ffi::RemainingArgs, ffi::RemainingRets results,
                        std::int64_t ring) {
  return to_ffi(receive(results, ring));
}

ffi::Error enters_call(ffi::RemainingArgs, ffi::RemainingRets results,
                       std::string_view label) {
  return to_ffi(stage_enters(results, label));
}

ffi::Error begins_call(ffi::RemainingArgs args, ffi::RemainingRets results) {
  return to_ffi(stage_begins(args, results));
}

ffi::Error ends_call(ffi::RemainingArgs args, ffi::RemainingRets results,
                     std::string_view label) {
  return to_ffi(stage_ends(args, results, label));
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
  return to_ffi(wait(args, results, nanoseconds));
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
  return to_ffi(remote(args, results, number, stores));
}

ffi::Error count_call(ffi::BufferR0<ffi::S64> count,
                      ffi::Result<ffi::BufferR0<ffi::S32>> same, std::int64_t multiple,
                      std::int64_t least, std::int64_t most) {
  const std::int64_t value = *count.typed_data();
  *same->typed_data() = static_cast<std::int32_t>(value);
  return to_ffi(check_pipeline_count(value, multiple, least, most));
}

constexpr char kRemote[] = "ipufeed_remote";
constexpr char kWait[] = "ipufeed_wait";
constexpr char kCount[] = "ipufeed_pipeline_count";
constexpr char kPipeline[] = "ipufeed_pipeline";
constexpr char kSend[] = "ipufeed_send";
constexpr char kReceive[] = "ipufeed_receive";
constexpr char kEnters[] = "ipufeed_stage_enters";
constexpr char kBegins[] = "ipufeed_stage_begins";
constexpr char kEnds[] = "ipufeed_stage_ends";

XLA_FFI_DEFINE_HANDLER(kPipelineHandler, pipeline_call,
                       ffi::Ffi::Bind()
                           .RemainingArgs()
                           .RemainingRets()
                           .Attr<Numbers>("keys")
                           .Attr<Numbers>("chips")
                           .Attr<Numbers>("operands")
                           .Attr<Numbers>("operand_counts")
                           .Attr<Numbers>("results")
                           .Attr<Numbers>("result_counts")
                           .Attr<Numbers>("capacities")
                           .Attr<Numbers>("credits")
                           .Attr<std::string_view>("ring_stages")
                           .Attr<Numbers>("ring_chips")
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

// ---- Lowering

std::string list_attribute(const char* name, const std::vector<std::int64_t>& values) {
  if (values.empty()) return absl::StrCat(name, " = array<i64>");
  return absl::StrCat(name, " = array<i64: ", absl::StrJoin(values, ", "), ">");
}

// An operand, in the layout that a call's memory has.
absl::Status add_operand(xla::XlaOp operand, std::vector<xla::XlaOp>* operands,
                         std::vector<xla::Shape>* shapes) {
  TF_ASSIGN_OR_RETURN(xla::Shape shape, operand.builder()->GetShape(operand));
  xla::LayoutUtil::SetToDefaultLayout(&shape);
  operands->push_back(operand);
  shapes->push_back(std::move(shape));
  return absl::OkStatus();
}

class PipelineXlaOp : public XlaOpKernel {
 public:
  explicit PipelineXlaOp(OpKernelConstruction* ctx) : XlaOpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("programs", &programs_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("chips", &chips_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("devices", &devices_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("operands", &operands_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("operand_counts", &operand_counts_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("ring_stages", &ring_stages_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("ring_chips", &ring_chips_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("ring_capacities", &capacities_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("ring_credits", &credits_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("schedule", &schedule_));
  }

  void Compile(XlaOpKernelContext* ctx) override { OP_REQUIRES_OK(ctx, compile(ctx)); }

 private:
  // A function's result: a constant, or a place in what the call gives.
  struct Output {
    const XlaCompiler::OutputDescription* description;
    std::int64_t place;
  };
  struct Update {
    XlaResource* resource;
    const XlaCompiler::ResourceUpdate* update;
    std::int64_t place;
  };

  absl::Status compile(XlaOpKernelContext* ctx) {
    std::vector<xla::XlaOp> operands;
    std::vector<xla::Shape> operand_shapes;
    for (int i = 0; i < ctx->num_inputs(); ++i) {
      xla::XlaOp operand;
      if (ctx->input_type(i) == tensorflow::DT_RESOURCE) {
        TF_ASSIGN_OR_RETURN(XlaResource * resource, variable(ctx, i));
        TF_RETURN_IF_ERROR(resource->Pack(&operand, ctx->builder()));
      } else {
        operand = ctx->Input(i);
      }
      TF_RETURN_IF_ERROR(add_operand(operand, &operands, &operand_shapes));
    }
    std::vector<std::int64_t> keys, places, counts, results, result_counts;
    std::vector<xla::Shape> result_shapes;
    std::vector<Output> outputs;
    std::vector<Update> updates;
    std::vector<XlaCompiler::CompilationResult> compiled(programs_.size());
    std::size_t first = 0;
    for (std::size_t i = 0; i < programs_.size(); ++i) {
      const auto count = static_cast<std::size_t>(operand_counts_[i]);
      const std::vector<int> own(
          operands_.begin() + static_cast<std::ptrdiff_t>(first),
          operands_.begin() + static_cast<std::ptrdiff_t>(first + count));
      first += count;
      XlaCompiler::CompilationResult& result = compiled[i];
      TF_RETURN_IF_ERROR(lower(ctx, programs_[i], own, &result));
      TF_ASSIGN_OR_RETURN(const std::uint64_t key,
                          build_chip_program(*ctx->compiler(), result));
      keys.push_back(static_cast<std::int64_t>(key));
      for (const int argument : result.input_mapping) {
        places.push_back(own[static_cast<std::size_t>(argument)]);
      }
      counts.push_back(static_cast<std::int64_t>(result.input_mapping.size()));
      std::int64_t place = static_cast<std::int64_t>(result_shapes.size());
      for (const xla::Shape& each : result.xla_output_shape.tuple_shapes()) {
        xla::Shape shape = each;
        xla::LayoutUtil::SetToDefaultLayout(&shape);
        results.push_back(static_cast<std::int64_t>(result_shapes.size()));
        result_shapes.push_back(std::move(shape));
      }
      result_counts.push_back(result.xla_output_shape.tuple_shapes().size());
      for (const auto& output : result.outputs) {
        outputs.push_back({&output, output.is_constant ? -1 : place++});
      }
      for (const auto& update : result.resource_updates) {
        TF_ASSIGN_OR_RETURN(
            XlaResource * resource,
            variable(ctx, own[static_cast<std::size_t>(update.input_index)]));
        updates.push_back({resource, &update, place++});
      }
    }
    TF_RETURN_IF_ERROR(check_updates(updates));
    result_shapes.push_back(token_shape());
    const std::string attributes = absl::StrCat(
        "{", list_attribute("keys", keys), ", ",
        list_attribute("chips", {chips_.begin(), chips_.end()}), ", ",
        list_attribute("operands", places), ", ",
        list_attribute("operand_counts", counts), ", ",
        list_attribute("results", results), ", ",
        list_attribute("result_counts", result_counts), ", ",
        list_attribute("capacities", {capacities_.begin(), capacities_.end()}), ", ",
        list_attribute("credits", {credits_.begin(), credits_.end()}),
        ", ring_stages = \"", absl::StrJoin(ring_stages_, ","), "\", ",
        list_attribute("ring_chips", {ring_chips_.begin(), ring_chips_.end()}),
        ", devices = ", devices_, " : i64, schedule = \"", schedule_, "\"}");
    const xla::XlaOp done = call(ctx->builder(), kPipeline, operands, operand_shapes,
                                 result_shapes, attributes);
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const auto& [description, place] = outputs[i];
      if (description->is_constant) {
        ctx->SetConstantOutput(static_cast<int>(i), description->constant_value);
      } else {
        ctx->SetOutput(static_cast<int>(i), xla::GetTupleElement(done, place));
      }
    }
    for (const Update& each : updates) {
      TF_RETURN_IF_ERROR(each.resource->SetFromPack(
          each.update->tensor_array_gradients_accessed,
          xla::GetTupleElement(done, each.place), ctx->builder()));
    }
    ctx->SetOutput(ctx->num_outputs() - 1,
                   xla::GetTupleElement(
                       done, static_cast<std::int64_t>(result_shapes.size()) - 1));
    return absl::OkStatus();
  }

  static absl::StatusOr<XlaResource*> variable(XlaOpKernelContext* ctx, int input) {
    XlaResource* resource = nullptr;
    TF_RETURN_IF_ERROR(ctx->GetResourceInput(input, &resource));
    if (resource->kind() != XlaResource::kVariable || !resource->initialized()) {
      return absl::FailedPreconditionError(
          absl::StrCat("A stage of the pipeline uses the variable '", resource->name(),
                       "', which has no value yet: run its initializer first."));
    }
    return resource;
  }

  // A variable lives on one chip: two that assign to it would not see each other.
  static absl::Status check_updates(const std::vector<Update>& updates) {
    for (std::size_t i = 0; i < updates.size(); ++i) {
      for (std::size_t k = 0; k < i; ++k) {
        if (updates[i].resource != updates[k].resource) continue;
        return absl::InvalidArgumentError(absl::StrCat(
            "Stages on two IPUs assign to the variable '", updates[i].resource->name(),
            "'. Map them onto one IPU with device_mapping."));
      }
    }
    return absl::OkStatus();
  }

  static absl::Status lower(XlaOpKernelContext* ctx,
                            const tensorflow::NameAttrList& program,
                            const std::vector<int>& inputs,
                            XlaCompiler::CompilationResult* result) {
    std::vector<XlaCompiler::Argument> arguments;
    for (const int input : inputs) {
      XlaCompiler::Argument& argument = arguments.emplace_back();
      if (ctx->input_type(input) == tensorflow::DT_RESOURCE) {
        TF_ASSIGN_OR_RETURN(XlaResource * resource, variable(ctx, input));
        argument.kind = XlaCompiler::Argument::kResource;
        argument.resource_kind = resource->kind();
        argument.initialized = true;
        argument.type = resource->type();
        argument.shape = resource->shape();
        argument.name = absl::StrCat("variable", arguments.size());
        continue;
      }
      argument.kind = XlaCompiler::Argument::kParameter;
      argument.type = ctx->input_type(input);
      TF_ASSIGN_OR_RETURN(const xla::Shape shape, ctx->InputXlaShape(input));
      TensorShape dimensions;
      TF_RETURN_IF_ERROR(tensorflow::XLAShapeToTensorShape(shape, &dimensions));
      argument.shape = dimensions;
      argument.name = absl::StrCat("argument", arguments.size());
    }
    XlaCompiler::CompileOptions options;
    options.is_entry_computation = true;
    options.always_return_tuple = true;
    return ctx->compiler()->CompileFunction(options, program, arguments, result);
  }

  std::vector<tensorflow::NameAttrList> programs_;
  std::vector<int> chips_;
  std::int64_t devices_ = 0;
  std::vector<int> operands_;
  std::vector<int> operand_counts_;
  std::vector<int> capacities_;  // of the rings, as the next three
  std::vector<int> credits_;
  std::vector<std::string> ring_stages_;
  std::vector<int> ring_chips_;
  std::string schedule_;
};

// A call whose operands are the op's inputs and whose results are its outputs.
class CallXlaOp : public XlaOpKernel {
 public:
  CallXlaOp(OpKernelConstruction* ctx, const char* target)
      : XlaOpKernel(ctx), target_(target) {}

  void Compile(XlaOpKernelContext* ctx) override {
    std::vector<xla::XlaOp> operands;
    std::vector<xla::Shape> operand_shapes;
    for (int i = 0; i < ctx->num_inputs(); ++i) {
      OP_REQUIRES_OK(ctx, add_operand(ctx->Input(i), &operands, &operand_shapes));
    }
    std::vector<xla::Shape> results = results_;
    results.push_back(token_shape());
    const xla::XlaOp done =
        call(ctx->builder(), target_, operands, operand_shapes, results, attributes_);
    for (std::size_t i = 0; i < results.size(); ++i) {
      ctx->SetOutput(static_cast<int>(i),
                     xla::GetTupleElement(done, static_cast<std::int64_t>(i)));
    }
  }

 protected:
  std::vector<xla::Shape> results_;  // without the token
  std::string attributes_;

 private:
  const char* const target_;
};

class SendXlaOp : public CallXlaOp {
 public:
  explicit SendXlaOp(OpKernelConstruction* ctx) : CallXlaOp(ctx, kSend) {
    std::int64_t ring = 0;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("ring", &ring));
    attributes_ = absl::StrCat("{ring = ", ring, " : i64}");
  }
};

class ReceiveXlaOp : public CallXlaOp {
 public:
  explicit ReceiveXlaOp(OpKernelConstruction* ctx) : CallXlaOp(ctx, kReceive) {
    std::int64_t ring = 0;
    std::vector<DataType> dtypes;
    std::vector<PartialTensorShape> shapes;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("ring", &ring));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("dtypes", &dtypes));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("shapes", &shapes));
    attributes_ = absl::StrCat("{ring = ", ring, " : i64}");
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      TensorShape shape;
      OP_REQUIRES(ctx, shapes[i].AsTensorShape(&shape),
                  absl::InvalidArgumentError(absl::StrCat(
                      "What crosses between the stages of a pipeline must have fully "
                      "defined shapes, got ",
                      shapes[i].DebugString(), ".")));
      xla::PrimitiveType type;
      OP_REQUIRES_OK(ctx, tensorflow::DataTypeToPrimitiveType(dtypes[i], &type));
      results_.push_back(tensorflow::TensorShapeToXLAShape(type, shape));
    }
  }
};

class StageEntersXlaOp : public CallXlaOp {
 public:
  explicit StageEntersXlaOp(OpKernelConstruction* ctx) : CallXlaOp(ctx, kEnters) {
    std::string label;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("label", &label));
    attributes_ = absl::StrCat("{label = \"", label, "\"}");
  }
};

class StageEndsXlaOp : public CallXlaOp {
 public:
  explicit StageEndsXlaOp(OpKernelConstruction* ctx) : CallXlaOp(ctx, kEnds) {
    std::string label;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("label", &label));
    attributes_ = absl::StrCat("{label = \"", label, "\"}");
  }
};

// The inputs stay where they are.
class StageBeginsXlaOp : public XlaOpKernel {
 public:
  using XlaOpKernel::XlaOpKernel;

  void Compile(XlaOpKernelContext* ctx) override {
    const int inputs = ctx->num_inputs() - 1;
    std::vector<xla::XlaOp> operands;
    std::vector<xla::Shape> shapes;
    for (int i = 0; i <= inputs; ++i) {
      OP_REQUIRES_OK(ctx, add_operand(ctx->Input(i), &operands, &shapes));
    }
    std::vector<xla::Shape> results(shapes.begin(), shapes.begin() + inputs);
    results.push_back(xla::ShapeUtil::MakeShapeWithDescendingLayout(xla::S32, {2}));
    results.push_back(token_shape());
    const xla::XlaOp done =
        call(ctx->builder(), kBegins, operands, shapes, results, "", inputs);
    for (int i = 0; i < inputs + 2; ++i) {
      ctx->SetOutput(i, xla::GetTupleElement(done, i));
    }
  }
};

class PipelineCountXlaOp : public XlaOpKernel {
 public:
  explicit PipelineCountXlaOp(OpKernelConstruction* ctx) : XlaOpKernel(ctx) {
    std::int64_t multiple = 1;
    std::int64_t least = 0;
    std::int64_t most = 1;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("multiple", &multiple));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("least", &least));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("most", &most));
    attributes_ = absl::StrCat("{multiple = ", multiple, " : i64, least = ", least,
                               " : i64, most = ", most, " : i64}");
  }

  void Compile(XlaOpKernelContext* ctx) override {
    const auto scalar = [](xla::PrimitiveType type) {
      return xla::ShapeUtil::MakeShapeWithDescendingLayout(type, {});
    };
    const xla::XlaOp done = call(ctx->builder(), kCount, {ctx->Input(0)},
                                 {scalar(xla::S64)}, {scalar(xla::S32)}, attributes_);
    ctx->SetOutput(0, xla::GetTupleElement(done, 0));
  }

 private:
  std::string attributes_;
};

// A call that gives its one operand back.
class SameXlaOp : public XlaOpKernel {
 public:
  SameXlaOp(OpKernelConstruction* ctx, const char* target)
      : XlaOpKernel(ctx), target_(target) {}

  void Compile(XlaOpKernelContext* ctx) override {
    std::vector<xla::XlaOp> operands;
    std::vector<xla::Shape> shapes;
    OP_REQUIRES_OK(ctx, add_operand(ctx->Input(0), &operands, &shapes));
    const xla::XlaOp done =
        call(ctx->builder(), target_, operands, shapes, shapes, attributes_);
    ctx->SetOutput(0, xla::GetTupleElement(done, 0));
  }

 protected:
  std::string attributes_;

 private:
  const char* const target_;
};

class WaitXlaOp : public SameXlaOp {
 public:
  explicit WaitXlaOp(OpKernelConstruction* ctx) : SameXlaOp(ctx, kWait) {
    std::int64_t nanoseconds = 0;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("nanoseconds", &nanoseconds));
    attributes_ = absl::StrCat("{nanoseconds = ", nanoseconds, " : i64}");
  }
};

class RemoteXlaOp : public SameXlaOp {
 public:
  explicit RemoteXlaOp(OpKernelConstruction* ctx) : SameXlaOp(ctx, kRemote) {
    std::int64_t number = 0;
    bool stores = false;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("number", &number));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("stores", &stores));
    attributes_ = absl::StrCat("{number = ", number,
                               " : i64, stores = ", stores ? 1 : 0, " : i64}");
  }
};

REGISTER_XLA_OP(Name("IpufeedWait"), WaitXlaOp);
REGISTER_XLA_OP(Name("IpufeedRemote"), RemoteXlaOp);
REGISTER_XLA_OP(Name("IpufeedPipelineCount"), PipelineCountXlaOp);
REGISTER_XLA_OP(Name("IpufeedPipeline").AllowResourceTypes(), PipelineXlaOp);
REGISTER_XLA_OP(Name("IpufeedSend"), SendXlaOp);
REGISTER_XLA_OP(Name("IpufeedReceive"), ReceiveXlaOp);
REGISTER_XLA_OP(Name("IpufeedStageEnters"), StageEntersXlaOp);
REGISTER_XLA_OP(Name("IpufeedStageBegins"), StageBeginsXlaOp);
REGISTER_XLA_OP(Name("IpufeedStageEnds"), StageEndsXlaOp);

}  // namespace
}  // namespace ipufeed
