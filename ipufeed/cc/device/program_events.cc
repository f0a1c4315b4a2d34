#include "device/program_events.h"

#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdio>
#include <utility>

#include "base/python_calls.h"
#include "core/ipus.h"
#include "core/wait.h"

namespace ipufeed {
namespace {

std::atomic<OnProgram> on_program{nullptr};

// What each device holds; 0 for nothing.
std::atomic<std::uint64_t> loaded[kDevices];

// Loads and switches that were not reported to Python, and whether it requested them.
std::atomic<std::int64_t> op_loads{0};
std::atomic<std::int64_t> op_switches{0};
std::atomic<bool> log_ops{false};

std::int64_t resident_bytes() {
  long pages = 0;
  if (std::FILE* file = std::fopen("/proc/self/statm", "r")) {
    if (std::fscanf(file, "%*s %ld", &pages) != 1) pages = 0;
    std::fclose(file);
  }
  return std::int64_t{pages} * sysconf(_SC_PAGESIZE);
}

constexpr std::size_t kMessageSize = 16384;

}  // namespace

Phase::Phase() : start_ns_(now_ns()), start_bytes_(resident_bytes()) {}

void Phase::write(ProgramCall* call) const {
  call->duration_ns = now_ns() - start_ns_;
  call->rss_bytes = resident_bytes() - start_bytes_;
}

void record_program(TraceKind kind, int ordinal, std::uint64_t key,
                    const std::string& name, std::int64_t start_ns) {
  const std::int64_t end_ns = now_ns();
  record({kind, ordinal, static_cast<std::int64_t>(key), start_ns, end_ns,
          end_ns - start_ns, 0, 0, 1},
         name);
}

// [1] set_on_program() -> has_listener(), notify(), report(): state that Python
// prepared before is visible to the calls.
bool has_listener() { return on_program.load(std::memory_order_acquire) != nullptr; }

absl::Status notify(int event, ProgramCall* call, std::string* message) {
  const auto ask = on_program.load(std::memory_order_acquire);  // [1]
  if (ask == nullptr) return absl::OkStatus();
  message->resize(kMessageSize);
  call->message = message->data();
  call->message_size = static_cast<std::int64_t>(message->size());
  int code = 0;
  off_main([&] { code = ask(event, call); });
  if (code == 0) return absl::OkStatus();
  return absl::Status(static_cast<absl::StatusCode>(code), message->c_str());
}

void report(int event, ProgramCall* call, std::string text) {
  const auto ask = on_program.load(std::memory_order_acquire);  // [1]
  if (ask == nullptr) return;
  call->message = text.data();
  call->message_size = static_cast<std::int64_t>(text.size());
  off_main([&] { ask(event, call); });
}

void load_onto(int ordinal, std::uint64_t key, const char* name, bool is_op) {
  if (ordinal < 0 || ordinal >= kDevices || key == 0) return;
  // Relaxed: the value is all that passes.
  if (loaded[ordinal].load(std::memory_order_relaxed) == key) return;
  const std::uint64_t previous =
      loaded[ordinal].exchange(key, std::memory_order_relaxed);
  if (previous == key) return;
  if (is_op && !log_ops.load(std::memory_order_relaxed)) {
    op_loads.fetch_add(1, std::memory_order_relaxed);
    if (previous != 0) op_switches.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  const Phase phase;  // reads a file of /proc, which takes longer than a small op
  ProgramCall call{};
  call.ordinal = ordinal;
  call.name = name;
  call.key = key;
  call.previous = previous;
  phase.write(&call);
  if (traces()) {
    record_program(TraceKind::kLoad, ordinal, key, name, phase.start_ns());
  }
  report(kOntoDevice, &call);
}

void set_on_program(OnProgram ask) {
  on_program.store(ask, std::memory_order_release);  // [1]
}

void forget_loaded() {
  for (auto& key : loaded) key.store(0, std::memory_order_relaxed);
}

void note_single_op(int ordinal, std::uint64_t key, const char* name) {
  load_onto(ordinal, key, name, /*is_op=*/true);
}

void set_log_ops(bool log) { log_ops.store(log, std::memory_order_relaxed); }

void take_op_loads(std::int64_t* loads, std::int64_t* switches) {
  *loads = op_loads.exchange(0, std::memory_order_relaxed);
  *switches = op_switches.exchange(0, std::memory_order_relaxed);
}

}  // namespace ipufeed
