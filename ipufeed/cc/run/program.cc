#include "run/program.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <unordered_set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/interrupt.h"
#include "core/mutex.h"
#include "core/wait.h"
#include "run/collective_runs.h"
#include "run/device_config.h"

namespace ipufeed {
namespace {

thread_local Context current;

// Every program that has a feed in use or computes steps. Never destroyed: programs may
// end after static objects are destroyed.
struct Running {
  Mutex mutex;
  CondVar ended;
  std::unordered_set<Program*> programs IPUFEED_GUARDED_BY(mutex);
  // The last moment that stop_all_programs has been called for so far, and the reason.
  std::int64_t stopped_until_ns IPUFEED_GUARDED_BY(mutex) = 0;
  absl::Status why IPUFEED_GUARDED_BY(mutex);
  // When the main thread entered TensorFlow; -1 while it is outside.
  std::int64_t call_ns IPUFEED_GUARDED_BY(mutex) = -1;
  // Programs that have left the set, and not yet their feeds.
  int ending IPUFEED_GUARDED_BY(mutex) = 0;

  static Running& get() {
    static auto* running = new Running;
    return *running;
  }
};

// The numbers of those that were announced and have not ended.
struct Announced {
  Mutex mutex;
  std::unordered_set<std::int64_t> numbers IPUFEED_GUARDED_BY(mutex);

