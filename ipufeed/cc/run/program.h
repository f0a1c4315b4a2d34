// A program that runs on a simulated IPU: the feeds that it uses, and how to stop it.
//
//   device thread: ProgramScope -> kernels -> queue calls -> current_program()
//   IPU thread:   ContextScope -> IPU program -> queue calls, sends, receives
//   any thread:    cancellation (Session.close, time-out, Ctrl-C) -> Program::stop()
//
// A compiled loop is one kernel call that may run for hours, and its queue calls get no
// OpKernelContext. They find the program through a thread-local pointer, which the
// device sets around each kernel and its thread pool hands on with each piece of work.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/cancellation.h"
#include "core/clock.h"
#include "core/mutex.h"
#include "core/seeds.h"
#include "core/step_clock.h"
#include "run/leased.h"
#include "tensorflow/core/framework/cancellation.h"

namespace ipufeed {

class PipelineRun;
class Replicas;

// A further object at which a program waits, in addition to its feeds.
class Wakeable {
 public:
  // Makes its waits check Program::stopped() again. Any thread; must not call the
  // program.
  virtual void wake() = 0;

 protected:
  ~Wakeable() = default;
};

class Program {
 public:
  // manager: of the step that the program belongs to; may be null. step: the step that
  // the program lasts as long as, and which therefore must not wait for its end; 0 for
  // none.
  Program(tensorflow::CancellationManager* manager, int ordinal, std::int64_t step = 0);
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  int ordinal() const { return ordinal_; }
  std::int64_t step() const { return step_; }

  // Of its device, when it began: a configuration that comes later is not its own.
  int ipus() const { return ipus_; }

  // The program's number in this process, from 1, in the order of starts.
  std::int64_t number() const { return number_; }

  // When it has begun, for stops: see stop_all_programs.
  std::int64_t since_ns() const { return since_ns_; }

  // True once the program must end. Every wait of a queue call checks it.
  bool stopped() const { return stopped_.load(std::memory_order_relaxed); }

  // Whether it was stopped for another reason than the end of a dataset. The first
  // replica that finds its dataset at the end stops the program, and the others still
  // finish the rounds that belong to the elements there were.
  bool aborted() const { return aborted_.load(std::memory_order_relaxed); }

  // Why it was stopped.
  absl::Status stop_status() const;

  // Any thread. Wakes every queue call of the program that waits, and its step. The
  // first reason stays, unless it is the end of a dataset and this is another one.
  void stop(absl::Status why);

  // The feed with this number that the program has leased, or null. For feeds/lease.h,
  // as the next one.
  Leased* leased(Leased::Kind kind, std::int64_t number);

  // Leases a feed until the program ends: it is not deleted until then, and no other
  // program gets it. Fails if another program has it. If another thread
  // of the program leased it first, out is that lease.
  absl::Status lease(std::shared_ptr<Leased> feed, Leased** out);

  // When the steps of this thread's IPU begin and end: the queue calls record what
  // blocked the IPU. A replica has one of its own, and each stage of a pipeline,
  // unless they share an IPU. For the program's life.
  StepClock& step_clock();

  // The seeds of the program's random operations. Any thread.
  RunSeeds& seeds() { return seeds_; }

  // A thread of the program. Waits until a step of `step_ns` nanoseconds of its IPU
  // has ended; false if the program was stopped before.
  bool compute(std::int64_t step_ns, StepTimes* times);

  // A replica of the program has ended, without an error; its thread. Threads that wait
  // for it at a queue get an error. An error if it has enqueued less than others.
  absl::Status leave(int replica);

  // For WokenByStop: a waiter that is woken when the program is stopped, until it is
  // removed. It checks stopped() before it waits. If add() throws it is not added.
  void add(Wakeable* wakeable);
  void remove(Wakeable* wakeable);

  // Name and fill of each feed that it uses, for messages. Any thread.
  std::string describe_feeds() const;

  // Its number among those with collectives between processes: see collective_runs.h.
  // From now on other processes can stop it, and its waiters get its error if it fails.
  // To be called at its start, if it is known by then that it has collectives, or else
  // at the first.
  std::int64_t collective_run();

  // From now on program_runs(number()) holds, until the program's end. Any thread.
  void announce();

  // From now on Ctrl-C, the step's end and other processes can stop the program, as
  // they can from its first feed or step on. Any thread.
  void watch();

  // It serves calls until it is stopped: wait_until_idle() does not wait for its end.
  void serve();
  bool serves() const { return serves_.load(std::memory_order_relaxed); }

  // The program is over: returns its feeds, and drops its reference to the step. To be
  // called before the step's end, which may destroy what this refers to. The destructor
  // does it, too.
  void end(const absl::Status& status);

 private:
  absl::Status take(std::shared_ptr<Leased> feed, Leased** out);
  Leased* find(Leased::Kind kind, std::int64_t number) const IPUFEED_REQUIRES(mutex_);
  StepClock& clock_of(int ipu) IPUFEED_REQUIRES(mutex_);

