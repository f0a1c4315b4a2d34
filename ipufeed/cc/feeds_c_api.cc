// The plain C entry points of the feeds, for ctypes: what must not be an op. _native.py
// declares them again; both lists must agree. c_api.cc has those of measurements.

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>

#include "chips.h"
#include "exchange_runs.h"
#include "feed_table.h"
#include "infeed.h"
#include "interrupt.h"
#include "ipu_device.h"
#include "outfeed.h"
#include "processes.h"
#include "program.h"
#include "said.h"
#include "stall.h"
#include "step_program.h"

#define IPUFEED_API extern "C" __attribute__((visibility("default")))

namespace {

void write(const ipufeed::FeedStats& stats, std::int64_t* out) {
  const std::int64_t values[] = {stats.elements,
                                 stats.capacity,
                                 stats.filled,
                                 stats.stored_bytes,
                                 static_cast<std::int64_t>(stats.device.waits),
                                 static_cast<std::int64_t>(stats.device.parks),
                                 stats.device.waited_ns,
                                 static_cast<std::int64_t>(stats.host.waits),
                                 static_cast<std::int64_t>(stats.host.parks),
                                 stats.host.waited_ns};
  for (const auto value : values) *out++ = value;
}

}  // namespace

// What users call the feed with this number.
IPUFEED_API void ipufeed_name_infeed(std::int64_t number, const char* name) {
  ipufeed::set_infeed_name(number, name);
}

// A new outfeed; last: which keeps the last result only. capacity: of its ring.
IPUFEED_API void ipufeed_outfeed_new(std::int64_t number, const char* name, int last,
                                     std::int64_t capacity, int ordinal) {
  ipufeed::set_outfeed_name(number, name);
  std::shared_ptr<ipufeed::Outfeed> feed;
  (void)ipufeed::find_or_add_outfeed(
      std::make_shared<ipufeed::Outfeed>(
          number, name,
          last != 0 ? ipufeed::OutfeedMode::kLast : ipufeed::OutfeedMode::kAll,
          static_cast<std::size_t>(capacity), ordinal),
      &feed);
}

// Fills stats[10], see write() above; 1 if there is no such feed (yet).
IPUFEED_API int ipufeed_infeed_stats(std::int64_t number, std::int64_t* stats) {
  std::shared_ptr<ipufeed::Infeed> feed;
  if (!ipufeed::find_infeed(number, &feed).ok()) return 1;
  write(feed->stats(), stats);
  return 0;
}
IPUFEED_API int ipufeed_outfeed_stats(std::int64_t number, std::int64_t* stats) {
  std::shared_ptr<ipufeed::Outfeed> feed;
  if (!ipufeed::find_outfeed(number, &feed).ok()) return 1;
  write(feed->stats(), stats);
  return 0;
}

// Programs with this outfeed that have ended so far; 0 also if there is no such
// outfeed.
IPUFEED_API std::int64_t ipufeed_outfeed_runs(std::int64_t number) {
  std::shared_ptr<ipufeed::Outfeed> feed;
  if (!ipufeed::find_outfeed(number, &feed).ok()) return 0;
  return static_cast<std::int64_t>(feed->runs());
}

// The same, and failures of other programs on its IPU: see Outfeed::ends.
IPUFEED_API std::int64_t ipufeed_outfeed_ends(std::int64_t number) {
  std::shared_ptr<ipufeed::Outfeed> feed;
  if (!ipufeed::find_outfeed(number, &feed).ok()) return 0;
  return static_cast<std::int64_t>(feed->ends());
}

// Waits at most timeout_ns for results, or for another number of ends than seen_ends.
// 0: the time is over. 1: there is something, or a run has ended. 2: no such outfeed.
IPUFEED_API int ipufeed_outfeed_wait(std::int64_t number, std::int64_t seen_ends,
                                     std::int64_t timeout_ns) {
  std::shared_ptr<ipufeed::Outfeed> feed;
  if (!ipufeed::find_outfeed(number, &feed).ok()) return 2;
  return feed->wait(ipufeed::now_ns() + timeout_ns,
                    static_cast<std::uint64_t>(seen_ends))
             ? 1
             : 0;
}

// Waits likewise for one result, and copies its components one after the other into
// buffer, which is as large as a result. 3: it is there. 1: a run has ended, or there
// are results that only a dequeue gives. 0 and 2: as above. -1: a result of another
// size, which is lost. One call in place of four: a result is small news that should be
// fast.
IPUFEED_API int ipufeed_outfeed_next(std::int64_t number, std::int64_t seen_ends,
                                     std::int64_t timeout_ns, char* buffer,
                                     std::int64_t size) {
  std::shared_ptr<ipufeed::Outfeed> feed;
  if (!ipufeed::find_outfeed(number, &feed).ok()) return 2;
  ipufeed::ResultElement element;
  switch (feed->next(&element, ipufeed::now_ns() + timeout_ns,
                     static_cast<std::uint64_t>(seen_ends))) {
    case ipufeed::FeedOutcome::kDone:
      break;
    case ipufeed::FeedOutcome::kTimedOut:
      return 0;
    default:
      return 1;
  }
  for (const auto& tensor : element) {
    const auto bytes = static_cast<std::int64_t>(tensor.TotalBytes());
    if (bytes > size) return -1;
    std::memcpy(buffer, tensor.data(), static_cast<std::size_t>(bytes));
    buffer += bytes;
    size -= bytes;
  }
  return size == 0 ? 3 : -1;
}