  static Announced& get() {
    static auto* announced = new Announced;
    return *announced;
  }
};

// The begin of a program that is created now, for stop_all_programs(): when the main
// thread entered TensorFlow, if it is inside.
std::int64_t beginning_ns() {
  auto& running = Running::get();
  MutexLock lock(running.mutex);
  return running.call_ns < 0 ? now_ns() : running.call_ns;
}

// Of the program that has begun last.
std::atomic<std::int64_t> last_number{0};

std::int64_t next_number() {
  return last_number.fetch_add(1, std::memory_order_relaxed) + 1;
}

OnFailure on_failure = nullptr;  // written before main()

}  // namespace

Program::Program(tensorflow::CancellationManager* manager, int ordinal,
                 std::int64_t step)
    : since_ns_(beginning_ns()),
      manager_(manager),
      ordinal_(ordinal),
      ipus_(ipus_of(ordinal)),
      step_(step),
      number_(next_number()) {}

Program::~Program() { end(absl::OkStatus()); }

std::int64_t Program::collective_run() {
  std::int64_t run = 0;
  {
    MutexLock lock(mutex_);
    if (collective_run_ == 0) collective_run_ = begin_collective_run(ordinal_);
    run = collective_run_;
  }
  watch();
  return run;
}

void Program::announce() {
  MutexLock lock(mutex_);
  if (announced_) return;
  Announced& announced = Announced::get();
  MutexLock lock_of_all(announced.mutex);
  announced.numbers.insert(number_);
  announced_ = true;
}

void Program::end(const absl::Status& status) {
  std::int64_t run = 0;
  bool watched = false;
  bool announced = false;
  {
    MutexLock lock(mutex_);
    run = std::exchange(collective_run_, 0);  // the destructor ends it again
    watched = std::exchange(watched_, false);
    announced = std::exchange(announced_, false);
  }
  if (run > 0) end_collective_run(ordinal_, run, status);
  if (announced) {
    Announced& all = Announced::get();
    MutexLock lock(all.mutex);
    all.numbers.erase(number_);
  }
  if (!watched) return;  // no other thread has seen this object, or it has ended
  auto& running = Running::get();
  {
    // First, so that no thread stops a program that is partly destroyed.
    MutexLock lock(running.mutex);
    running.programs.erase(this);
    ++running.ending;
  }
  // Without mutex_: a callback that runs now locks it.
  cancellation_.forget();
  std::vector<std::shared_ptr<Leased>> feeds;
  {
    MutexLock lock(mutex_);
    feeds.swap(feeds_);
    for (auto& fast : fast_feeds_) fast.store(nullptr, std::memory_order_relaxed);
  }
  for (const auto& feed : feeds) feed->give_back();
  // It may have failed before its first result: readers that wait for one get its
  // error.
  if (!status.ok() && on_failure != nullptr) on_failure(ordinal_);
  MutexLock lock(running.mutex);
  --running.ending;
  running.ended.notify_all();
}

absl::Status Program::stop_status() const {
  MutexLock lock(mutex_);
  return why_;
}

void Program::stop(absl::Status why) {
  MutexLock lock(mutex_);
  if (!absl::IsOutOfRange(why)) aborted_.store(true, std::memory_order_relaxed);
  if (!stopped() || (absl::IsOutOfRange(why_) && !absl::IsOutOfRange(why))) {
    why_ = std::move(why);
  }
  stopped_.store(true, std::memory_order_relaxed);
  // The wake-ups order the flags before what the waiter reads next: wait.h, [7] and
  // [8].
  for (const auto& feed : feeds_) feed->wake();
  for (Wakeable* wakeable : wakeables_) wakeable->wake();
  stop_.notify_all();
}

absl::Status Program::leave(int replica) {
  MutexLock lock(mutex_);
  left_.push_back(replica);
  absl::Status status;
  for (const auto& feed : feeds_) status.Update(feed->leave(replica));
  // In a stopped program no replica has enqueued all of its parts.
  return stopped() ? absl::OkStatus() : status;
}

StepClock& Program::step_clock() {
  const auto ipu = static_cast<std::size_t>(current.ipu);
  if (ipu < kFast) {
    StepClock* const clock = fast_clocks_[ipu].load(std::memory_order_acquire);  // [2]
    if (clock != nullptr) return *clock;
  }
  MutexLock lock(mutex_);
  return clock_of(current.ipu);
}

StepClock& Program::clock_of(int ipu) {
  StepClock& clock = step_clocks_[ipu];
  const auto own = static_cast<std::size_t>(ipu);
  if (own < kFast) fast_clocks_[own].store(&clock, std::memory_order_release);  // [2]
  return clock;
}

bool Program::compute(std::int64_t step_ns, StepTimes* times) {
  watch();
  // stop() raises the flag under mutex_: it is either seen by the check or
  // wakes the wait.
  MutexLock lock(mutex_);
  *times = clock_of(current.ipu).next(now_ns(), step_ns);
  while (!stopped()) {
    const std::int64_t left_ns = times->end_ns - now_ns();
    if (left_ns <= 0) break;
    stop_.wait_for_ns(mutex_, left_ns);
  }
  return !stopped();
}

void Program::add(Wakeable* wakeable) {
  // First: if it throws, nothing refers to the caller's object, which it destroys then.
  // A stop in between wakes nothing, and the waiter sees it before it waits.
  watch();
  MutexLock lock(mutex_);
  wakeables_.push_back(wakeable);
}

void Program::remove(Wakeable* wakeable) {
  // Also waits until a wake() that is under way has returned.
  MutexLock lock(mutex_);
  wakeables_.erase(std::remove(wakeables_.begin(), wakeables_.end(), wakeable),
                   wakeables_.end());
}

Leased* Program::find(Leased::Kind kind, std::int64_t number) const {
  for (const auto& feed : feeds_) {
    if (feed->number() == number && feed->kind() == kind) return feed.get();
  }
  return nullptr;
}

Leased* Program::leased(Leased::Kind kind, std::int64_t number) {
  for (const auto& fast : fast_feeds_) {
    Leased* const feed = fast.load(std::memory_order_acquire);  // [1]
    if (feed == nullptr) break;
    if (feed->number() == number && feed->kind() == kind) return feed;
  }
  MutexLock lock(mutex_);
  return find(kind, number);
}

absl::Status Program::lease(std::shared_ptr<Leased> feed, Leased** out) {
  TF_RETURN_IF_ERROR(take(std::move(feed), out));
  watch();
  return absl::OkStatus();
}

absl::Status Program::take(std::shared_ptr<Leased> feed, Leased** out) {
  MutexLock lock(mutex_);
  *out = find(feed->kind(), feed->number());
  if (*out != nullptr) return absl::OkStatus();
  feeds_.reserve(feeds_.size() + 1);  // nothing fails once the feed is taken
  TF_RETURN_IF_ERROR(feed->take(step_, current.replicas));
  *out = feed.get();
  if (feeds_.size() < kFast) {
    fast_feeds_[feeds_.size()].store(feed.get(), std::memory_order_release);  // [1]
  }
  feeds_.push_back(std::move(feed));
  // No replica has used it yet, so that none can have left an outfeed too early.
  for (const int replica : left_) TF_RETURN_IF_ERROR((*out)->leave(replica));
  return absl::OkStatus();
}

std::string Program::describe_feeds() const {
  MutexLock lock(mutex_);
  std::vector<std::string> feeds;
  for (const Leased::Kind kind : {Leased::Kind::kInfeed, Leased::Kind::kOutfeed}) {
    const char* what = kind == Leased::Kind::kInfeed ? "infeed" : "outfeed";
    for (const auto& feed : feeds_) {
      if (feed->kind() != kind) continue;
      const FeedStats stats = feed->stats();
      feeds.push_back(absl::StrCat(what, " '", feed->name(), "' holds ", stats.filled,
                                   " of ", stats.capacity));
    }
  }
  return absl::StrJoin(feeds, ", ");
}

void Program::serve() {
  if (serves_.exchange(true, std::memory_order_relaxed)) return;
  wake_idle_waiters();
}

// Without mutex_, because stop_all_programs() takes the lock of the running programs
// first.
void Program::watch() {
  {
    MutexLock lock(mutex_);
    if (watched_) return;
    watched_ = true;
  }
  hook_interrupt();
  absl::Status missed;
  {
    auto& running = Running::get();
    MutexLock lock(running.mutex);
    running.programs.insert(this);
    if (since_ns_ <= running.stopped_until_ns) missed = running.why;
  }
  // By stop(): another replica may be waiting by now.
  if (!missed.ok()) stop(std::move(missed));
  const auto on_cancel = [this] {
    stop(absl::CancelledError("the step was cancelled"));
  };
  if (!cancellation_.watch(manager_, on_cancel)) on_cancel();
}

bool set_on_failure(OnFailure call) {
  on_failure = call;
  return true;
}

const Context& current_context() { return current; }

ContextScope::ContextScope(const Context& context) : outer_(current) {
  current = context;
}

ContextScope::~ContextScope() { current = outer_; }

bool wait_until_idle(int ordinal, std::int64_t own_step, std::int64_t deadline_ns,
                     const std::atomic<bool>& stopped) {
  auto& running = Running::get();
  MutexLock lock(running.mutex);
  for (;;) {
    bool busy = running.ending > 0;
    for (const Program* program : running.programs) {
      const bool own = program->step() != 0 && program->step() == own_step;
      busy = busy || (program->ordinal() == ordinal && !own && !program->serves());
    }
    if (!busy) return true;
    if (stopped.load(std::memory_order_relaxed)) return false;
    if (deadline_ns == kNoDeadline) {
      running.ended.wait(running.mutex);
      continue;
    }
    const std::int64_t left_ns = deadline_ns - now_ns();
    if (left_ns <= 0) return false;
    running.ended.wait_for_ns(running.mutex, left_ns);
  }
}

void wake_idle_waiters() {
  auto& running = Running::get();
  MutexLock lock(running.mutex);
  running.ended.notify_all();
}

int stop_all_programs(const absl::Status& why, std::int64_t until_ns) {
  auto& running = Running::get();
  // Under the lock: a program leaves the set before it is destroyed.
  MutexLock lock(running.mutex);
  if (until_ns > running.stopped_until_ns) {
    running.stopped_until_ns = until_ns;
    running.why = why;
  }
  int stopped = 0;
  for (Program* program : running.programs) {
    if (program->since_ns() > until_ns) continue;
    program->stop(why);
    ++stopped;
  }
  return stopped;
}

std::int64_t last_program() { return last_number.load(std::memory_order_relaxed); }

bool program_runs(std::int64_t number) {
  Announced& announced = Announced::get();
  MutexLock lock(announced.mutex);
  return announced.numbers.count(number) > 0;
}

void main_thread_calls(bool begins) {
  if (begins) hook_interrupt();
  auto& running = Running::get();
  MutexLock lock(running.mutex);
  running.call_ns = begins ? now_ns() : -1;
}

}  // namespace ipufeed
