// The plain C entry points of the feeds, for ctypes: what must not be an op.
// _entry_points.py declares them again; both lists must agree. c_api.cc has those of
// measurements.

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>

#include "base/interrupt.h"
#include "base/messages.h"
#include "capi/api.h"
#include "core/ipus.h"
#include "core/seeds.h"
#include "device/ipu_device.h"
#include "feeds/feed_stats.h"
#include "feeds/feed_table.h"
#include "feeds/infeed.h"
#include "feeds/outfeed.h"
#include "feeds/queue_ops.h"
#include "replicas/processes.h"
#include "run/collective_runs.h"
#include "run/device_config.h"
#include "run/program.h"
#include "run/stall.h"
#include "run/step_program.h"
#include "xla/compile/compiler.h"

namespace {

void write(const ipufeed::FeedStats& stats, std::int64_t* out) {
  for (const auto value : ipufeed::numbers_of(stats)) *out++ = value;
}

bool is_ordinal(int ordinal) { return ordinal >= 0 && ordinal < ipufeed::kDevices; }

}  // namespace

// What users call the feed with this number.
IPUFEED_API int ipufeed_name_infeed(std::int64_t number, const char* name) {
  return ipufeed::entry(__func__, {ipufeed::given("name", name)},
                        [&] { ipufeed::set_infeed_name(number, name); });
}

// A new outfeed; last: which keeps the last result only. capacity: of its ring.
IPUFEED_API int ipufeed_outfeed_new(std::int64_t number, const char* name, int last,
                                    std::int64_t capacity, int ordinal) {
  return ipufeed::entry(
      __func__,
      {ipufeed::given("name", name),
       {"ordinal", is_ordinal(ordinal), "must be in [0, 16)"}},
      [&]() -> absl::Status {
        absl::Status fits = ipufeed::check_capacity(capacity);
        if (!fits.ok()) return fits;
        auto feed = std::make_shared<ipufeed::Outfeed>(
            number, name,
            last != 0 ? ipufeed::OutfeedMode::kLast : ipufeed::OutfeedMode::kAll,
            static_cast<std::size_t>(capacity), ordinal);
        ipufeed::set_outfeed_name(number, name);
        // In a forked child the queue's first use is an error that names the cause.
        ipufeed::find_or_add_outfeed(feed, &feed).IgnoreError();
        return absl::OkStatus();
      });
}

// Fills stats[10], see write() above; 1 if the feed does not exist (yet).
IPUFEED_API int ipufeed_infeed_stats(std::int64_t number, std::int64_t* stats) {
  return ipufeed::entry(__func__, {ipufeed::given("stats", stats)}, [&]() -> int {
    std::shared_ptr<ipufeed::Infeed> feed;
    if (!ipufeed::find_infeed(number, &feed).ok()) return 1;
    write(feed->stats(), stats);
    return 0;
  });
}
IPUFEED_API int ipufeed_outfeed_stats(std::int64_t number, std::int64_t* stats) {
  return ipufeed::entry(__func__, {ipufeed::given("stats", stats)}, [&]() -> int {
    std::shared_ptr<ipufeed::Outfeed> feed;
    if (!ipufeed::find_outfeed(number, &feed).ok()) return 1;
    write(feed->stats(), stats);
    return 0;
  });
}

// A number that no other outfeed has, nor the queue's next one after a deletion; 0 for
// an outfeed that does not exist (yet).
IPUFEED_API std::int64_t ipufeed_outfeed_id(std::int64_t number) {
  return ipufeed::entry(__func__, [&]() -> std::int64_t {
    std::shared_ptr<ipufeed::Outfeed> feed;
    if (!ipufeed::find_outfeed(number, &feed).ok()) return 0;
    return feed->signature_id();
  });
}

// Programs with this outfeed that have ended so far; 0 also if the outfeed does not
// exist.
IPUFEED_API std::int64_t ipufeed_outfeed_runs(std::int64_t number) {
  return ipufeed::entry(__func__, [&]() -> std::int64_t {
    std::shared_ptr<ipufeed::Outfeed> feed;
    if (!ipufeed::find_outfeed(number, &feed).ok()) return 0;
    return static_cast<std::int64_t>(feed->runs());
  });
}

