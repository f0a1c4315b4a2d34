// A device whose name is IPU and whose kernels are the CPU's: all that TensorFlow can
// do on a CPU, XLA included, works on it. What is its own:
//
// - Two pools of threads. A program blocks in its queue calls, and one that did so in a
//   pool that the host shares would starve the very functions that feed it. Their
//   threads start with the first piece of work, since most of the 16 never get one.
// - Each kernel runs as a Program (program.h), which its queue calls find again, on the
//   pool's threads, too: XLA runs a compiled loop there.

#include "device/ipu_device.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "base/guard.h"
#include "base/python_calls.h"
#include "core/mutex.h"
#include "core/wait.h"
#include "device/pools.h"
#include "device/program_events.h"
#include "device/tensor_memory.h"
#include "run/device_config.h"
#include "run/program.h"
#include "tensorflow/core/common_runtime/device_factory.h"
#include "tensorflow/core/common_runtime/threadpool_device.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/platform/cpu_info.h"
#include "tensorflow/core/platform/fingerprint.h"
#include "tensorflow/core/platform/logging.h"
#include "tensorflow/core/platform/threadpool.h"
#include "tensorflow/core/public/session_options.h"
#include "unsupported/Eigen/CXX11/Tensor"

namespace ipufeed {
namespace {

using tensorflow::AsyncOpKernel;
using tensorflow::Device;
using tensorflow::OpKernel;
using tensorflow::OpKernelContext;
using tensorflow::SessionOptions;
using tensorflow::ThreadPoolDevice;
using tensorflow::thread::ThreadPool;

std::atomic<OnFirstUse> on_first_use{nullptr};
std::atomic<bool> used[kDevices];

std::atomic<bool> log_cycles{false};

InstallCompiler install_compiler = nullptr;  // written before main()

// A device whose compiler is older gets a new one.
std::atomic<std::int64_t> compiler_age{1};

// The clock that the hardware's second generation runs at.
constexpr double kCyclesPerNs = 1.33;

// One line for each program: what TensorFlow has compiled as a whole. Single ops, also
// those of the queues, are none.
void log_cycle_count(const OpKernel& kernel, std::int64_t start_ns) {
  if (!log_cycles.load(std::memory_order_relaxed)) return;
  const std::string& type = kernel.type_string();
  if (!absl::StrContains(type, "Xla") && !absl::StartsWith(type, "__inference_"))
    return;
  const auto ns = static_cast<double>(now_ns() - start_ns);
  LOG(INFO) << "Cycle count of program " << kernel.name() << ": "
            << static_cast<std::int64_t>(ns * kCyclesPerNs) << " (" << ns / 1e6
            << " ms at 1.33 GHz)";
}

// Whether a kernel compiles a program, or calls a function whose kernels do their own
// work. The device is attached to when what is in it runs.
bool calls(const OpKernel& kernel) {
  const std::string& type = kernel.type_string();
  if (absl::StrContains(type, "Xla") || absl::StartsWith(type, "__") ||
      absl::StrContains(type, "PartitionedCall")) {
    return true;
  }
  const auto must = kernel.def().attr().find("_XlaMustCompile");
  return must != kernel.def().attr().end() && must->second.b();
}

// Ops that hand values on, or do nothing that a device would compute.
bool is_plumbing(const std::string& type) {
  static const auto* const types = new absl::flat_hash_set<std::string>{
      "Assert",         "Cast",      "Const",          "ControlTrigger",
      "Enter",          "Exit",      "ExpandDims",     "HostConst",
      "Identity",       "IdentityN", "LoopCond",       "Merge",
      "NextIteration",  "NoOp",      "Pack",           "Placeholder",
      "ReadVariableOp", "Reshape",   "ResourceHandle", "Shape",
      "Squeeze",        "Switch",    "VarHandleOp",    "VarIsInitializedOp"};
  return type[0] == '_' || absl::StartsWith(type, "Ipufeed") || types->contains(type);
}

bool is_scalar(const OpKernelContext& context) {
  for (int i = 0; i < context.num_inputs(); ++i) {
    if (!context.has_input(i)) continue;
    if (context.input_dtype(i) == tensorflow::DT_RESOURCE || context.input_is_ref(i)) {
      return false;
    }
    if (context.input(i).NumElements() > 1) return false;
  }
  return true;
}

// An op that TensorFlow's executor runs is a program by itself, unless it is one of
// those that are one program together. What computes with scalars only would run on the
// host.
absl::Status note_op(int ordinal, const OpKernel& kernel,
                     const OpKernelContext& context) {
  if (is_plumbing(kernel.type_string())) return absl::OkStatus();
  const auto& attributes = kernel.def().attr();
  const auto program = attributes.find("_ipufeed_program");
  if (program != attributes.end()) {
    if (run_mode() == RunMode::kZeros) {
      return absl::UnimplementedError(
          "Programs that TensorFlow's executor runs cannot be pre-compiled: those with "
          "outside_compilation_scope, and those of set_executor('tensorflow'). Take "
          "the scope out, or use another connection type than PRE_COMPILE.");
    }
    const std::string& name = program->second.s();
    note_single_op(ordinal, tensorflow::Fingerprint64(name), name.c_str());
    return absl::OkStatus();
  }
  if (run_mode() == RunMode::kZeros || is_scalar(context)) return absl::OkStatus();
  const std::string& name =
      kernel.name().empty() ? kernel.type_string() : kernel.name();
  note_single_op(ordinal, tensorflow::Fingerprint64(kernel.type_string() + name),
                 name.c_str());
  return absl::OkStatus();
}

// The size that a device reports. Nothing is bounded by it.
constexpr std::int64_t kMemory = std::int64_t{640} << 20;

// Programs of a session's device that run at once, or wait: as many as have threads of
// IPUs (IpuLease::kSets), and some that wait for these and say so.
constexpr std::size_t kMostPrograms = 24;

// A device's threads.
struct Pools {
  Pools(const std::string& name, int threads)
      : inside_threads(name + "_intra", threads),
        between_threads(name + "_host", kMostPrograms),
        inside(&inside_threads),
        between(&between_threads),
        propagating(&inside_threads),
        eigen(&propagating, threads) {
    workers.num_threads = threads;
    workers.workers = &inside;
  }

