// The processes that run copies of one program together, and their collectives.
//
//   replicas of this process: Replicas::run_collective() --> one tensor
//   one of them: reduce_over_processes() --> Python --> TensorFlow's collectives
//
// How processes reach each other is Python's:
// ipufeed/parallel/collectives/processes.py.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "replicas/replicas.h"
#include "run/program.h"

namespace ipufeed {

// The request to Python: to reduce `count` elements in place with those of the other
// processes, which request the same. lane: the number of a stream; collectives of one
// stream follow each other, those of two streams may not; the same in all processes.
// wanted: becomes 0 when no caller waits for the result any more. run:
// Program::collective_run(). number, what: of CollectiveWait. The code is absl's; of an
// error the message is written.
using OnCollective = int (*)(std::int64_t lane, std::int64_t reduction, int mean,
                             int dtype, void* data, std::int64_t count,
                             const int* wanted, std::int64_t run, std::int64_t number,
                             const char* what, char* message,
                             std::int64_t message_size);

// count: 1 for a process alone. Any thread, between programs.
void set_processes(int count, int index, OnCollective ask);
int process_count();
int process_index();

// Whether replicas of other processes take part in a collective of `replicas` replicas
// here. A group of all replicas of all processes is none. An error for collectives that
// there are within a process only.
absl::Status is_between_processes(CollectiveRequest* request, int replicas,
                                  bool* result);

// Reduces the results of a collective with those of the other processes, and waits for
// them. The program's thread; an error once the program is stopped.
absl::Status reduce_over_processes(Program& program, const CollectiveRequest& request);

}  // namespace ipufeed
