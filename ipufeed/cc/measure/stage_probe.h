// The counters of probes between the steps of a dataset, by group and slot.
//
// A probe is a dataset that passes elements through (stage_probe_op.cc). For each
// request of its output it measures the time and the CPU time until the element is
// available:
//
//     incl(s) = what step s and all below it take of the requesting thread
//     self(s) = incl(s) - incl(its inputs)           for a step of that thread
//
// A step with threads of its own (prefetch, parallel map) only makes the requesting
// thread wait; the times of its functions are in AUTOTUNE's model, which is read along
// with the probe. Datasets that its function makes (parallel interleave) have a
// probe inside the function: several iterators then request elements at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/mutex.h"
#include "tensorflow/core/framework/model.h"

namespace ipufeed {

// What ipufeed_probe_read fills in, in this order; PROBE_FIELDS in
// benchmark/stages/probe_run.py has the same. Times are nanoseconds; sums over all
// iterators that the probe's dataset had.
struct ProbeReading {
  std::int64_t elements = 0;
  std::int64_t wall_ns = 0;    // from request to element, the running call included
  std::int64_t cpu_ns = 0;     // of the requesting thread in that time
  std::int64_t model_ns = 0;   // by the model: the step itself, in all of its threads
  std::int64_t is_async = -1;  // 1: threads of its own; -1: there is no model, unknown
  std::int64_t parallelism = -1;      // last seen; -1: none
  std::int64_t buffer_elements = -1;  // room, last seen; -1: none
  std::int64_t buffered_bytes = -1;   // in the buffer, the most seen; -1: no model
  std::int64_t tuned = 0;             // 1: AUTOTUNE chooses one of the two above
};
inline constexpr int kProbeFields = 9;

// The counters of one slot. Any thread.
class ProbeCounters {
 public:
  using NodePtr = std::shared_ptr<tensorflow::data::model::Node>;

  // An iterator of the probe's, under way.
  struct Live {
    NodePtr probe;  // its own node in the model, or nullptr
  };

  Live* begin(NodePtr probe);
  void end(Live* live);

  // Around a call of the step below. The first returns what the second takes.
  void enter(std::int64_t start_ns);
  void leave(std::int64_t start_ns, std::int64_t end_ns, std::int64_t cpu_ns,
             bool gave);

  ProbeReading read();

 private:
  // Adds what AUTOTUNE's model has measured of the step below.
  static void add_model(const Live& live, ProbeReading* sum);

  Mutex mutex_;
  std::vector<std::unique_ptr<Live>> live_ IPUFEED_GUARDED_BY(mutex_);
  // Of iterators that have ended; wall_ns, cpu_ns, elements of all.
  ProbeReading past_ IPUFEED_GUARDED_BY(mutex_);
  std::int64_t calls_ IPUFEED_GUARDED_BY(mutex_) = 0;  // under way
  // The sum of when they started.
  std::int64_t started_ns_ IPUFEED_GUARDED_BY(mutex_) = 0;
};

// A new group with this many slots; its number, at least 1. Any thread, as the next
// two.
std::int64_t new_probes(std::int64_t slots);

// Forgets a group; datasets that write into it go on.
void forget_probes(std::int64_t group);

// The counters of a slot; null for one that is not known.
std::shared_ptr<ProbeCounters> find_probe(std::int64_t group, std::int64_t slot);

// The counters of a slot; fresh ones, which are not read, for one that is not known.
std::shared_ptr<ProbeCounters> probe_counters(std::int64_t group, std::int64_t slot);

}  // namespace ipufeed
