#include "stall.h"

#include <atomic>

#include "absl/strings/str_cat.h"
#include "program.h"
#include "tensorflow/core/platform/logging.h"
#include "wait.h"

namespace ipufeed {
namespace {

std::atomic<std::int64_t> report_after_ns{30'000'000'000};

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

void StallWatch::report(const Program& program, const char* kind,
                        const std::string& name, const char* state,
                        const char* reason) {
  report(program,
         absl::StrCat(kind, " queue '", name, "' is ", state, " and ", reason));
}

void StallWatch::report(const Program& program, const std::string& what) {
  const std::int64_t waited = now_ns() - start_ns_;
  next_ns_ = now_ns() + waited;
  LOG(WARNING) << "A program on IPU " << program.ordinal() << " has waited for "
               << waited / 1'000'000 / 1000.0 << " s: " << what
               << ". It goes on waiting. Its queues: " << program.describe_feeds()
               << ".";
}

absl::Status stopped_while(const char* doing, const std::string& name,
                           const Program& program) {
  const absl::Status why = program.stop_status();
  return absl::Status(why.code(), absl::StrCat("The program was stopped while ", doing,
                                               " queue '", name, "': ", why.message()));
}

}  // namespace ipufeed
