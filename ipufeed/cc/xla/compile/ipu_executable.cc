#include "xla/compile/ipu_executable.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/guard.h"
#include "base/trace.h"
#include "core/wait.h"
#include "device/ipu_device.h"
#include "device/ipu_threads.h"
#include "device/program_events.h"
#include "replicas/processes.h"
#include "replicas/replicas.h"
#include "run/device_config.h"
#include "run/program.h"
#include "xla/calls/names.h"
#include "xla/compile/program_memory.h"
#include "xla/hlo/ir/hlo_computation.h"
#include "xla/hlo/ir/hlo_instruction.h"
#include "xla/hlo/ir/hlo_module.h"
#include "xla/service/transfer_manager.h"

namespace ipufeed {
namespace {

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

// A replica's arguments: the same memory for all, which none of them owns. XLA lets a
// program write to what it owns only.
std::vector<xla::ExecutionInput> shared(
    const std::vector<xla::ExecutionInput>& arguments) {
  std::vector<xla::ExecutionInput> same;
  same.reserve(arguments.size());
  for (const xla::ExecutionInput& argument : arguments) {
    same.emplace_back(argument.Buffers().Map<xla::MaybeOwningDeviceAddress>(
        [](const xla::MaybeOwningDeviceAddress& each) {
          return xla::MaybeOwningDeviceAddress(each.AsDeviceAddress());
        }));
  }
  return same;
}

// Whether a program has a custom call that fits.
template <class Fits>
bool calls_any(const xla::HloModule& module, const Fits& fits) {
  for (const xla::HloComputation* computation : module.computations()) {
    for (const xla::HloInstruction* each : computation->instructions()) {
      if (each->opcode() == xla::HloOpcode::kCustomCall && fits(*each)) return true;
    }
  }
  return false;
}

bool draws_seeds(const xla::Executable& executable) {
  return executable.has_module() &&
         calls_any(executable.module(), [](const xla::HloInstruction& each) {
           return each.custom_call_target() == kSeed;
         });
}

// Whether a program has collectives with other processes, if there are any: what is
// in groups stays within a process, but for a group of all replicas of all.
bool has_collectives(const xla::Executable& executable) {
  return executable.has_module() &&
         calls_any(executable.module(), [](const xla::HloInstruction& each) {
           return absl::StartsWith(each.custom_call_target(), kCollectiveOfAll);
         });
}

class IpuExecutable : public xla::Executable {
 public:
  IpuExecutable(std::shared_ptr<Compiled> compiled, std::vector<VariableUpdate> updates,
                int shards, bool observes_copies,
                std::vector<std::shared_ptr<Compiled>> ipu_programs)
      : Executable(compiled->executable->executable()->shared_module()),
        compiled_(std::move(compiled)),
        updates_(std::move(updates)),
        shards_(shards),
        observes_copies_(observes_copies),
        ipu_programs_(std::move(ipu_programs)),
        has_collectives_(any_part(ipufeed::has_collectives)),
        draws_seeds_(any_part(ipufeed::draws_seeds)) {}

  using Output = absl::StatusOr<xla::ExecutionOutput>;

