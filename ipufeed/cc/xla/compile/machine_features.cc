#include "xla/compile/machine_features.h"

#include <string>
#include <vector>

#include "absl/base/log_severity.h"
#include "absl/log/globals.h"
#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "core/mutex.h"
#include "xla/service/cpu/executable.pb.h"

namespace ipufeed {
namespace {

struct Quiet {
  Mutex mutex;
  int users IPUFEED_GUARDED_BY(mutex) = 0;
  absl::LogSeverityAtLeast before IPUFEED_GUARDED_BY(mutex){};

  static Quiet& get() {
    static auto* const quiet = new Quiet;
    return *quiet;
  }
};

}  // namespace

// The threshold of stderr would let other threads' lines through to our sink, but
// it does nothing in a process that has not called absl::InitializeLog(), as Python has
// not.
QuietLoading::QuietLoading() {
  Quiet& quiet = Quiet::get();
  MutexLock lock(quiet.mutex);
  if (++quiet.users > 1) return;
  quiet.before = absl::MinLogLevel();
  absl::SetMinLogLevel(absl::LogSeverityAtLeast::kFatal);
}

QuietLoading::~QuietLoading() {
  Quiet& quiet = Quiet::get();
  MutexLock lock(quiet.mutex);
  if (--quiet.users == 0) absl::SetMinLogLevel(quiet.before);
}

std::string without_preferences(std::string executable) {
  xla::cpu::CompilationResultProto result;
  if (!result.ParseFromString(executable) || !result.has_target_machine_options()) {
    return executable;
  }
  auto* options = result.mutable_target_machine_options();
  std::vector<std::string> kept;
  for (const auto feature : absl::StrSplit(options->features(), ',')) {
    if (!absl::StrContains(feature, "prefer-")) kept.emplace_back(feature);
  }
  options->set_features(absl::StrJoin(kept, ","));
  return result.SerializeAsString();
}

}  // namespace ipufeed
