// The C entry points of traces; ipufeed/executable/tracing/recorder.py calls them.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>

#include "base/trace.h"
#include "capi/api.h"
#include "core/mutex.h"

namespace {

// The trace that was stopped last, until it has been read.
struct Stopped {
  ipufeed::Mutex mutex;
  ipufeed::Trace trace IPUFEED_GUARDED_BY(mutex);

  static Stopped& get() {
    static auto* const stopped = new Stopped;
    return *stopped;
  }
};

constexpr std::int64_t kFields = 10;

}  // namespace

// 0 if a trace is running.
IPUFEED_API int ipufeed_trace_start(std::int64_t capacity) {
  return ipufeed::entry(
      __func__, {{"capacity", capacity >= 0, "must be at least 0"}},
      [&]() -> int { return ipufeed::start_trace(capacity) ? 1 : 0; });
}

// The number of events; *dropped is the number of those that found no room.
IPUFEED_API std::int64_t ipufeed_trace_stop(std::int64_t* dropped) {
  return ipufeed::entry(__func__, {ipufeed::given("dropped", dropped)},
                        [&]() -> std::int64_t {
                          Stopped& stopped = Stopped::get();
                          ipufeed::MutexLock lock(stopped.mutex);
                          stopped.trace = ipufeed::stop_trace();
                          *dropped = stopped.trace.dropped;
                          return static_cast<std::int64_t>(stopped.trace.events.size());
                        });
}

// Copies at most `count` events, ten numbers each, and forgets them. Returns how many.
IPUFEED_API std::int64_t ipufeed_trace_take(std::int64_t* numbers, std::int64_t count) {
  return ipufeed::entry(
      __func__, {ipufeed::given("numbers", numbers, count)}, [&]() -> std::int64_t {
        Stopped& stopped = Stopped::get();
        ipufeed::MutexLock lock(stopped.mutex);
        std::int64_t taken = 0;
        for (const auto& [event, thread] : stopped.trace.events) {
          if (taken >= count) break;
          const std::int64_t fields[kFields] = {static_cast<std::int64_t>(event.kind),
                                                event.ordinal,
                                                event.number,
                                                event.start_ns,
                                                event.end_ns,
                                                event.busy_ns,
                                                event.waited_ns,
                                                event.bytes,
                                                event.count,
                                                thread};
          std::copy(fields, fields + kFields, numbers + taken * kFields);
          ++taken;
        }
        stopped.trace = {};
        return taken;
      });
}

// Writes a name of at most size - 1 bytes; empty if there is none.
IPUFEED_API int ipufeed_trace_name(int kind, std::int64_t number, char* name,
                                   std::int64_t size) {
  return ipufeed::entry(__func__, {ipufeed::given("name", name, size)}, [&] {
    if (size <= 0) return;
    const std::string found =
        ipufeed::traced_name(static_cast<ipufeed::TraceKind>(kind), number);
    const auto length = std::min(found.size(), static_cast<std::size_t>(size) - 1);
    std::memcpy(name, found.data(), length);
    name[length] = '\0';
  });
}