// The same, and failures of other programs on its IPU: see Outfeed::ends.
IPUFEED_API std::int64_t ipufeed_outfeed_ends(std::int64_t number) {
  return ipufeed::entry(__func__, [&]() -> std::int64_t {
    std::shared_ptr<ipufeed::Outfeed> feed;
    if (!ipufeed::find_outfeed(number, &feed).ok()) return 0;
    return static_cast<std::int64_t>(feed->ends());
  });
}

// Waits at most timeout_ns for results, or for another number of ends than seen_ends.
// 0: the time is over. 1: there is something, or a run has ended. 2: no such outfeed.
IPUFEED_API int ipufeed_outfeed_wait(std::int64_t number, std::int64_t seen_ends,
                                     std::int64_t timeout_ns) {
  return ipufeed::entry(__func__, [&]() -> int {
    std::shared_ptr<ipufeed::Outfeed> feed;
    if (!ipufeed::find_outfeed(number, &feed).ok()) return 2;
    return feed->wait(ipufeed::deadline_in(timeout_ns),
                      static_cast<std::uint64_t>(seen_ends))
               ? 1
               : 0;
  });
}

// What the results of an outfeed are: writes at most `size` numbers and returns how
// many there are, 0 if the outfeed does not exist or has had no result. The numbers:
// an id that no other outfeed's results have, the replicas, and of each component its
// dtype, its rank and its dimensions, those of one replica's part.
IPUFEED_API std::int64_t ipufeed_outfeed_signature(std::int64_t number,
                                                   std::int64_t* numbers,
                                                   std::int64_t size) {
  return ipufeed::entry(
      __func__, {ipufeed::given("numbers", numbers, size)}, [&]() -> std::int64_t {
        std::shared_ptr<ipufeed::Outfeed> feed;
        if (!ipufeed::find_outfeed(number, &feed).ok()) return 0;
        const ipufeed::ResultSignature* signature = feed->signature();
        if (signature == nullptr) return 0;
        std::int64_t count = 0;
        const auto write = [&](std::int64_t value) {
          if (count < size) numbers[count] = value;
          ++count;
        };
        write(feed->signature_id());
        write(signature->replicas);
        for (std::size_t i = 0; i < signature->dtypes.size(); ++i) {
          write(signature->dtypes[i]);
          write(signature->shapes[i].dims());
          for (const std::int64_t each : signature->shapes[i].dim_sizes()) write(each);
        }
        return count;
      });
}

// Whether a program uses it now.
IPUFEED_API int ipufeed_outfeed_busy(std::int64_t number) {
  return ipufeed::entry(__func__, [&]() -> int {
    std::shared_ptr<ipufeed::Outfeed> feed;
    return ipufeed::find_outfeed(number, &feed).ok() && feed->taken() ? 1 : 0;
  });
}

// Waits at most timeout_ns until no program with feeds runs on the outfeed's IPU,
// without a limit of results during the wait; 0 if one does.
IPUFEED_API int ipufeed_outfeed_wait_for_all(std::int64_t number, int ordinal,
                                             std::int64_t timeout_ns) {
  return ipufeed::entry(__func__, [&]() -> int {
    const std::atomic<bool> never{false};
    const std::int64_t deadline_ns = ipufeed::deadline_in(timeout_ns);
    std::shared_ptr<ipufeed::Outfeed> feed;
    const bool idle = ipufeed::find_outfeed(number, &feed).ok()
                          ? feed->wait_for_all(0, deadline_ns, never)
                          : ipufeed::wait_until_idle(ordinal, 0, deadline_ns, never);
    return idle ? 1 : 0;
  });
}

// Waits at most timeout_ns until no program with feeds runs on the IPU; 0 if one does.
IPUFEED_API int ipufeed_wait_idle(int ordinal, std::int64_t timeout_ns) {
  return ipufeed::entry(__func__, [&]() -> int {
    const std::atomic<bool> never{false};
    return ipufeed::wait_until_idle(ordinal, 0, ipufeed::deadline_in(timeout_ns), never)
               ? 1
               : 0;
  });
}

