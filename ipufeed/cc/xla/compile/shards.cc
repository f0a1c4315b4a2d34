#include "xla/compile/shards.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/numeric/bits.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "tensorflow/core/framework/attr_value.pb.h"
#include "tensorflow/core/framework/function.h"
#include "tensorflow/core/framework/node_def.pb.h"

namespace ipufeed {
namespace {

// ipufeed/device/program/sharding.py has the same names: an op's own index, or one for
// each output, and the number for the whole program, which is at all ops of a
// version 1 program, since TensorFlow's rewrites may have dropped those with an index.
constexpr char kShard[] = "_ipufeed_shard";
constexpr char kShards[] = "_ipufeed_shards";
// A pipeline's own attribute is how many it needs.
constexpr char kPipelineOp[] = "IpufeedPipeline";
constexpr char kPipelineDevices[] = "devices";

int shards_at(const tensorflow::NodeDef& node) {
  int most = 1;
  const auto own = node.attr().find(kShard);
  if (own != node.attr().end()) {
    for (const auto text : absl::StrSplit(own->second.s(), ',')) {
      int index = 0;
      if (absl::SimpleAtoi(text, &index)) most = std::max(most, index + 1);
    }
  }
  const auto all =
      node.attr().find(node.op() == kPipelineOp ? kPipelineDevices : kShards);
  if (all == node.attr().end()) return most;
  return std::max(most, static_cast<int>(all->second.i()));
}

}  // namespace

int shards_of(const tensorflow::FunctionLibraryDefinition& library,
              const tensorflow::FunctionDef& function) {
  int most = 1;
  absl::flat_hash_set<std::string> seen;
  std::vector<const tensorflow::FunctionDef*> left{&function};
  const auto add = [&](const std::string& name) {
    if (!seen.insert(name).second) return;
    const auto* called = library.Find(name);
    if (called != nullptr) left.push_back(called);
  };
  while (!left.empty()) {
    const auto* current = left.back();
    left.pop_back();
    for (const auto& node : current->node_def()) {
      most = std::max(most, shards_at(node));
      add(node.op());
      for (const auto& [name, value] : node.attr()) {
        if (value.has_func()) add(value.func().name());
        for (const auto& each : value.list().func()) add(each.name());
      }
    }
  }
  // IPUs are given to copies in groups of a power of two.
  return static_cast<int>(absl::bit_ceil(static_cast<unsigned>(most)));
}

}  // namespace ipufeed
