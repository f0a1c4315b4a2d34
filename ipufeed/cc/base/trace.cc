#include "base/trace.h"

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <utility>

#include "core/mutex.h"

namespace ipufeed {
namespace {

// The interval within which events are merged, by the fill of the buffer.
constexpr std::array<std::int64_t, 4> kResolutionNs = {0, 100'000, 10'000'000,
                                                       1'000'000'000};

// A feed and the feeder of it have one name.
using Named = std::pair<std::int32_t, std::int64_t>;

struct Buffer {
  Mutex mutex;                // the thread's own for each event; stop_trace()'s once
  std::int64_t capacity = 0;  // set before other threads see the buffer
  std::vector<TraceEvent> events IPUFEED_GUARDED_BY(mutex);
  std::int64_t dropped IPUFEED_GUARDED_BY(mutex) = 0;
  // Of each kind and number, the place of the last event.
  std::map<Named, std::size_t> last IPUFEED_GUARDED_BY(mutex);
};

struct Buffers {
  Mutex mutex;
  // Grows with each trace: a thread's buffer is of one trace.
  std::uint64_t generation IPUFEED_GUARDED_BY(mutex) = 0;
  std::int64_t capacity IPUFEED_GUARDED_BY(mutex) = 0;
  std::vector<std::shared_ptr<Buffer>> buffers IPUFEED_GUARDED_BY(mutex);
  std::map<Named, std::string> names IPUFEED_GUARDED_BY(mutex);

  static Buffers& get() {
    static auto* const buffers = new Buffers;  // threads may outlive static objects
    return *buffers;
  }
};

// Relaxed: a thread that sees an old one records into a buffer that is never read.
std::atomic<std::uint64_t> generation{0};

struct Mine {
  std::uint64_t generation = 0;
  std::shared_ptr<Buffer> buffer;
};
thread_local Mine mine;

Named named(TraceKind kind, std::int64_t number) {
  return {static_cast<std::int32_t>(kind), number};
}

Buffer* own_buffer() {
  if (mine.generation != generation.load(std::memory_order_relaxed)) {
    Buffers& all = Buffers::get();
    MutexLock lock(all.mutex);
    mine.buffer = std::make_shared<Buffer>();
    mine.buffer->capacity = all.capacity;
    mine.generation = all.generation;
    all.buffers.push_back(mine.buffer);
  }
  return mine.buffer.get();
}

void note_name(const Named& owner, const std::string& name) {
  Buffers& all = Buffers::get();
  MutexLock lock(all.mutex);
  all.names.emplace(owner, name);
}

bool merges(TraceKind kind) {
  return kind == TraceKind::kHostToDevice || kind == TraceKind::kDeviceToHost ||
         kind == TraceKind::kFeeder || kind == TraceKind::kConsumer ||
         kind == TraceKind::kExecute;
}

}  // namespace

void record(const TraceEvent& event, const std::string& name) {
  const Named owner = named(event.kind, event.number);
  Buffer* const buffer = own_buffer();
  bool is_new = false;
  {
    MutexLock lock(buffer->mutex);
    const auto count = static_cast<std::int64_t>(buffer->events.size());
    const auto found = buffer->last.find(owner);
    is_new = found == buffer->last.end();
    if (!is_new && merges(event.kind)) {
      TraceEvent& last = buffer->events[found->second];
      const std::int64_t quarter = count * 4 / buffer->capacity;
      const auto level = static_cast<std::size_t>(std::min<std::int64_t>(quarter, 3));
      // The IPU must be the same one, too: a feeder's is -1 throughout.
      if (event.start_ns - last.start_ns < kResolutionNs[level] &&
          event.ordinal == last.ordinal) {
        last.end_ns = event.end_ns;
        last.busy_ns += event.busy_ns;
        last.waited_ns += event.waited_ns;
        last.bytes += event.bytes;
        last.count += event.count;
        return;
      }
    }
    if (count == buffer->capacity) {
      buffer->dropped += event.count;
      return;
    }
    buffer->last[owner] = buffer->events.size();
    buffer->events.push_back(event);
  }
  // Not under the buffer's lock: stop_trace() takes the two in the other order.
  if (is_new) note_name(owner, name);
}

bool start_trace(std::int64_t capacity) {
  Buffers& all = Buffers::get();
  MutexLock lock(all.mutex);
  if (traces()) return false;
  all.capacity = std::max<std::int64_t>(64, capacity);
  all.buffers.clear();
  all.names.clear();
  generation.store(++all.generation, std::memory_order_relaxed);
  tracing.store(true, std::memory_order_relaxed);
  return true;
}

Trace stop_trace() {
  Buffers& all = Buffers::get();
  MutexLock lock(all.mutex);
  tracing.store(false, std::memory_order_relaxed);
  Trace trace;
  std::int64_t thread = 0;
  for (const auto& buffer : all.buffers) {
    MutexLock own(buffer->mutex);
    for (const TraceEvent& event : buffer->events) {
      trace.events.push_back({event, thread});
    }
    trace.dropped += buffer->dropped;
    ++thread;
  }
  all.buffers.clear();
  return trace;
}

std::string traced_name(TraceKind kind, std::int64_t number) {
  Buffers& all = Buffers::get();
  MutexLock lock(all.mutex);
  const auto found = all.names.find(named(kind, number));
  return found == all.names.end() ? "" : found->second;
}

}  // namespace ipufeed