// Lets an infeed read before a program takes from it; 1 if there is none.
IPUFEED_API int ipufeed_infeed_begin(std::int64_t number) {
  return ipufeed::entry(__func__, [&]() -> int {
    std::shared_ptr<ipufeed::Infeed> feed;
    if (!ipufeed::find_infeed(number, &feed).ok()) return 1;
    if (feed->feeder() != nullptr) feed->feeder()->begin();
    return 0;
  });
}

// The elements of an infeed are calls, see Infeed::set_serves(); 1 if there is none.
IPUFEED_API int ipufeed_infeed_serves(std::int64_t number) {
  return ipufeed::entry(__func__, [&]() -> int {
    std::shared_ptr<ipufeed::Infeed> feed;
    if (!ipufeed::find_infeed(number, &feed).ok()) return 1;
    feed->set_serves();
    return 0;
  });
}

// Deletes an infeed; 1 if a program uses it or there is none. Does not wait for its
// feeder. For garbage collection, which must run no op.
IPUFEED_API int ipufeed_infeed_delete(std::int64_t number) {
  return ipufeed::entry(__func__, [&]() -> int {
    std::shared_ptr<ipufeed::Infeed> feed;
    if (!ipufeed::remove_infeed(number, &feed).ok()) return 1;
    if (feed->feeder() != nullptr) feed->feeder()->stop();
    return 0;
  });
}

// Deletes an outfeed; 1 if a program uses it. For garbage collection, which must run no
// op.
IPUFEED_API int ipufeed_outfeed_delete(std::int64_t number) {
  return ipufeed::entry(
      __func__, [&]() -> int { return ipufeed::remove_outfeed(number).ok() ? 0 : 1; });
}

// The Python object of a queue was deleted: deletes the feed, if no program uses it,
// and its name. Likewise for garbage collection.
IPUFEED_API int ipufeed_infeed_forget(std::int64_t number) {
  return ipufeed::entry(__func__, [&] {
    ipufeed::forget_infeed_name(number);
    std::shared_ptr<ipufeed::Infeed> feed;
    if (!ipufeed::remove_infeed(number, &feed).ok()) return;
    if (feed->feeder() != nullptr) feed->feeder()->stop();
  });
}
IPUFEED_API int ipufeed_outfeed_forget(std::int64_t number) {
  return ipufeed::entry(__func__, [&] {
    ipufeed::forget_outfeed_name(number);
    ipufeed::remove_outfeed(number).IgnoreError();
  });
}

// sizes[5]: how many infeeds there are, names of infeeds, outfeeds, names of outfeeds,
// and compiled programs.
IPUFEED_API int ipufeed_table_sizes(std::int64_t* sizes) {
  return ipufeed::entry(__func__, {ipufeed::given("sizes", sizes)}, [&] {
    const ipufeed::TableSizes all = ipufeed::table_sizes();
    const std::int64_t values[] = {all.infeeds, all.infeed_names, all.outfeeds,
                                   all.outfeed_names, ipufeed::known_programs()};
    std::copy(std::begin(values), std::end(values), sizes);
  });
}

IPUFEED_API int ipufeed_set_stall_report_ns(std::int64_t ns) {
  return ipufeed::entry(__func__, {{"ns", ns >= 0, "must be at least 0"}},
                        [&] { ipufeed::set_stall_report_ns(ns); });
}
IPUFEED_API int ipufeed_set_outfeed_limit_bytes(std::int64_t bytes) {
  return ipufeed::entry(__func__, {{"bytes", bytes >= 0, "must be at least 0"}},
                        [&] { ipufeed::set_outfeed_limit_bytes(bytes); });
}

// See program.h and step_program.h. The first is not guarded: nothing in it throws, and
// what ends programs must not fail at it.
IPUFEED_API std::int64_t ipufeed_last_program() { return ipufeed::last_program(); }
IPUFEED_API int ipufeed_end_eager_programs(std::int64_t last) {
  return ipufeed::entry(__func__, [&] { ipufeed::end_eager_programs(last); });
}

