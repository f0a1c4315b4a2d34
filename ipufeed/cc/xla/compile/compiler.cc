#include "xla/compile/compiler.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/guard.h"
#include "base/trace.h"
#include "core/mutex.h"
#include "core/spare_memory.h"
#include "device/ipu_device.h"
#include "device/program_events.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "pipeline/ipu_program.h"
#include "run/program.h"
#include "tensorflow/compiler/jit/device_compiler.h"
#include "tensorflow/compiler/jit/xla_device_compiler_client.h"
#include "tensorflow/compiler/tf2xla/xla_op_registry.h"
#include "tensorflow/core/framework/device.h"
#include "tensorflow/core/framework/resource_mgr.h"
#include "xla/calls/names.h"
#include "xla/client/client_library.h"
#include "xla/compile/ipu_executable.h"
#include "xla/compile/machine_features.h"
#include "xla/compile/program_table.h"
#include "xla/compile/shards.h"
#include "xla/compile/xla_compilation.h"
#include "xla/lowering/token_chain.h"
#include "xla/stream_executor/platform_manager.h"

namespace ipufeed {
namespace {

using tensorflow::XlaCompiler;
using tensorflow::XlaDeviceCompilerClient;
using StockCompiler =
    tensorflow::DeviceCompiler<xla::LocalExecutable, xla::LocalClient>;
using Persistor =
    tensorflow::DeviceExecutablePersistor<xla::LocalExecutable, xla::LocalClient>;

// An attribute of modules: ipufeed/executable/hlo/hlo.py reads it.
constexpr char kInPlace[] = "ipufeed_in_place";

std::atomic<std::int64_t> next_id{1};

// The IPU programs that were built on this thread for a program that is still being
// lowered, which owns them from then on.
thread_local std::vector<std::shared_ptr<Compiled>> ipu_programs;

// The variables that the program assigns to: results and the parameters of their
// values.
std::vector<VariableUpdate> updates_of(const XlaCompiler::CompilationResult& result) {
  std::vector<VariableUpdate> found;
  const int first = results_of(result.xla_output_shape) -
                    static_cast<int>(result.resource_updates.size());
  for (std::size_t i = 0; i < result.resource_updates.size(); ++i) {
    const int input = result.resource_updates[i].input_index;
    const auto at =
        std::find(result.input_mapping.begin(), result.input_mapping.end(), input);
    if (at == result.input_mapping.end()) continue;  // not initialised before
    found.push_back({first + static_cast<int>(i),
                     static_cast<int>(at - result.input_mapping.begin())});
  }
  return found;
}

// Whether a program gives something to the outside, or asks for its replica's number.
// One that only draws random numbers does not: its results are those of the first copy.
bool observes_copies(const xla::HloModuleProto& module) {
  for (const auto& computation : module.computations()) {
    for (const auto& each : computation.instructions()) {
      const std::string& name = each.custom_call_target();
      if (absl::StartsWith(name, "ipufeed_") && name != kSeed && name != kRandom) {
        return true;
      }
    }
  }
  return false;
}

// The results of such a program get memory of their own until XLA's passes have run:
// see ipu_executable.h. Reports count the memory of an IPU, and find the parameters
// that would share theirs in the attribute. Returns whether it is such a program.
bool without_aliases(xla::HloModuleProto* module) {
  if (!observes_copies(*module)) return false;
  std::vector<std::int64_t> in_place;
  for (const auto& each : module->input_output_alias().entries()) {
    in_place.push_back(each.parameter_number());
  }
  if (!in_place.empty()) {
    (*module->mutable_frontend_attributes()->mutable_map())[kInPlace] =
        absl::StrJoin(in_place, ",");
  }
  module->clear_input_output_alias();
  module->clear_buffer_donor();
  return true;
}

// The function that was lowered, or null: what XLA calls the module begins with its
// name.
const tensorflow::FunctionDef* function_of(const XlaCompiler::Options& options,
                                           const std::string& name) {
  if (options.flib_def == nullptr) return nullptr;
  std::string best;
  for (const std::string& each : options.flib_def->ListFunctionNames()) {
    // XLA replaces what it does not allow in names; functions' names have none of it.
    if (each.size() > best.size() && name.compare(0, each.size(), each) == 0) {
      best = each;
    }
  }
  return best.empty() ? nullptr : options.flib_def->Find(best);
}

// In bytes that are the same for the same message: maps in the order of their keys, as
// canonical.cc needs them.
std::string serialised(const google::protobuf::Message& message) {
  std::string bytes;
  google::protobuf::io::StringOutputStream stream(&bytes);
  google::protobuf::io::CodedOutputStream coded(&stream);
  coded.SetSerializationDeterministic(true);
  message.SerializeToCodedStream(&coded);
  coded.Trim();
  return bytes;
}

// IPUs that one copy of a program is spread over.
int shards_of_program(const XlaCompiler::Options& options,
                      const XlaCompiler::CompilationResult& result) {
  const auto* lowered = function_of(options, result.computation->proto().name());
  return lowered == nullptr ? 1 : shards_of(*options.flib_def, *lowered);
}

class Compiler : public XlaDeviceCompilerClient {
 public:
  using XlaDeviceCompilerClient::XlaDeviceCompilerClient;

