// The processes that run copies of one program together, and their collectives.
//
//   replicas of this process: Replicas::run_collective() --> one tensor
//   one of them: CollectiveThread --> Python --> TensorFlow's collectives
//
// How processes reach each other is Python's:
// ipufeed/parallel/collectives/processes.py.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "replicas/collective_thread.h"
#include "replicas/replicas.h"
#include "run/program.h"

namespace ipufeed {

// count: 1 for a process alone. Any thread, between programs.
void set_processes(int count, int index, OnCollective ask);
int process_count();
int process_index();

// Whether replicas of other processes take part in a collective of `replicas` replicas
// here. A group of all replicas of all processes is none. An error for collectives that
// there are within a process only.
absl::Status is_between_processes(CollectiveRequest* request, int replicas,
                                  bool* result);

// Reduces the inputs of a collective of this process with those of the other processes,
// and waits for them. The program's thread; an error once the program is stopped.
absl::Status reduce_over_processes(Program& program, const CollectiveRequest& request);

}  // namespace ipufeed
