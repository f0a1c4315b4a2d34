// The report of a program that has waited for a long time, and the error of one that
// was stopped.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace ipufeed {

class Program;

// Sets after how many nanoseconds of a wait a program reports it, process-wide; 0 for
// never. Default: 30 s. Any thread.
void set_stall_report_ns(std::int64_t ns);

// The reports of one wait: the first after the time that is set, each further one when
// the wait has lasted twice as long as at the last. The waiting thread.
class StallWatch {
 public:
  // When to report next, on the monotonic clock.
  std::int64_t next_report_ns();

  // Logs one line: which thread waits (its stage, IPU and replica), for how long, for
  // which feed and which side of it, and the fill of the program's queues. kind:
  // "infeed", "outfeed" or "pipeline"; state: "empty", "full" or "incomplete"; reason:
  // the cause, as the end of a sentence. Nothing of an empty queue of a program that
  // serves calls: it waits for the next one as long as none comes.
  void report(const Program& program, const char* kind, const std::string& name,
              const char* state, const std::string& reason);

  // Likewise of a wait for something else, which `what` names.
  void report(const Program& program, const std::string& what);

 private:
  // Doubles the time to the next report; returns how long the wait has lasted.
  std::int64_t postpone();

  std::int64_t start_ns_ = 0;
  std::int64_t next_ns_ = 0;
};

// "replica 2", "replicas 1, 2 and 3"; and with their verb: "replica 2 has".
std::string replicas_of(const std::vector<std::size_t>& numbers);
std::string replicas_have(const std::vector<std::size_t>& numbers);

// The error of a queue call of a program that was stopped.
absl::Status stopped_while(const char* doing, const std::string& name,
                           const Program& program);

}  // namespace ipufeed
