#include "run/step_program.h"

#include <cstdint>
#include <map>
#include <memory>
#include <utility>

#include "base/cancellation.h"
#include "base/eager.h"
#include "core/mutex.h"
#include "tensorflow/core/framework/resource_mgr.h"

namespace ipufeed {
namespace {

using tensorflow::OpKernelContext;

struct StepProgram {
  // Without the step's cancellation manager, which may be destroyed before the program
  // ends: see Cancellable.
  StepProgram(int ordinal, std::int64_t step, bool is_eager)
      : program(nullptr, ordinal, step), eager(is_eager) {}
  ~StepProgram() { program.end(status); }

  Program program;
  const bool eager;
  // Guarded by the table's mutex. An eager call ends by its cancellation
  // manager, which may also cancel while ops of it run.
  int running_ops = 0;
  bool ending = false;
  Mutex mutex;
  absl::Status status IPUFEED_GUARDED_BY(mutex);  // the first error of an op
};

using Key = std::pair<std::int64_t, int>;  // step, ordinal

struct StepPrograms {
  using Table = std::map<Key, std::shared_ptr<StepProgram>>;

  Mutex mutex;
  Table programs IPUFEED_GUARDED_BY(mutex);

  static StepPrograms& get() {
    static auto* table =
        new StepPrograms;  // never destroyed, as the programs of program.cc
    return *table;
  }

  // What it returns ends the programs, without the lock. Allocates nothing: a program
  // that could not be ended would keep its queues.
  template <class Ends>
  Table remove_if(Ends&& ends) {
    Table removed;
    MutexLock lock(mutex);
    for (auto i = programs.begin(); i != programs.end();) {
      const auto each = i++;
      if (each->second == nullptr || ends(each->first, *each->second)) {
        removed.insert(programs.extract(each));
      }
    }
    return removed;
  }
};

// An eager call has ended, or is cancelled: its program ends with the last op that
// runs.
void end_call(const Key& ended) {
  StepPrograms::get().remove_if([&ended](const Key& key, StepProgram& program) {
    if (key != ended) return false;
    program.ending = true;
    return program.running_ops == 0;
  });
}

// While an op runs, the program of its eager call does not end.
class RunningOp {
 public:
  RunningOp(const Key& key, StepProgram* program) : key_(key), program_(program) {}
  ~RunningOp() {
    StepPrograms::get().remove_if([this](const Key& key, StepProgram& program) {
      if (key != key_ || &program != program_) return false;
      return --program.running_ops == 0 && program.ending;
    });
  }
  RunningOp(const RunningOp&) = delete;
  RunningOp& operator=(const RunningOp&) = delete;

 private:
  const Key key_;
  StepProgram* const program_;
};

// In the container of a session's step: ends the programs when that is emptied.
class EndOfStep : public tensorflow::ResourceBase {
 public:
  explicit EndOfStep(std::int64_t step) : step_(step) {}
  ~EndOfStep() override {
    StepPrograms::get().remove_if(
        [this](const Key& key, const StepProgram&) { return key.first == step_; });
  }
  std::string DebugString() const override { return "the end of a step"; }

 private:
  const std::int64_t step_;
};

// Stops a program when the step is cancelled, for as long as an op waits.
class Cancellable {
 public:
  Cancellable(OpKernelContext* ctx, Program* program) {
    const auto stop = [program] {
      program->stop(absl::CancelledError("the step was cancelled"));
    };
    if (!cancellation_.watch(ctx->cancellation_manager(), stop)) stop();
  }
  Cancellable(const Cancellable&) = delete;
  Cancellable& operator=(const Cancellable&) = delete;

 private:
  Cancellation cancellation_;
};

absl::Status find_or_make(OpKernelContext* ctx, int ordinal,
                          std::shared_ptr<StepProgram>* out) {
  const bool eager = is_eager(ctx);
  const Key key{ctx->step_id(), ordinal};
  auto& table = StepPrograms::get();
  {
    MutexLock lock(table.mutex);
    auto& program = table.programs[key];
    if (program != nullptr) {
      ++program->running_ops;
      *out = program;
      return absl::OkStatus();
    }
    // Null if memory for it is lacking; remove_if() handles that.
    program = std::make_shared<StepProgram>(ordinal, ctx->step_id(), eager);
    ++program->running_ops;
    *out = program;
  }
  if (eager) {
    // ends_programs_of_calls() in queues/interrupt.py gives each call a manager of its
    // own, and cancels it when the call has ended.
    auto* manager = ctx->cancellation_manager();
    if (manager == nullptr) return absl::OkStatus();
    if (!watch_to_the_end(manager, [key] { end_call(key); })) {
      end_call(key);
      return absl::CancelledError("the call was cancelled");
    }
    return absl::OkStatus();
  }
  EndOfStep* end = nullptr;
  TF_RETURN_IF_ERROR(ctx->step_container()->LookupOrCreate<EndOfStep>(
      ctx->resource_manager(), "ipufeed_end_of_step", &end, [ctx](EndOfStep** made) {
        *made = new EndOfStep(ctx->step_id());
        return absl::OkStatus();
      }));
  end->Unref();
  return absl::OkStatus();
}

}  // namespace

absl::Status with_step_program(OpKernelContext* ctx,
                               const std::function<absl::Status(Program&)>& use) {
  const Program* device = current_program();
  const int ordinal = device == nullptr ? 0 : device->ordinal();
  std::shared_ptr<StepProgram> step;
  absl::Status status = find_or_make(ctx, ordinal, &step);
  const RunningOp running({ctx->step_id(), ordinal}, step.get());
  TF_RETURN_IF_ERROR(status);
  {
    Cancellable cancellable(ctx, &step->program);
    status = use(step->program);
  }
  if (!status.ok()) {
    MutexLock lock(step->mutex);
    step->status.Update(status);
  }
  return status;
}

void end_eager_programs(std::int64_t last) {
  StepPrograms::get().remove_if([last](const Key&, const StepProgram& program) {
    return program.eager && program.program.number() <= last;
  });
}

}  // namespace ipufeed
