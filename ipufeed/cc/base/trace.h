// Records events for a trace: compiling, loading, running, transfers, waits.
//
//   any thread: if (traces()) record({...})  -->  a buffer of the thread's own
//   Python:     start_trace() ... stop_trace() --> all events, by thread
//
// Off, an event costs one relaxed load. On, it reads the clock twice and takes a lock
// without contention: only stop_trace() takes it, too, once.
//
// Bounded. A buffer has room for a fixed number of events. Its first quarter takes each
// event as it was; then those of one kind and queue that begin within 100 us are
// merged, later within 10 ms and 1 s: a run of hours fits, with its beginning in full.
// An event counts the merged ones, and events without room are counted as dropped.
//
// Relaxed: `tracing` is only whether to record. An event too many or too few is
// harmless; the buffers have locks.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace ipufeed {

// ipufeed/executable/tracing/recorder.py has the same numbers.
enum class TraceKind : std::int32_t {
  kCompile = 0,       // number: the program's key
  kReadFile = 1,      // a compiled program, from its file; likewise
  kLoad = 2,          // a program onto a device; likewise
  kExecute = 3,       // likewise
  kHostToDevice = 4,  // number: the infeed's; waited: for its element
  kDeviceToHost = 5,  // number: the outfeed's; waited: for room
  kFeeder = 6,        // number: the infeed's; waited: for room
  kConsumer = 7,      // of a measurement; waited: for an element
  // A stage of a pipeline, or its weight update. number: of its name; bytes: its
  // mini-batch
  kStage = 8,
  // An execution of a pipeline. number: of its name, which is its schedule; bytes: the
  // first of its IPUs
  kPipeline = 9,
};

struct TraceEvent {
  TraceKind kind;
  std::int32_t ordinal;    // of the IPU, or -1
  std::int64_t number;     // of what it is about
  std::int64_t start_ns;   // monotonic clock
  std::int64_t end_ns;     // of the last one that it stands for
  std::int64_t busy_ns;    // of all: from start to end, but for the waits
  std::int64_t waited_ns;  // of all
  std::int64_t bytes;      // of all
  std::int64_t count;      // how many it stands for
};

inline std::atomic<bool> tracing{false};

inline bool traces() { return tracing.load(std::memory_order_relaxed); }

// Any thread. `name`: what a person calls the number.
void record(const TraceEvent& event, const std::string& name);

// Returns a number for a name without one.
inline std::int64_t number_of(const std::string& name) {
  return static_cast<std::int64_t>(std::hash<std::string>()(name));
}

// False if a trace is running. capacity: events of each thread, at least 64.
bool start_trace(std::int64_t capacity);

// An event, and the number of its thread (from 0, in the order of first events).
struct TracedEvent {
  TraceEvent event;
  std::int64_t thread;
};

struct Trace {
  std::vector<TracedEvent> events;  // of a thread in order
  std::int64_t dropped = 0;
};
Trace stop_trace();

// The name that record() got for a number; "" if there is none. Until the next
// start_trace().
std::string traced_name(TraceKind kind, std::int64_t number);

}  // namespace ipufeed