  LazyPool inside_threads;
  GrowingPool between_threads;
  ThreadPool inside;   // parts of an op
  ThreadPool between;  // ops: where the executor runs the device's graph
  PropagatingPool propagating;
  Eigen::ThreadPoolDevice eigen;
  tensorflow::DeviceBase::CpuWorkerThreads workers;
};

// As many as the session requests for the parts of an op, or else the CPUs.
int inside_threads(const SessionOptions& options) {
  const int wanted = options.config.intra_op_parallelism_threads();
  if (wanted > 0) return wanted;
  return std::max(1, static_cast<int>(tensorflow::port::MaxParallelism()));
}

class IpuDevice : public ThreadPoolDevice {
 public:
  IpuDevice(const SessionOptions& options, const std::string& name)
      : ThreadPoolDevice(options, name, tensorflow::Bytes(kMemory),
                         tensorflow::DeviceLocality(), tensor_memory()),
        pools_("ipu" + std::to_string(parsed_name().id), inside_threads(options)) {}

  const CpuWorkerThreads* tensorflow_cpu_worker_threads() const override {
    return &pools_.workers;
  }
  ThreadPool* tensorflow_device_thread_pool() override { return &pools_.between; }
  bool has_eigen_cpu_device() const override { return true; }
  const Eigen::ThreadPoolDevice* eigen_cpu_device() override { return &pools_.eigen; }

  void Compute(OpKernel* kernel, OpKernelContext* context) override {
    const absl::Status status = guarded(
        "an op on an IPU", [&]() -> absl::Status { return compute(kernel, context); });
    if (!status.ok()) context->SetStatus(status);
  }

  absl::Status compute(OpKernel* kernel, OpKernelContext* context) {
    TF_RETURN_IF_ERROR(prepare(*kernel));
    const Uses uses(calls(*kernel) ? &compiler_ : nullptr, this);
    TF_RETURN_IF_ERROR(note_op(parsed_name().id, *kernel, *context));
    const std::int64_t start_ns = now_ns();
    Program program(context->cancellation_manager(), parsed_name().id);
    ProgramScope scope(&program);
    ThreadPoolDevice::Compute(kernel, context);
    log_cycle_count(*kernel, start_ns);
    program.end(context->status());
    return absl::OkStatus();
  }

  // Asynchronous kernels, such as a call of a function, go on after this returns.
  void ComputeAsync(AsyncOpKernel* kernel, OpKernelContext* context,
                    AsyncOpKernel::DoneCallback done) override {
    const absl::Status usable =
        guarded("an op on an IPU", [&] { return prepare(*kernel); });
    if (!usable.ok()) {
      context->SetStatus(usable);
      done();
      return;
    }
    auto program =
        std::make_shared<Program>(context->cancellation_manager(), parsed_name().id);
    auto uses = std::make_shared<Uses>(calls(*kernel) ? &compiler_ : nullptr, this);
    const std::int64_t start_ns = now_ns();
    ProgramScope scope(program.get());
    ThreadPoolDevice::ComputeAsync(
        kernel, context, [=, uses = std::move(uses), done = std::move(done)]() mutable {
          log_cycle_count(*kernel, start_ns);
          program->end(context->status());
          uses.reset();  // the step's end may destroy the device
          done();
        });
  }

