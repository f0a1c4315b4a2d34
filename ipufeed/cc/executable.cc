// See executable.h. Beside queue_xla_ops.cc the only file with XLA's headers in it.

#define EIGEN_USE_THREADS

#include "executable.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "chip_program.h"
#include "chips.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "ipu_device.h"
#include "machine_features.h"
#include "off_main.h"
#include "program.h"
#include "replicas.h"
#include "shards.h"
#include "tensorflow/compiler/jit/device_compiler.h"
#include "tensorflow/compiler/jit/xla_device_compiler_client.h"
#include "tensorflow/compiler/tf2xla/xla_op_registry.h"
#include "tensorflow/core/framework/device.h"
#include "tensorflow/core/framework/resource_mgr.h"
#include "trace.h"
#include "wait.h"
#include "xla/client/client_library.h"
#include "xla/hlo/ir/hlo_computation.h"
#include "xla/hlo/ir/hlo_instruction.h"
#include "xla/hlo/ir/hlo_module.h"
#include "xla/service/transfer_manager.h"
#include "xla/stream_executor/platform_manager.h"

namespace ipufeed {
namespace {

using tensorflow::XlaCompiler;
using tensorflow::XlaDeviceCompilerClient;
using StockCompiler =
    tensorflow::DeviceCompiler<xla::LocalExecutable, xla::LocalClient>;
using Persistor =
    tensorflow::DeviceExecutablePersistor<xla::LocalExecutable, xla::LocalClient>;

std::atomic<OnProgram> on_program{nullptr};
std::atomic<RunMode> mode{RunMode::kRun};
std::atomic<std::int64_t> next_id{1};

// What each device holds; 0 for nothing.
std::atomic<std::uint64_t> loaded[kIpus];

std::int64_t resident_bytes() {
  long pages = 0;
  if (std::FILE* file = std::fopen("/proc/self/statm", "r")) {
    if (std::fscanf(file, "%*s %ld", &pages) != 1) pages = 0;
    std::fclose(file);
  }
  return std::int64_t{pages} * sysconf(_SC_PAGESIZE);
}

// What a program does from start_ns on, until now.
void record_program(TraceKind kind, int ordinal, std::uint64_t key,
                    const std::string& name, std::int64_t start_ns) {
  const std::int64_t end_ns = now_ns();
  record({kind, ordinal, static_cast<std::int64_t>(key), start_ns, end_ns,
          end_ns - start_ns, 0, 0, 1},
         name);
}

// Time and memory of one phase.
class Phase {
 public:
  Phase() : start_ns_(now_ns()), start_bytes_(resident_bytes()) {}
  void write(ProgramExchange* exchange) const {
    exchange->duration_ns = now_ns() - start_ns_;
    exchange->rss_bytes = resident_bytes() - start_bytes_;
  }
  std::int64_t start_ns() const { return start_ns_; }

