// The programs of this process that exchange with other processes: how many there have
// been, and which have failed.
//
// The processes run the same programs, so that the n-th on an IPU device of one
// exchanges with the n-th on the same device of each other. Each exchange carries that
// number (ipufeed/parallel/processes.py), and a process that waits for another asks it
// for what is kept here (exchange_runs_op.cc).
#pragma once

#include <array>
#include <cstdint>

#include "absl/status/status.h"

namespace ipufeed {

struct FailedRun {
  std::int64_t run = 0;  // its number; 0 for none
  absl::Status why;
};

struct ExchangeRuns {
  std::int64_t begun = 0;  // the number of the last one
  // Those that have failed last, the latest first: one is often followed by others that
  // fail for it.
  std::array<FailedRun, 8> failed;
};

// Any thread. A number for a program that begins on an IPU device, from 1.
std::int64_t begin_exchange_run(int ordinal);
void note_failed_run(int ordinal, std::int64_t run, const absl::Status& why);
ExchangeRuns exchange_runs(int ordinal);

}  // namespace ipufeed