  const std::int64_t since_ns_;  // see stop_all_programs
  tensorflow::CancellationManager* const manager_;
  const int ordinal_;
  const int ipus_;
  const std::int64_t step_;
  const std::int64_t number_;
  RunSeeds seeds_;
  std::atomic<bool> stopped_{false};
  std::atomic<bool> aborted_{false};
  std::atomic<bool> serves_{false};
  Cancellation cancellation_;
  mutable Mutex mutex_;
  CondVar stop_;  // stopped() has become true
  absl::Status why_ IPUFEED_GUARDED_BY(mutex_);
  bool watched_ IPUFEED_GUARDED_BY(mutex_) = false;
  bool announced_ IPUFEED_GUARDED_BY(mutex_) = false;
  std::int64_t collective_run_ IPUFEED_GUARDED_BY(mutex_) = 0;  // none yet
  std::vector<std::shared_ptr<Leased>> feeds_ IPUFEED_GUARDED_BY(mutex_);
  std::vector<Wakeable*> wakeables_ IPUFEED_GUARDED_BY(mutex_);
  std::vector<int> left_ IPUFEED_GUARDED_BY(mutex_);  // replicas that have ended
  // By IPU; one stays where it is.
  std::map<int, StepClock> step_clocks_ IPUFEED_GUARDED_BY(mutex_);
  // What the queue calls of each element look up, without the mutex: the first feeds of
  // feeds_ in their order, and the clocks of the first IPUs. Written with the mutex:
  // [1] take() -> leased(), [2] clock_of() -> step_clock(), so that the object that a
  // look-up finds is complete.
  static constexpr std::size_t kFast = 16;
  std::array<std::atomic<Leased*>, kFast> fast_feeds_{};
  std::array<std::atomic<StepClock*>, kFast> fast_clocks_{};
};

// Has a waiter woken when its program is stopped, for the guard's lifetime.
class WokenByStop {
 public:
  WokenByStop(Program* program, Wakeable* wakeable)
      : program_(*program), wakeable_(wakeable) {
    program_.add(wakeable_);
  }
  ~WokenByStop() { program_.remove(wakeable_); }
  WokenByStop(const WokenByStop&) = delete;
  WokenByStop& operator=(const WokenByStop&) = delete;

 private:
  Program& program_;
  Wakeable* const wakeable_;
};

// The stages that the IPUs of a device run.
class Stages {
 public:
  // The stage that an IPU runs, or "" for none yet; on its thread.
  virtual const std::string& at(int ipu) const = 0;

 protected:
  ~Stages() = default;
};

// The context of a thread. Pools pass it on with each piece of work.
struct Context {
  Program* program = nullptr;  // null outside of a simulated IPU
  int ipu = 0;                 // of the device, the one that computes
  int replica = 0;             // which of the program's copies
  int replicas = 1;
  Replicas* others = nullptr;  // the copies' collectives; null if there is only one
  PipelineRun* pipeline = nullptr;  // whose IPU program this is, if it is one
  const Stages* stages = nullptr;   // of that pipeline
};

const Context& current_context();

// Makes a context the thread's current one for its lifetime. Nests.
class ContextScope {
 public:
  explicit ContextScope(const Context& context);
  ~ContextScope();
  ContextScope(const ContextScope&) = delete;
  ContextScope& operator=(const ContextScope&) = delete;

 private:
  const Context outer_;
};

// The program of this thread, or null outside of a simulated IPU.
inline Program* current_program() { return current_context().program; }

// A context with only the program.
class ProgramScope : public ContextScope {
 public:
  explicit ProgramScope(Program* program) : ContextScope({program}) {}
};

// Stops every program that has a feed in use or computes steps, as Ctrl-C does, and
// those that have begun and will need one: a program may still be compiled when the
// signal arrives. Those that have begun after until_ns (monotonic clock) run on: the
// thread that handles a signal may be late. A program that begins while the main thread
// calls TensorFlow counts from the beginning of that call. Returns how many have a feed
// in use or compute steps.
int stop_all_programs(const absl::Status& why, std::int64_t until_ns = now_ns());

// The number of the program that has begun last in this process; 0 for none.
std::int64_t last_program();

// Whether the program with this number was announced and has not ended. Any thread.
bool program_runs(std::int64_t number);

// The main thread calls TensorFlow, or is back. Between the two Python gets no
// signal, so that what stops all programs also stops those that begin after it.
void main_thread_calls(bool begins);

// What is called when a program on the IPU `ordinal` has failed, perhaps before its
// first result. Set while the library is loaded, by the feeds, which are above the
// programs; returns true.
using OnFailure = void (*)(int ordinal);
bool set_on_failure(OnFailure call);

// Waits until no program that is watched runs on the IPU `ordinal`, but for those that
// serve and one that lasts as long as the step `own_step`; false at the deadline
// (monotonic clock), or when `stopped` is true: wake_idle_waiters() makes the waiters
// check it, and must be called after it has been set.
bool wait_until_idle(int ordinal, std::int64_t own_step, std::int64_t deadline_ns,
                     const std::atomic<bool>& stopped);
void wake_idle_waiters();

}  // namespace ipufeed