  using Built = absl::StatusOr<std::unique_ptr<xla::LocalExecutable>>;

  Built BuildExecutable(const XlaCompiler::Options& options,
                        const XlaCompiler::CompilationResult& result) override {
    return guarded("the compiling of a program",
                   [&]() -> Built { return build(options, result); });
  }

  Built build(const XlaCompiler::Options& options,
              const XlaCompiler::CompilationResult& result) {
    chain_tokens(result.computation->mutable_proto());
    if (!has_listener()) {
      return compile_by_xla(client(), options, result, {});
    }
    const bool observes_copies = without_aliases(result.computation->mutable_proto());
    const int shards = shards_of_program(options, result);
    std::vector<VariableUpdate> updates = updates_of(result);
    // Several copies all read the same memory.
    const Program* program = current_program();
    const bool one_copy = program != nullptr && program->ipus() == shards;
    std::vector<VariableUpdate> donated;
    if (observes_copies && one_copy) donated = updates;
    TF_ASSIGN_OR_RETURN(auto compiled,
                        share_or_build(options, result, shards, donated));
    const auto build_options = compiled->executable->build_options();
    return std::make_unique<xla::LocalExecutable>(
        make_executable(std::move(compiled), std::move(updates), shards,
                        observes_copies, std::exchange(ipu_programs, {})),
        client()->mutable_backend(), build_options);
  }

  // The program by its key: of this process, of a file, or compiled. shards: 0 for a
  // part of a program. donated: updates of variables, see compile_by_xla().
  absl::StatusOr<std::shared_ptr<Compiled>> share_or_build(
      const XlaCompiler::Options& options, const XlaCompiler::CompilationResult& result,
      int shards, const std::vector<VariableUpdate>& donated) {
    const std::string hlo = serialised(result.computation->proto());
    const std::string name = result.computation->proto().name();
    const auto* lowered = function_of(options, name);
    const std::string function = lowered == nullptr ? "" : lowered->SerializeAsString();
    const std::vector<std::int32_t> arguments(result.input_mapping.begin(),
                                              result.input_mapping.end());
    const Program* program = current_program();
    std::string message;
    ProgramCall call{};
    call.id = next_id.fetch_add(1, std::memory_order_relaxed);
    call.ordinal = program == nullptr ? 0 : program->ordinal();
    call.name = name.c_str();
    call.function = function.data();
    call.function_size = static_cast<std::int64_t>(function.size());
    call.hlo = hlo.data();
    call.hlo_size = static_cast<std::int64_t>(hlo.size());
    call.arguments = arguments.data();
    call.parameters = static_cast<std::int64_t>(arguments.size());
    call.shards = shards;
    TF_RETURN_IF_ERROR(notify(kKey, &call, &message));
    const auto entry = entry_of(call.key);
    std::shared_ptr<Compiled> compiled;
    {
      const std::int64_t now = times_forgotten();
      MutexLock lock(entry->mutex);
      if (entry->forgotten == now) compiled = entry->compiled.lock();
      if (compiled != nullptr) {
        report(kShared, &call);
      } else {
        TF_ASSIGN_OR_RETURN(auto executable,
                            find_or_build(options, result, donated, &call));
        compiled = std::make_shared<Compiled>();
        compiled->key = call.key;
        compiled->name = name;
        compiled->executable = std::move(executable);
        entry->replace(compiled);
        entry->forgotten = now;
        keep_program(compiled);
      }
    }
    return compiled;
  }

 private:
  static void trace(TraceKind kind, const ProgramCall& call, const Phase& phase) {
    if (!traces()) return;
    record_program(kind, call.ordinal, call.key, call.name, phase.start_ns());
  }

