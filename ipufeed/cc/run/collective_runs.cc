#include "run/collective_runs.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/ipus.h"
#include "core/mutex.h"

namespace ipufeed {
namespace {

struct Devices {
  Mutex mutex;
  std::array<CollectiveRuns, kDevices> runs IPUFEED_GUARDED_BY(mutex);

  static Devices& get() {
    static auto* devices = new Devices;  // programs may outlive static objects
    return *devices;
  }

  CollectiveRuns& of(int ordinal) IPUFEED_REQUIRES(mutex) {
    return runs.at(static_cast<std::size_t>(ordinal));
  }
};

}  // namespace

std::int64_t begin_collective_run(int ordinal) {
  Devices& devices = Devices::get();
  MutexLock lock(devices.mutex);
  return ++devices.of(ordinal).begun;
}

void end_collective_run(int ordinal, std::int64_t run, const absl::Status& status) {
  Devices& devices = Devices::get();
  MutexLock lock(devices.mutex);
  CollectiveRuns& runs = devices.of(ordinal);
  if (status.ok()) {
    runs.ended = std::max(runs.ended, run);
    return;
  }
  std::move_backward(runs.failed.begin(), runs.failed.end() - 1, runs.failed.end());
  runs.failed[0] = {run, status};
}

absl::Status begin_collective_wait(int ordinal, std::int64_t stream, std::int64_t run,
                                   std::string what, std::int64_t* number) {
  Devices& devices = Devices::get();
  MutexLock lock(devices.mutex);
  CollectiveWait& wait = devices.of(ordinal).waits[stream];
  if (wait.run > 0 && !wait.is_over) {
    return absl::FailedPreconditionError(absl::StrCat(
        "Program number ", run,
        " of those with collectives between processes on "
        "/device:IPU:",
        ordinal, " has come to ", what, " while program number ", wait.run,
        " waits in one there (", wait.what,
        "). The processes cannot tell the collectives of two programs apart: run such "
        "programs one after the other (of several in one Session.run, let each come "
        "after the one before by tf.control_dependencies), or on another device "
        "each."));
  }
  *number = wait.run == run ? wait.number + 1 : 1;
  wait = {run, *number, std::move(what), false};
  return absl::OkStatus();
}

void end_collective_wait(int ordinal, std::int64_t stream) {
  Devices& devices = Devices::get();
  MutexLock lock(devices.mutex);
  devices.of(ordinal).waits[stream].is_over = true;
}

CollectiveRuns collective_runs(int ordinal) {
  Devices& devices = Devices::get();
  MutexLock lock(devices.mutex);
  return devices.of(ordinal);
}

bool last_collective_run_failed() {
  Devices& devices = Devices::get();
  MutexLock lock(devices.mutex);
  return std::any_of(devices.runs.begin(), devices.runs.end(),
                     [](const CollectiveRuns& runs) {
                       const auto& [run, why] = runs.failed[0];
                       return run > 0 && run == runs.begun && !absl::IsCancelled(why);
                     });
}

}  // namespace ipufeed
