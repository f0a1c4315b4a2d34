#include "xla/compile/machine_features.h"

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "xla/service/cpu/executable.pb.h"

namespace ipufeed {

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