 private:
  absl::Status prepare(const OpKernel& kernel) {
    const int ordinal = parsed_name().id;
    if (used[ordinal].load(std::memory_order_acquire) || calls(kernel)) {
      return absl::OkStatus();
    }
    // Programs are compiled before they are refused: what hands them their arguments
    // and variables is not.
    const std::string& type = kernel.type_string();
    if (run_mode() == RunMode::kRefuse && (type[0] == '_' || type == "VarHandleOp")) {
      return absl::OkStatus();
    }
    return use_device(ordinal);
  }

  // The device's compiler, and how many kernels may have programs of it in their hands.
  struct CompilerOfDevice {
    Mutex mutex;
    std::int64_t age IPUFEED_GUARDED_BY(mutex) = 0;  // none yet
    int uses IPUFEED_GUARDED_BY(mutex) = 0;
  };

  // A kernel's use of the compiler, for its lifetime. The first at a time finds a new
  // one if the device has none, or one that is to be forgotten: TensorFlow's kernels
  // hold programs of it without a reference.
  class Uses {
   public:
    Uses(CompilerOfDevice* compiler, Device* device) : compiler_(compiler) {
      if (compiler_ == nullptr) return;
      MutexLock lock(compiler_->mutex);
      const std::int64_t age = compiler_age.load(std::memory_order_relaxed);
      if (compiler_->uses == 0 && compiler_->age != age) {
        if (install_compiler != nullptr) install_compiler(device);
        compiler_->age = age;
      }
      ++compiler_->uses;
    }
    ~Uses() {
      if (compiler_ == nullptr) return;
      MutexLock lock(compiler_->mutex);
      --compiler_->uses;
    }
    Uses(const Uses&) = delete;
    Uses& operator=(const Uses&) = delete;

   private:
    CompilerOfDevice* const compiler_;
  };

  Pools pools_;
  CompilerOfDevice compiler_;
};

class IpuFactory : public tensorflow::DeviceFactory {
 public:
  absl::Status ListPhysicalDevices(std::vector<std::string>* devices) override {
    for (int i = 0; i < kDevices; ++i) {
      devices->push_back("/physical_device:IPU:" + std::to_string(i));
    }
    return absl::OkStatus();
  }

  absl::Status CreateDevices(const SessionOptions& options, const std::string& prefix,
                             std::vector<std::unique_ptr<Device>>* devices) override {
    const auto& counts = options.config.device_count();
    const auto asked = counts.find("IPU");
    const int count = asked == counts.end()
                          ? kDevices
                          : std::min(kDevices, static_cast<int>(asked->second));
    for (int i = 0; i < count; ++i) {
      devices->push_back(std::make_unique<IpuDevice>(
          options, prefix + "/device:IPU:" + std::to_string(i)));
    }
    return absl::OkStatus();
  }
};

constexpr int kPriority = 50;  // below the CPU's: nothing lands here unasked

const bool kFactoryRegistered = [] {
  tensorflow::DeviceFactory::Register("IPU", std::make_unique<IpuFactory>(), kPriority,
                                      /*is_pluggable_device=*/false);
  return true;
}();

}  // namespace

// The first use of an IPU waits for the answer. Later ones read one flag.
// [1] use_device() -> use_device(): what the answer has configured is visible.
// [2] set_on_first_use() -> use_device(): state that Python prepared before is visible.
absl::Status use_device(int ordinal) {
  if (ordinal < 0 || ordinal >= kDevices) return absl::OkStatus();
  if (used[ordinal].load(std::memory_order_acquire)) return absl::OkStatus();  // [1]
  const auto ask = on_first_use.load(std::memory_order_acquire);               // [2]
  if (ask == nullptr) return absl::OkStatus();
  char message[1024] = "";
  int code = 0;
  off_main([&] { code = ask(ordinal, message, sizeof(message)); });
  if (code != 0) return absl::Status(static_cast<absl::StatusCode>(code), message);
  used[ordinal].store(true, std::memory_order_release);  // [1]
  return absl::OkStatus();
}

bool set_compiler(InstallCompiler install) {
  install_compiler = install;
  return true;
}

void set_on_first_use(OnFirstUse ask) {
  on_first_use.store(ask, std::memory_order_release);  // [2]
}

void set_log_cycle_count(bool log) { log_cycles.store(log, std::memory_order_relaxed); }

void forget_first_uses() {
  for (auto& flag : used) flag.store(false, std::memory_order_release);  // [1]
}

void forget_compilers() { compiler_age.fetch_add(1, std::memory_order_relaxed); }

}  // namespace ipufeed
