// A program that sleeps.
#pragma once

#include <sys/prctl.h>
#include <time.h>

#include <algorithm>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/wait.h"
#include "run/program.h"

namespace ipufeed {

// The kernel ends sleeps some 50 us late, to wake several threads at once. Within this
// it does not, so that steps of less than that are steps, too. prctl changes the thread
// that calls it, and no other.
class PreciseSleep {
 public:
  PreciseSleep() : before_(prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0)) {
    prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
  }
  ~PreciseSleep() {
    if (before_ > 0) prctl(PR_SET_TIMERSLACK, before_, 0, 0, 0);
  }
  PreciseSleep(const PreciseSleep&) = delete;
  PreciseSleep& operator=(const PreciseSleep&) = delete;

 private:
  const int before_;
};

// Sleeps in this thread; an error as soon as the thread's program is stopped, which is
// looked at every 20 ms.
inline absl::Status sleep_as_program(std::int64_t nanoseconds) {
  constexpr std::int64_t kSlice = 20'000'000;
  const PreciseSleep precise;
  const Program* program = current_program();
  const std::int64_t end = now_ns() + nanoseconds;
  for (std::int64_t now = now_ns(); now < end; now = now_ns()) {
    if (program != nullptr && program->stopped()) {
      const absl::Status why = program->stop_status();
      return absl::Status(
          why.code(),
          absl::StrCat("The program was stopped while it waited: ", why.message()));
    }
    const std::int64_t until = std::min(end, now + kSlice);
    const timespec time = {static_cast<time_t>(until / 1'000'000'000),
                           static_cast<long>(until % 1'000'000'000)};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, nullptr);
  }
  return absl::OkStatus();
}

}  // namespace ipufeed
