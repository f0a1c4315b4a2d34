#include "xla/clusters/left_ops.h"

#include <string>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/messages.h"
#include "core/mutex.h"
#include "xla/clusters/compilable.h"

namespace ipufeed {

using tensorflow::Node;

bool belongs_to_executor(const Node& node) {
  static const auto* const types = new absl::flat_hash_set<std::string>{
      "Assert", "PartitionedCall", "RestoreV2", "SaveV2", "StatefulPartitionedCall"};
  const std::string& type = node.type_string();
  return !node.IsOp() || node.IsArg() || node.IsRetval() || node.IsSend() ||
         node.IsRecv() || node.IsConstant() || node.IsIdentity() ||
         is_control_flow(node) || has_program(node.attrs()) ||
         absl::StartsWith(type, "Ipufeed") || absl::StrContains(type, "Xla") ||
         absl::StrContains(type, "Iterator") || absl::StrContains(type, "Dataset") ||
         absl::StrContains(type, "VarHandle") || absl::StrContains(type, "Variable") ||
         absl::StartsWith(type, "Placeholder") || absl::StartsWith(type, "Destroy") ||
         type == "NoOp" || type == "VarIsInitializedOp" || types->contains(type);
}

void log_left(const Node& node, const std::string& why) {
  static Mutex mutex;
  static auto* const named = new absl::flat_hash_set<std::string>;
  {
    MutexLock lock(mutex);
    if (!named->insert(absl::StrCat(node.type_string(), " ", node.name())).second) {
      return;
    }
  }
  log_line(
      absl::StrCat("The operation ", node.name(), " (", node.type_string(),
                   ") on an IPU cannot be compiled (", why,
                   "): TensorFlow's executor runs it, between the programs before and "
                   "after it. See docs/programs.md, \"Whole graphs\"."));
}

}  // namespace ipufeed