  absl::StatusOr<std::unique_ptr<xla::LocalExecutable>> find_or_build(
      const XlaCompiler::Options& options, const XlaCompiler::CompilationResult& result,
      const std::vector<VariableUpdate>& donated, ProgramCall* call) {
    std::string message;
    TF_RETURN_IF_ERROR(notify(kFind, call, &message));
    if (call->executable_size > 0) {
      // Copied: the bytes are Python's until the next event.
      const std::string file(call->executable,
                             static_cast<std::size_t>(call->executable_size));
      call->executable = nullptr;
      call->executable_size = 0;
      Phase phase;
      auto executable = [&] {
        const QuietLoading quiet;
        return LoadExecutable(options, result, file);
      }();
      if (executable.ok()) {
        phase.write(call);
        trace(TraceKind::kReadFile, *call, phase);
        report(kLoaded, call);
        return executable;
      }
      report(kUnusable, call, std::string(executable.status().message()));
    }
    Phase phase;
    auto executable = compile_by_xla(client(), options, result, donated);
    if (!executable.ok()) {
      report(kFailed, call, std::string(executable.status().message()));
      return executable;
    }
    phase.write(call);
    trace(TraceKind::kCompile, *call, phase);
    // A program that cannot be serialised is still used.
    auto file = SerializeExecutable(**executable);
    std::string bytes;
    if (file.ok()) {
      bytes = without_preferences(*std::move(file));
      call->executable = bytes.data();
      call->executable_size = static_cast<std::int64_t>(bytes.size());
    }
    TF_RETURN_IF_ERROR(notify(kCompiled, call, &message));
    return executable;
  }
};

absl::StatusOr<StockCompiler*> make_compiler(const tensorflow::Device& device) {
  TF_ASSIGN_OR_RETURN(auto* platform,
                      stream_executor::PlatformManager::PlatformWithName("Host"));
  xla::LocalClientOptions options;
  options.set_platform(platform);
  options.set_intra_op_parallelism_threads(
      device.tensorflow_cpu_worker_threads()->num_threads);
  TF_ASSIGN_OR_RETURN(auto* client,
                      xla::ClientLibrary::GetOrCreateLocalClient(options));
  // No directory: files are ours to keep.
  return new StockCompiler(
      std::make_unique<Persistor>(
          Persistor::Config(), tensorflow::DeviceType(tensorflow::DEVICE_CPU_XLA_JIT)),
      std::make_unique<Compiler>(client));
}

}  // namespace

absl::StatusOr<std::uint64_t> build_ipu_program(
    const XlaCompiler& compiler, const tensorflow::XlaCompilationResult& result) {
  if (!has_listener()) {
    return absl::FailedPreconditionError(
        "A pipeline needs the executable cache: import ipufeed before it is run.");
  }
  chain_tokens(result.computation->mutable_proto());
  auto* client = static_cast<xla::LocalClient*>(compiler.options().client);
  TF_ASSIGN_OR_RETURN(auto compiled, Compiler(client).share_or_build(compiler.options(),
                                                                     result, 0, {}));
  const std::uint64_t key = compiled->key;
  ipu_programs.push_back(std::move(compiled));
  return key;
}

void forget_programs() {
  forget_entries();  // first: a new compiler must not find an old program
  forget_compilers();
  SpareMemory::get().clear();  // of runs whose programs are gone
}

namespace {

void install_compiler(tensorflow::Device* device) {
  // TensorFlow's launching op looks here for its compiler, and makes one if there is
  // none.
  tensorflow::ResourceMgr* resources = device->resource_manager();
  // There may be none.
  resources
      ->Delete<StockCompiler>(resources->default_container(), "xla_device_compiler")
      .IgnoreError();
  StockCompiler* compiler = nullptr;
  const absl::Status made = resources->LookupOrCreate<StockCompiler>(
      resources->default_container(), "xla_device_compiler", &compiler,
      [device](StockCompiler** result) -> absl::Status {
        TF_ASSIGN_OR_RETURN(*result, make_compiler(*device));
        return absl::OkStatus();
      });
  if (made.ok()) {
    compiler->Unref();
  } else {
    LOG(WARNING) << "Programs of " << device->name()
                 << " are compiled without the executable cache: " << made.message();
  }
}

const bool kInstalled = set_compiler(install_compiler);

}  // namespace

}  // namespace ipufeed