// Whether a program uses it now.
IPUFEED_API int ipufeed_outfeed_busy(std::int64_t number) {
  std::shared_ptr<ipufeed::Outfeed> feed;
  return ipufeed::find_outfeed(number, &feed).ok() && feed->taken() ? 1 : 0;
}

// Waits at most timeout_ns until no program with feeds runs on the outfeed's IPU, with
// room for all results meanwhile; 0 if one does.
IPUFEED_API int ipufeed_outfeed_wait_for_all(std::int64_t number, int ordinal,
                                             std::int64_t timeout_ns) {
  const std::atomic<bool> never{false};
  const std::int64_t deadline_ns = ipufeed::now_ns() + timeout_ns;
  std::shared_ptr<ipufeed::Outfeed> feed;
  const bool idle = ipufeed::find_outfeed(number, &feed).ok()
                        ? feed->wait_for_all(0, deadline_ns, never)
                        : ipufeed::wait_until_idle(ordinal, 0, deadline_ns, never);
  return idle ? 1 : 0;
}

// Waits at most timeout_ns until no program with feeds runs on the IPU; 0 if one does.
IPUFEED_API int ipufeed_wait_idle(int ordinal, std::int64_t timeout_ns) {
  const std::atomic<bool> never{false};
  return ipufeed::wait_until_idle(ordinal, 0, ipufeed::now_ns() + timeout_ns, never)
             ? 1
             : 0;
}

// Deletes an infeed; 1 if a program uses it or there is none. Does not wait for its
// feeder. For garbage collection, which must run no op.
IPUFEED_API int ipufeed_infeed_delete(std::int64_t number) {
  std::shared_ptr<ipufeed::Infeed> feed;
  if (!ipufeed::remove_infeed(number, &feed).ok()) return 1;
  if (feed->feeder() != nullptr) feed->feeder()->stop();
  return 0;
}

// Deletes an outfeed; 1 if a program uses it. For garbage collection, which must run no
// op.
IPUFEED_API int ipufeed_outfeed_delete(std::int64_t number) {
  return ipufeed::remove_outfeed(number).ok() ? 0 : 1;
}

IPUFEED_API void ipufeed_set_stall_report_ns(std::int64_t ns) {
  ipufeed::set_stall_report_ns(ns);
}
IPUFEED_API void ipufeed_set_outfeed_limit_bytes(std::int64_t bytes) {
  ipufeed::set_outfeed_limit_bytes(bytes);
}

// See step_program.h.
IPUFEED_API void ipufeed_end_eager_programs(int ordinal) {
  ipufeed::end_eager_programs(ordinal);
}

// Stops every program that uses a feed; returns how many.
IPUFEED_API int ipufeed_stop_programs(const char* why) {
  return ipufeed::stop_all_programs(absl::CancelledError(why));
}

// The main thread of Python is about to call TensorFlow (1), or is back (0).
IPUFEED_API void ipufeed_main_thread_calls(int begins) {
  ipufeed::main_thread_calls(begins != 0);
}

// See ipu_device.h.
IPUFEED_API void ipufeed_set_on_first_use(ipufeed::OnFirstUse ask) {
  ipufeed::set_on_first_use(ask);
}
IPUFEED_API void ipufeed_set_log_cycle_count(int log) {
  ipufeed::set_log_cycle_count(log != 0);
}
IPUFEED_API void ipufeed_forget_first_uses() { ipufeed::forget_first_uses(); }

// See processes.h.
IPUFEED_API void ipufeed_set_processes(int count, int index, ipufeed::OnExchange ask) {
  ipufeed::set_processes(count, index, ask);
}

// See exchange_runs.h.
IPUFEED_API int ipufeed_last_exchange_run_failed() {
  return ipufeed::last_exchange_run_failed() ? 1 : 0;
}

// How many chips an IPU device has; 0 for the default, one.
IPUFEED_API void ipufeed_set_chips(int ordinal, int count) {
  ipufeed::set_chips(ordinal, count);
}
IPUFEED_API int ipufeed_chips(int ordinal) { return ipufeed::chips_of(ordinal); }

// See said.h. Waits for a line; writes at most size - 1 bytes of it.
IPUFEED_API void ipufeed_next_line(char* line, std::int64_t size) {
  const std::string next = ipufeed::next_line();
  const auto length = std::min(next.size(), static_cast<std::size_t>(size) - 1);
  std::memcpy(line, next.data(), length);
  line[length] = '\0';
}

// See interrupt.h.
IPUFEED_API int ipufeed_wait_for_interrupt() { return ipufeed::wait_for_interrupt(); }
