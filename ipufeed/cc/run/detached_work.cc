#include "run/detached_work.h"

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/guard.h"
#include "core/mutex.h"

namespace ipufeed {
namespace {

std::atomic<int> running{0};

class Counted {
 public:
  Counted() { running.fetch_add(1, std::memory_order_relaxed); }
  ~Counted() { running.fetch_sub(1, std::memory_order_relaxed); }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;
};

void end_at_once(int code, void* /*unused*/) {
  if (detached_work() == 0) return;
  std::fflush(nullptr);
  _exit(code);
}

// What both threads have of the work.
struct Ending final : Wakeable {
  Mutex mutex;
  CondVar changed;
  bool ended IPUFEED_GUARDED_BY(mutex) = false;
  absl::Status status IPUFEED_GUARDED_BY(mutex);

  void end(absl::Status with) {
    MutexLock lock(mutex);
    status = std::move(with);
    ended = true;
    changed.notify_all();
  }

  void wake() override {
    MutexLock lock(mutex);
    changed.notify_all();
  }

  // Whether the work has ended, and was not left.
  bool wait(const Program& program) {
    MutexLock lock(mutex);
    while (!ended && !program.stopped()) changed.wait(mutex);
    return ended;
  }
};

absl::Status status_of_stop(const Program& program, const char* what) {
  const absl::Status why = program.stop_status();
  return absl::Status(why.code(), absl::StrCat("The program was stopped during ", what,
                                               ": ", why.message()));
}

}  // namespace

int detached_work() { return running.load(std::memory_order_relaxed); }

absl::Status run_detached(Program* program, const char* what,
                          const std::function<void()>& work) {
  auto counted = std::make_unique<Counted>();
  if (program == nullptr) return guarded(what, work);
  const auto ending = std::make_shared<Ending>();
  const WokenByStop woken(program, ending.get());
  if (program->stopped()) return status_of_stop(*program, what);
  try {
    std::thread([ending, what, work, counted = std::move(counted)]() mutable {
      pthread_setname_np(pthread_self(), "ipufeed_work");
      absl::Status status = guarded(what, work);
      counted.reset();  // first: the caller may be the last of the process
      ending->end(std::move(status));
    }).detach();
  } catch (const std::system_error&) {  // no thread to be had
    return guarded(what, work);
  }
  if (ending->wait(*program)) {
    MutexLock lock(ending->mutex);
    return ending->status;
  }
  // Last, so that it is called before what the process has registered until now.
  static const int registered = on_exit(end_at_once, nullptr);
  static_cast<void>(registered);
  return status_of_stop(*program, what);
}

}  // namespace ipufeed
