// The programs of this process with collectives between processes: their number, the
// failed ones, and the collectives in which they wait.
//
// The processes run the same programs, so that the n-th on an IPU device of one
// runs collectives with the n-th on the same device of each other. Each collective
// carries that number (ipufeed/parallel/collectives/processes.py), and a process that
// waits for another asks it for what is kept here (collective_runs_op.cc).
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>

#include "absl/status/status.h"

namespace ipufeed {

struct FailedRun {
  std::int64_t run = 0;  // its number; 0 for none
  absl::Status why;
};

// A collective that a program waits in.
struct CollectiveWait {
  std::int64_t run = 0;
  std::int64_t number = 0;  // of the collective: among those of its stream, from 1
  std::string what;         // for a person; equal in all processes if it is the same
  bool is_over = false;
};

struct CollectiveRuns {
  std::int64_t begun = 0;  // the number of the last one
  std::int64_t ended = 0;  // and of the last that has ended without an error
  // Those that have failed last, the latest first: one is often followed by others that
  // fail for it.
  std::array<FailedRun, 8> failed;
  std::map<std::int64_t, CollectiveWait> waits;  // by stream: see processes.h
};

// Any thread. A number for a program that begins on an IPU device, from 1.
std::int64_t begin_collective_run(int ordinal);
// The program is over, well or not.
void end_collective_run(int ordinal, std::int64_t run, const absl::Status& status);

// A program enters a collective of a stream, and leaves it. Gives the
// collective's number; an error, and nothing to leave, while another program is in one.
absl::Status begin_collective_wait(int ordinal, std::int64_t stream, std::int64_t run,
                                   std::string what, std::int64_t* number);
void end_collective_wait(int ordinal, std::int64_t stream);

CollectiveRuns collective_runs(int ordinal);

// Whether the last such program has failed, on any of the devices, and was not merely
// stopped.
bool last_collective_run_failed();

}  // namespace ipufeed