// Stops every program that uses a feed; returns how many. The second only those that
// had begun at until_ns: see program.h.
IPUFEED_API int ipufeed_stop_programs(const char* why) {
  return ipufeed::entry(__func__, {ipufeed::given("why", why)}, [&]() -> int {
    return ipufeed::stop_all_programs(absl::CancelledError(why));
  });
}
IPUFEED_API int ipufeed_stop_programs_until(const char* why, std::int64_t until_ns) {
  return ipufeed::entry(__func__, {ipufeed::given("why", why)}, [&]() -> int {
    return ipufeed::stop_all_programs(absl::CancelledError(why), until_ns);
  });
}

// The main thread of Python is about to call TensorFlow (1), or is back (0).
IPUFEED_API int ipufeed_main_thread_calls(int begins) {
  return ipufeed::entry(__func__, [&] { ipufeed::main_thread_calls(begins != 0); });
}

// See ipu_device.h.
IPUFEED_API int ipufeed_set_on_first_use(ipufeed::OnFirstUse ask) {
  return ipufeed::entry(__func__, [&] { ipufeed::set_on_first_use(ask); });
}
IPUFEED_API int ipufeed_set_log_cycle_count(int log) {
  return ipufeed::entry(__func__, [&] { ipufeed::set_log_cycle_count(log != 0); });
}
IPUFEED_API int ipufeed_forget_first_uses() {
  return ipufeed::entry(__func__, [&] { ipufeed::forget_first_uses(); });
}

// See processes.h.
IPUFEED_API int ipufeed_set_processes(int count, int index, ipufeed::OnCollective ask) {
  return ipufeed::entry(__func__,
                        {{"index", ask == nullptr || (index >= 0 && index < count),
                          "must be in [0, count)"}},
                        [&] { ipufeed::set_processes(count, index, ask); });
}

// See collective_runs.h.
IPUFEED_API int ipufeed_last_collective_run_failed() {
  return ipufeed::entry(
      __func__, [&]() -> int { return ipufeed::last_collective_run_failed() ? 1 : 0; });
}

// How many IPUs an IPU device has; 0 for the default, one.
IPUFEED_API int ipufeed_set_ipus(int ordinal, int count) {
  return ipufeed::entry(
      __func__,
      {{"ordinal", is_ordinal(ordinal), "must be in [0, 16)"},
       {"count", count >= 0 && count <= ipufeed::kMostIpus, "must be in [0, 1024]"}},
      [&] { ipufeed::set_ipus(ordinal, count); });
}
IPUFEED_API int ipufeed_ipus(int ordinal) {
  return ipufeed::entry(__func__, [&]() -> int { return ipufeed::ipus_of(ordinal); });
}

// See messages.h. Waits for a line; writes at most size - 1 bytes of it.
IPUFEED_API int ipufeed_next_line(char* line, std::int64_t size) {
  return ipufeed::entry(
      __func__,
      {ipufeed::given("line", line), {"size", size >= 1, "must be at least 1"}}, [&] {
        const std::string next = ipufeed::next_line();
        const auto length = std::min(next.size(), static_cast<std::size_t>(size) - 1);
        std::memcpy(line, next.data(), length);
        line[length] = '\0';
      });
}

// See interrupt.h. Returns the signal's number.
IPUFEED_API int ipufeed_wait_for_interrupt(std::int64_t* at_ns) {
  return ipufeed::entry(__func__, {ipufeed::given("at_ns", at_ns)}, [&]() -> int {
    const ipufeed::Interrupt interrupt = ipufeed::wait_for_interrupt();
    *at_ns = interrupt.at_ns;
    return interrupt.signal;
  });
}

// The seed of a device's random operations: see seeds.h.
IPUFEED_API int ipufeed_set_seed(int ordinal, std::int64_t seed,
                                 int identical_replicas) {
  return ipufeed::entry(
      __func__, {{"ordinal", is_ordinal(ordinal), "must be in [0, 16)"}},
      [&] { ipufeed::set_device_seed(ordinal, seed, identical_replicas != 0); });
}

IPUFEED_API int ipufeed_forget_seeds() {
  return ipufeed::entry(__func__, [] { ipufeed::forget_device_seeds(); });
}

IPUFEED_API int ipufeed_set_synthetic_seed(int synthetic) {
  return ipufeed::entry(__func__, [&] { ipufeed::set_synthetic_seed(synthetic != 0); });
}