  Output ExecuteAsyncOnStream(const xla::ServiceExecutableRunOptions* options,
                              std::vector<xla::ExecutionInput> arguments) override {
    const Program* program = current_program();
    const int ordinal = program == nullptr ? 0 : program->ordinal();
    absl::Status usable =
        guarded("the start of a program", [ordinal] { return use_device(ordinal); });
    if (usable.ok() && run_mode() == RunMode::kRefuse) {
      usable = absl::InvalidArgumentError(
          "Trying to run an executable on a device that was configured for "
          "compilation only.");
    }
    if (!usable.ok()) {
      give_back(arguments);
      return usable;
    }
    Output output = guarded("the run of a program", [&]() -> Output {
      if (run_mode() == RunMode::kZeros) return zeros(options, arguments);
      load_onto(ordinal, compiled_->key, compiled_->name.c_str());
      xla::ServiceExecutableRunOptions own = *options;
      own.mutable_run_options()->set_allocator(program_memory());
      if (!traces()) return run(&own, std::move(arguments));
      const std::int64_t start_ns = now_ns();
      auto result = run(&own, std::move(arguments));
      record_program(TraceKind::kExecute, ordinal, compiled_->key, compiled_->name,
                     start_ns);
      return result;
    });
    if (!output.ok()) give_back(arguments);  // those that no run has taken
    return output;
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

  // Whether it is so of the program, or of one that it starts on its IPUs.
  bool any_part(bool (*is_so)(const xla::Executable&)) const {
    return is_so(*inner()) ||
           std::any_of(ipu_programs_.begin(), ipu_programs_.end(),
                       [is_so](const auto& each) {
                         return is_so(*each->executable->executable());
                       });
  }

  absl::StatusOr<xla::ExecutionOutput> run(
      const xla::ServiceExecutableRunOptions* options,
      std::vector<xla::ExecutionInput> arguments) {
    const Context& context = current_context();
    if (draws_seeds_ && context.program != nullptr) {
      context.program->seeds().begin(context.program->ordinal());
    }
    if (has_collectives_ && process_count() > 1 && context.program != nullptr) {
      context.program->collective_run();  // from now on it counts, also if it fails
    }
    // A part of a program that runs replicated already is not replicated again.
    if (context.program == nullptr || context.replicas > 1 ||
        context.pipeline != nullptr || !observes_copies_) {
      return inner()->ExecuteAsyncOnStream(options, std::move(arguments));
    }
    return run_copies(options, std::move(arguments), context);
  }

  absl::StatusOr<xla::ExecutionOutput> run_copies(
      const xla::ServiceExecutableRunOptions* options,
      std::vector<xla::ExecutionInput> arguments, const Context& context) {
    const int ipus = context.program->ipus();
    if (ipus == 1 && shards_ == 1) {
      return inner()->ExecuteAsyncOnStream(options, std::move(arguments));
    }
    // The device may have been configured again since the program was compiled.
    if (ipus % shards_ != 0) {
      give_back(arguments);
      return absl::InternalError(absl::StrCat(
          "Trying to run a graph on an IPU device with ", ipus, " IPUs and ", shards_,
          " shards. The number of shards needs to divide the number of IPUs."));
    }
    const int replicas = ipus / shards_;
    if (replicas == 1) {
      return inner()->ExecuteAsyncOnStream(options, std::move(arguments));
    }
    return run_replicas(*options, std::move(arguments), context.program, replicas);
  }

  // Runs `replicas` copies, each on the first of its IPUs. The results are those of
  // the first copy; what the others leave is dropped.
  absl::StatusOr<xla::ExecutionOutput> run_replicas(
      const xla::ServiceExecutableRunOptions& options,
      std::vector<xla::ExecutionInput> arguments, Program* program, int replicas) {
    struct Copy {
      xla::ServiceExecutableRunOptions options;
      std::vector<xla::ExecutionInput> arguments;
      absl::StatusOr<xla::ExecutionOutput> result = absl::InternalError("not run");
    };
    IpuLease lease;
    const absl::Status ready = lease.take(program);
    if (!ready.ok()) {
      give_back(arguments);
      return ready;
    }
    std::vector<std::unique_ptr<Copy>> copies;
    for (int r = 0; r < replicas; ++r) {
      auto copy = std::make_unique<Copy>(Copy{options, {}, absl::InternalError("")});
      copy->options.mutable_run_options()->set_intra_op_thread_pool(
          ipu(program->ordinal(), r * shards_, lease.set()).pool());
      copy->arguments = shared(arguments);
      copies.push_back(std::move(copy));
    }
    Replicas others(replicas);
    const WokenByStop woken(program, &others);
    std::vector<IpuWork> works;
    for (int r = 0; r < replicas; ++r) {
      Copy* copy = copies[static_cast<std::size_t>(r)].get();
      Context context;
      context.program = program;
      context.ipu = r * shards_;
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
        run_on_ipus(program->ordinal(), lease.set(), works,
                    [program](const absl::Status& why) { program->stop(why); });
    if (!status.ok()) return status;
    return std::move(copies[0]->result);
  }

  // An error names its replica. One that stopped all is not a replica's own.
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
    for (const VariableUpdate& each : updates_) {
      const xla::ShapeIndex index = index_of(result.on_device_shape(), each.result);
      xla::ExecutionInput& argument = arguments[each.parameter];
      // A variable without another reader lends its own memory, and looks for it among
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
  const std::vector<VariableUpdate> updates_;
  const int shards_;
  // Whether it can be observed how many copies of a program run: those that take and
  // give nothing, and do not ask for their number, all compute the same.
  const bool observes_copies_;
  const std::vector<std::shared_ptr<Compiled>> ipu_programs_;
  const bool has_collectives_;
  const bool draws_seeds_;
};

}  // namespace

int results_of(const xla::Shape& shape) {
  return shape.IsTuple() ? static_cast<int>(shape.tuple_shapes().size()) : 1;
}

std::unique_ptr<xla::Executable> make_executable(
    std::shared_ptr<Compiled> compiled, std::vector<VariableUpdate> updates, int shards,
    bool observes_copies, std::vector<std::shared_ptr<Compiled>> ipu_programs) {
  return std::make_unique<IpuExecutable>(std::move(compiled), std::move(updates),
                                         shards, observes_copies,
                                         std::move(ipu_programs));
}

}  // namespace ipufeed
