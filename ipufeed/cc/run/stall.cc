#include "run/stall.h"

#include <atomic>
#include <cmath>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/messages.h"
#include "core/wait.h"
#include "run/program.h"

namespace ipufeed {
namespace {

std::atomic<std::int64_t> report_after_ns{30'000'000'000};

// Stage, IPU and replica that this thread works for, as far as there are several.
std::string waiter_of(const Program& program) {
  const Context& context = current_context();
  const std::string stage =
      context.stages == nullptr ? "" : context.stages->at(context.ipu);
  std::string waiter = stage.empty() ? "A program" : absl::StrCat("Stage ", stage);
  absl::StrAppend(&waiter, " on ");
  if (context.stages != nullptr || context.replicas > 1) {
    absl::StrAppend(&waiter, "IPU ", context.ipu, " of ");
  }
  absl::StrAppend(&waiter, "/device:IPU:", program.ordinal());
  if (context.replicas > 1) {
    absl::StrAppend(&waiter, " (replica ", context.replica, " of ", context.replicas,
                    ")");
  }
  return waiter;
}

}  // namespace

void set_stall_report_ns(std::int64_t ns) {
  report_after_ns.store(ns, std::memory_order_relaxed);
}

std::int64_t StallWatch::next_report_ns() {
  const std::int64_t after = report_after_ns.load(std::memory_order_relaxed);
  if (after == 0) return kNoDeadline;
  if (start_ns_ == 0) {
    start_ns_ = now_ns();
    next_ns_ = start_ns_ + after;
  }
  return next_ns_;
}

std::int64_t StallWatch::postpone() {
  const std::int64_t waited = now_ns() - start_ns_;
  next_ns_ = now_ns() + waited;
  return waited;
}

void StallWatch::report(const Program& program, const char* kind,
                        const std::string& name, const char* state,
                        const std::string& reason) {
  // A program that serves calls waits for the next one as long as none comes.
  if (program.serves() && std::string_view(state) == "empty") {
    postpone();
    return;
  }
  report(program,
         absl::StrCat(kind, " queue '", name, "' is ", state, " and ", reason));
}

void StallWatch::report(const Program& program, const std::string& what) {
  const std::int64_t waited = postpone();
  log_line(absl::StrCat(
      waiter_of(program), " has waited for ",
      std::round(static_cast<double>(waited) / 1e6) / 1e3, " s: ", what,
      ". It goes on waiting. Its queues: ", program.describe_feeds(), "."));
}

std::string replicas_of(const std::vector<std::size_t>& numbers) {
  if (numbers.empty()) return "another replica";
  if (numbers.size() == 1) return absl::StrCat("replica ", numbers[0]);
  return absl::StrCat("replicas ",
                      absl::StrJoin(numbers.begin(), numbers.end() - 1, ", "), " and ",
                      numbers.back());
}

std::string replicas_have(const std::vector<std::size_t>& numbers) {
  return absl::StrCat(replicas_of(numbers), numbers.size() > 1 ? " have" : " has");
}

absl::Status stopped_while(const char* doing, const std::string& name,
                           const Program& program) {
  const absl::Status why = program.stop_status();
  return absl::Status(why.code(), absl::StrCat("The program was stopped while ", doing,
                                               " queue '", name, "': ", why.message()));
}

}  // namespace ipufeed