 private:
  const std::int64_t start_ns_;
  const std::int64_t start_bytes_;
};

constexpr std::size_t kMessageSize = 16384;

absl::Status tell(int event, ProgramExchange* exchange, std::string* message) {
  const auto ask = on_program.load(std::memory_order_acquire);
  if (ask == nullptr) return absl::OkStatus();
  message->resize(kMessageSize);
  exchange->message = message->data();
  exchange->message_size = static_cast<std::int64_t>(message->size());
  int code = 0;
  off_main([&] { code = ask(event, exchange); });
  if (code == 0) return absl::OkStatus();
  return absl::Status(static_cast<absl::StatusCode>(code), message->c_str());
}

// For events whose answer is not asked for.
void report(int event, ProgramExchange* exchange, std::string text = "") {
  const auto ask = on_program.load(std::memory_order_acquire);
  if (ask == nullptr) return;
  exchange->message = text.data();
  exchange->message_size = static_cast<std::int64_t>(text.size());
  off_main([&] { ask(event, exchange); });
}

// A program, whoever runs it.
struct Compiled {
  std::uint64_t key = 0;
  std::string name;
  std::unique_ptr<xla::LocalExecutable> executable;
  const xla::LocalClient* client = nullptr;  // that it was built with
};

// Loads and switches that Python has not been told of, and whether it wants to be.
std::atomic<std::int64_t> op_loads{0};
std::atomic<std::int64_t> op_switches{0};
std::atomic<bool> log_ops{false};

// The device gets the program that is about to run on it. Single ops are only counted
// unless somebody reads the log: to tell Python takes longer than many of them.
void load_onto(int ordinal, std::uint64_t key, const char* name, bool is_op = false) {
  if (ordinal < 0 || ordinal >= kIpus || key == 0) return;
  // Relaxed: the value is all that is exchanged.
  if (loaded[ordinal].load(std::memory_order_relaxed) == key) return;
  Phase phase;
  const std::uint64_t previous =
      loaded[ordinal].exchange(key, std::memory_order_relaxed);
  if (previous == key) return;
  if (is_op && !log_ops.load(std::memory_order_relaxed)) {
    op_loads.fetch_add(1, std::memory_order_relaxed);
    if (previous != 0) op_switches.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  ProgramExchange exchange{};
  exchange.ordinal = ordinal;
  exchange.name = name;
  exchange.key = key;
  exchange.previous = previous;
  phase.write(&exchange);
  if (traces()) {
    record_program(TraceKind::kLoad, ordinal, key, name, phase.start_ns());
  }
  report(kOntoDevice, &exchange);
}

// A program with one result gives it alone, not in a tuple.
int results_of(const xla::Shape& shape) {
  return shape.IsTuple() ? static_cast<int>(shape.tuple_shapes().size()) : 1;
}

xla::ShapeIndex index_of(const xla::Shape& shape, int result) {
  return shape.IsTuple() ? xla::ShapeIndex({result}) : xla::ShapeIndex();
}

// Of a program that is not started: variables lend their memory with the arguments, and
// keep it.
void give_back(std::vector<xla::ExecutionInput>& arguments) {
  for (xla::ExecutionInput& argument : arguments) {
    auto lent = argument.MutableBuffer({})->Release();
    if (lent.has_value()) lent->Release();
    argument.ClearUnownedIndex({});
  }
}

// How the results of a program that does not run are made.
struct Unchanged {
  int result;     // of the program: the new value of a variable
  int parameter;  // that has the old one
};

// The chip programs that were built on this thread for a program that is still being
// lowered. It takes them over, and lets them live as long as itself.
thread_local std::vector<std::shared_ptr<Compiled>> chip_programs;

// A replica's own arguments: copies of what the program may write to, and of the others
// their place.
absl::Status copy_arguments(const std::vector<xla::ExecutionInput>& arguments,
                            const xla::ServiceExecutableRunOptions& options,
                            std::vector<xla::ExecutionInput>* copies) {
  auto* allocator = options.run_options().allocator();
  const int ordinal = options.run_options().stream()->parent()->device_ordinal();
  absl::Status status;
  const auto copy = [&](const xla::MaybeOwningDeviceAddress& original) {
    const auto from = original.AsDeviceAddress();
    if (!original.HasOwnership()) return xla::MaybeOwningDeviceAddress(from);
    auto memory = allocator->Allocate(ordinal, from.size());
    if (!memory.ok()) {
      status = memory.status();
      return xla::MaybeOwningDeviceAddress();
    }
    std::memcpy((*memory)->opaque(), from.opaque(), from.size());
    return xla::MaybeOwningDeviceAddress(*std::move(memory));
  };
  for (const xla::ExecutionInput& argument : arguments) {
    copies->emplace_back(argument.Buffers().Map<xla::MaybeOwningDeviceAddress>(copy));
  }
  return status;
}

// Whether anybody can tell how many copies of a program run: those that take and give
// nothing, and do not ask for their number, all compute the same.
bool is_told_apart(const xla::HloModule& module) {
  for (const xla::HloComputation* computation : module.computations()) {
    for (const xla::HloInstruction* each : computation->instructions()) {
      if (each->opcode() == xla::HloOpcode::kCustomCall &&
          absl::StartsWith(each->custom_call_target(), "ipufeed_")) {
        return true;
      }
    }
  }
  return false;
}

class IpuExecutable : public xla::Executable {
 public:
  // shards: IPUs that one copy is spread over. As many copies run as there are for.
  IpuExecutable(std::shared_ptr<Compiled> compiled, std::vector<Unchanged> unchanged,
                int shards)
      : Executable(compiled->executable->executable()->shared_module()),
        compiled_(std::move(compiled)),
        unchanged_(std::move(unchanged)),
        shards_(shards),
        is_told_apart_(!has_module() || ipufeed::is_told_apart(module())),
        chip_programs_(std::exchange(chip_programs, {})) {}

  absl::StatusOr<xla::ExecutionOutput> ExecuteAsyncOnStream(
      const xla::ServiceExecutableRunOptions* options,
      std::vector<xla::ExecutionInput> arguments) override {
    const Program* program = current_program();
    const int ordinal = program == nullptr ? 0 : program->ordinal();
    absl::Status usable = use_device(ordinal);
    if (usable.ok() && run_mode() == RunMode::kRefuse) {
      usable = absl::InvalidArgumentError(
          "Trying to run an executable on a device that was configured for "
          "compilation only.");
    }
    if (!usable.ok()) {
      give_back(arguments);
      return usable;
    }
    if (run_mode() == RunMode::kZeros) return zeros(options, arguments);
    load_onto(ordinal, compiled_->key, compiled_->name.c_str());
    if (!traces()) return run(options, std::move(arguments));
    const std::int64_t start_ns = now_ns();
    auto result = run(options, std::move(arguments));
    record_program(TraceKind::kExecute, ordinal, compiled_->key, compiled_->name,
                   start_ns);
    return result;
  }

  std::int64_t SizeOfGeneratedCodeInBytes() const override {
    return inner()->SizeOfGeneratedCodeInBytes();
  }

  absl::Span<const xla::BufferAllocation* absl_nonnull const> GetAllocations()
      const override {
    return inner()->GetAllocations();
  }

 private:
  xla::Executable* inner() const { return compiled_->executable->executable(); }

  absl::StatusOr<xla::ExecutionOutput> run(
      const xla::ServiceExecutableRunOptions* options,
      std::vector<xla::ExecutionInput> arguments) {
    const Context& context = current_context();
    // A part of a program that runs replicated already is not replicated once more.
    if (context.program == nullptr || context.replicas > 1 ||
        context.pipeline != nullptr || !is_told_apart_) {
      return inner()->ExecuteAsyncOnStream(options, std::move(arguments));
    }
    const int chips = chips_of(context.program->ordinal());
    if (chips == 1 && shards_ == 1) {
      return inner()->ExecuteAsyncOnStream(options, std::move(arguments));
    }
    // The device may have been configured anew since the program was compiled.
    if (chips % shards_ != 0) {
      give_back(arguments);
      return absl::InternalError(absl::StrCat(
          "Trying to run a graph on an IPU device with ", chips, " IPUs and ", shards_,
          " shards. The number of shards needs to divide the number of IPUs."));
    }
    const int replicas = chips / shards_;
    if (replicas == 1) {
      return inner()->ExecuteAsyncOnStream(options, std::move(arguments));
    }
    return run_replicas(*options, std::move(arguments), context.program, replicas);
  }

  // Runs so many copies, each on the first of its chips. The results are those of the
  // first copy; what the others leave is dropped.
  absl::StatusOr<xla::ExecutionOutput> run_replicas(
      const xla::ServiceExecutableRunOptions& options,
      std::vector<xla::ExecutionInput> arguments, Program* program, int replicas) {
    struct Copy {
      xla::ServiceExecutableRunOptions options;
      std::vector<xla::ExecutionInput> arguments;
      absl::StatusOr<xla::ExecutionOutput> result = absl::InternalError("not run");
    };
    ChipLease lease;
    absl::Status ready = lease.take(program);
    std::vector<std::unique_ptr<Copy>> copies;
    for (int r = 0; r < replicas && ready.ok(); ++r) {
      auto copy = std::make_unique<Copy>(Copy{options, {}, absl::InternalError("")});
      copy->options.mutable_run_options()->set_intra_op_thread_pool(
          chip(program->ordinal(), r * shards_).pool());
      // Before the first copy runs, which gets the arguments themselves.
      if (r > 0) ready = copy_arguments(arguments, options, &copy->arguments);
      copies.push_back(std::move(copy));
    }
    if (!ready.ok()) {
      give_back(arguments);
      return ready;
    }
    copies[0]->arguments = std::move(arguments);
    Replicas others(replicas);
    program->add(&others);
    std::vector<ChipWork> works;
    for (int r = 0; r < replicas; ++r) {
      Copy* copy = copies[static_cast<std::size_t>(r)].get();
      Context context;
      context.program = program;
      context.chip = r * shards_;
      context.replica = r;
      context.replicas = replicas;
      context.others = &others;
      works.push_back({r * shards_, context, [this, copy, program, &others, r] {
                         copy->result = inner()->ExecuteAsyncOnStream(
                             &copy->options, std::move(copy->arguments));
                         absl::Status status = copy->result.status();
                         // One that has failed stops the others.
                         if (status.ok()) {
                           others.leave_for_good(r);
                           status = program->leave(r);
                         }
                         return of_replica(status, r, others.count());
                       }});
    }
    const absl::Status status =
        run_on_chips(program->ordinal(), works,
                     [program](const absl::Status& why) { program->stop(why); });
    program->remove(&others);
    if (!status.ok()) return status;
    return std::move(copies[0]->result);
  }

  // An error says whose it is. One that stopped all is none of a replica's own.
  static absl::Status of_replica(const absl::Status& status, int replica,
                                 int replicas) {
    if (status.ok() || absl::IsCancelled(status)) return status;
    return absl::Status(status.code(), absl::StrCat(status.message(), " (Replica ",
                                                    replica, " of ", replicas, ".)"));
  }

  absl::StatusOr<xla::ExecutionOutput> zeros(
      const xla::ServiceExecutableRunOptions* options,
      std::vector<xla::ExecutionInput>& arguments) const {
    TF_ASSIGN_OR_RETURN(xla::TransferManager * manager,
                        xla::TransferManager::GetForPlatform(
                            options->run_options().stream()->parent()->GetPlatform()));
    TF_ASSIGN_OR_RETURN(
        xla::ScopedShapedBuffer result,
        manager->AllocateScopedShapedBuffer(
            result_shape(), options->run_options().allocator(),
            options->run_options().stream()->parent()->device_ordinal()));
    const int count = results_of(result.on_device_shape());
    for (int i = 0; i < count; ++i) {
      const auto buffer = result.buffer(index_of(result.on_device_shape(), i));
      if (buffer.size() > 0) std::memset(buffer.opaque(), 0, buffer.size());
    }
    for (const Unchanged& each : unchanged_) {
      const xla::ShapeIndex index = index_of(result.on_device_shape(), each.result);
      xla::ExecutionInput& argument = arguments[each.parameter];
      // A variable that nobody else reads lends its own memory, and looks for it among
      // the results.
      auto lent = argument.MutableBuffer({})->Release();
      if (lent.has_value()) {
        argument.ClearUnownedIndex({});
        // Frees what was allocated in its place.
        const stream_executor::ScopedDeviceAddress<std::uint8_t> spare(
            result.buffer(index), result.device_ordinal(), result.memory_allocator());
        result.set_buffer(*std::move(lent), index);
        continue;
      }
      const auto to = result.buffer(index);
      const auto from = argument.Buffer({}).AsDeviceAddress();
      std::memcpy(to.opaque(), from.opaque(), std::min(to.size(), from.size()));
    }
    return xla::ExecutionOutput(std::move(result));
  }

  const std::shared_ptr<Compiled> compiled_;
  const std::vector<Unchanged> unchanged_;
  const int shards_;
  const bool is_told_apart_;
  const std::vector<std::shared_ptr<Compiled>> chip_programs_;
};

// The programs of this process. An entry's lock is held while its program is found or
// compiled: who comes second waits, and shares it.
struct Entry {
  std::mutex mutex;
  std::weak_ptr<Compiled> compiled;
};

// The programs that were compiled last stay, though their session has closed: the next
// one will want them.
void keep(std::shared_ptr<Compiled> compiled) {
  constexpr std::size_t kKept = 32;
  static std::mutex* const mutex = new std::mutex;
  static auto* const kept = new std::deque<std::shared_ptr<Compiled>>;
  std::shared_ptr<Compiled> oldest;  // freed without the lock
  std::lock_guard lock(*mutex);
  kept->push_back(std::move(compiled));
  if (kept->size() <= kKept) return;
  oldest = std::move(kept->front());
  kept->pop_front();
}

std::shared_ptr<Entry> entry_of(std::uint64_t key) {
  static std::mutex* const mutex = new std::mutex;
  static auto* const entries = new std::map<std::uint64_t, std::shared_ptr<Entry>>;
  std::lock_guard lock(*mutex);
  std::shared_ptr<Entry>& entry = (*entries)[key];
  if (entry == nullptr) entry = std::make_shared<Entry>();
  return entry;
}

// The variables that the program assigns to: results and the parameters they come from.
std::vector<Unchanged> updates(const XlaCompiler::CompilationResult& result) {
  std::vector<Unchanged> found;
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
// canonical.cc wants them.
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

  absl::StatusOr<std::unique_ptr<xla::LocalExecutable>> BuildExecutable(
      const XlaCompiler::Options& options,
      const XlaCompiler::CompilationResult& result) override {
    if (on_program.load(std::memory_order_acquire) == nullptr) {
      return XlaDeviceCompilerClient::BuildExecutable(options, result);
    }
    const int shards = shards_of_program(options, result);
    TF_ASSIGN_OR_RETURN(auto compiled, share_or_build(options, result, shards));
    const auto build_options = compiled->executable->build_options();
    return std::make_unique<xla::LocalExecutable>(
        std::make_unique<IpuExecutable>(std::move(compiled), updates(result), shards),
        client()->mutable_backend(), build_options);
  }

  // The program by its key: of this process, of a file, or compiled. shards: 0 for a
  // part of a program.
  absl::StatusOr<std::shared_ptr<Compiled>> share_or_build(
      const XlaCompiler::Options& options, const XlaCompiler::CompilationResult& result,
      int shards) {
    const std::string hlo = serialised(result.computation->proto());
    const std::string name = result.computation->proto().name();
    const auto* lowered = function_of(options, name);
    const std::string function = lowered == nullptr ? "" : lowered->SerializeAsString();
    const std::vector<std::int32_t> arguments(result.input_mapping.begin(),
                                              result.input_mapping.end());
    const Program* program = current_program();
    std::string message;
    ProgramExchange exchange{};
    exchange.id = next_id.fetch_add(1, std::memory_order_relaxed);
    exchange.ordinal = program == nullptr ? 0 : program->ordinal();
    exchange.name = name.c_str();
    exchange.function = function.data();
    exchange.function_size = static_cast<std::int64_t>(function.size());
    exchange.hlo = hlo.data();
    exchange.hlo_size = static_cast<std::int64_t>(hlo.size());
    exchange.arguments = arguments.data();
    exchange.parameters = static_cast<std::int64_t>(arguments.size());
    exchange.shards = shards;
    TF_RETURN_IF_ERROR(tell(kKey, &exchange, &message));
    const auto entry = entry_of(exchange.key);
    std::shared_ptr<Compiled> compiled;
    {
      std::lock_guard lock(entry->mutex);
      compiled = entry->compiled.lock();
      if (compiled != nullptr) {
        report(kShared, &exchange);
      } else {
        TF_ASSIGN_OR_RETURN(auto executable, find_or_build(options, result, &exchange));
        compiled = std::make_shared<Compiled>();
        compiled->key = exchange.key;
        compiled->name = name;
        compiled->executable = std::move(executable);
        compiled->client = client();
        entry->compiled = compiled;
        keep(compiled);
      }
    }
    return compiled;
  }

 private:
  static void trace(TraceKind kind, const ProgramExchange& exchange,
                    const Phase& phase) {
    if (!traces()) return;
    record_program(kind, exchange.ordinal, exchange.key, exchange.name,
                   phase.start_ns());
  }

  absl::StatusOr<std::unique_ptr<xla::LocalExecutable>> find_or_build(
      const XlaCompiler::Options& options, const XlaCompiler::CompilationResult& result,
      ProgramExchange* exchange) {
    std::string message;
    TF_RETURN_IF_ERROR(tell(kFind, exchange, &message));
    if (exchange->executable_size > 0) {
      // Copied: the bytes are Python's until the next event.
      const std::string file(exchange->executable,
                             static_cast<std::size_t>(exchange->executable_size));
      exchange->executable = nullptr;
      exchange->executable_size = 0;
      Phase phase;
      auto executable = LoadExecutable(options, result, file);
      if (executable.ok()) {
        phase.write(exchange);
        trace(TraceKind::kReadFile, *exchange, phase);
        report(kLoaded, exchange);
        return executable;
      }
      report(kUnusable, exchange, std::string(executable.status().message()));
    }
    Phase phase;
    auto executable = XlaDeviceCompilerClient::BuildExecutable(options, result);
    if (!executable.ok()) {
      report(kFailed, exchange, std::string(executable.status().message()));
      return executable;
    }
    phase.write(exchange);
    trace(TraceKind::kCompile, *exchange, phase);
    // What cannot be serialised is used all the same.
    auto file = SerializeExecutable(**executable);
    std::string bytes;
    if (file.ok()) {
      bytes = without_preferences(*std::move(file));
      exchange->executable = bytes.data();
      exchange->executable_size = static_cast<std::int64_t>(bytes.size());
    }
    TF_RETURN_IF_ERROR(tell(kCompiled, exchange, &message));
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

// XLA's kernels expect their arguments so aligned.
constexpr std::size_t kAlignment = 64;

// The memory itself, or a copy of it in `copies` where it is not aligned.
void* aligned(const Memory& memory, std::vector<tensorflow::Tensor>* copies) {
  if (reinterpret_cast<std::uintptr_t>(memory.data) % kAlignment == 0) {
    return memory.data;
  }
  const auto bytes = static_cast<std::int64_t>(memory.bytes);
  tensorflow::Tensor& copy =
      copies->emplace_back(tensorflow::DT_UINT8, tensorflow::TensorShape({bytes}));
  std::memcpy(copy.data(), memory.data, memory.bytes);
  return copy.data();
}

}  // namespace

absl::StatusOr<std::uint64_t> build_chip_program(
    const XlaCompiler& compiler, const tensorflow::XlaCompilationResult& result) {
  if (on_program.load(std::memory_order_acquire) == nullptr) {
    return absl::FailedPreconditionError(
        "A pipeline needs the executable cache: import ipufeed before it is run.");
  }
  auto* client = static_cast<xla::LocalClient*>(compiler.options().client);
  TF_ASSIGN_OR_RETURN(auto compiled,
                      Compiler(client).share_or_build(compiler.options(), result, 0));
  const std::uint64_t key = compiled->key;
  chip_programs.push_back(std::move(compiled));
  return key;
}

absl::Status run_chip_program(std::uint64_t key, const Chip& chip,
                              const std::vector<Memory>& arguments,
                              const std::vector<Memory>& results) {
  std::shared_ptr<Compiled> compiled;
  {
    const auto entry = entry_of(key);
    std::lock_guard lock(entry->mutex);
    compiled = entry->compiled.lock();
  }
  if (compiled == nullptr) {
    return absl::InternalError("The program of a pipeline's IPU has gone.");
  }
  xla::LocalExecutable& executable = *compiled->executable;
  const auto& layout =
      executable.executable()->module_config().entry_computation_layout();
  if (layout.parameter_count() != static_cast<int>(arguments.size())) {
    return absl::InternalError(
        absl::StrCat("The program of a pipeline's IPU takes ", layout.parameter_count(),
                     " arguments and got ", arguments.size(), "."));
  }
  std::vector<tensorflow::Tensor> copies;
  std::vector<xla::ShapedBuffer> buffers;
  buffers.reserve(arguments.size());
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    xla::ShapedBuffer& buffer = buffers.emplace_back(
        layout.parameter_shape(static_cast<int>(i)), /*device_ordinal=*/0);
    buffer.set_buffer(stream_executor::DeviceAddressBase(aligned(arguments[i], &copies),
                                                         arguments[i].bytes),
                      {});
  }
  std::vector<const xla::ShapedBuffer*> pointers;
  for (const xla::ShapedBuffer& buffer : buffers) pointers.push_back(&buffer);
  xla::ExecutableRunOptions options;
  options.set_intra_op_thread_pool(chip.pool());
  options.set_allocator(compiled->client->backend().memory_allocator());
  TF_ASSIGN_OR_RETURN(xla::ScopedShapedBuffer result,
                      executable.Run(pointers, options));
  for (std::size_t i = 0; i < results.size(); ++i) {
    const auto from = result.buffer({static_cast<std::int64_t>(i)});
    if (from.size() != results[i].bytes) {
      return absl::InternalError("A pipeline's result has another size.");
    }
    if (from.size() > 0) std::memcpy(results[i].data, from.opaque(), from.size());
  }
  return absl::OkStatus();
}

void set_on_program(OnProgram ask) { on_program.store(ask, std::memory_order_release); }

void set_run_mode(RunMode wanted) { mode.store(wanted, std::memory_order_relaxed); }

RunMode run_mode() { return mode.load(std::memory_order_relaxed); }

void forget_loaded() {
  for (auto& key : loaded) key.store(0, std::memory_order_relaxed);
}

void note_single_op(int ordinal, std::uint64_t key, const char* name) {
  load_onto(ordinal, key, name, /*is_op=*/true);
}

void set_log_ops(bool log) { log_ops.store(log, std::memory_order_relaxed); }

void take_op_loads(std::int64_t* loads, std::int64_t* switches) {
  *loads = op_loads.exchange(0, std::memory_order_relaxed);
  *switches = op_switches.exchange(0, std::memory_order_relaxed);
}

void install_compiler(tensorflow::Device* device) {
  // TensorFlow's launching op looks here for its compiler, and makes one if there is
  // none.
  tensorflow::ResourceMgr* resources = device->resource_manager();
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

}  // namespace ipufeed
