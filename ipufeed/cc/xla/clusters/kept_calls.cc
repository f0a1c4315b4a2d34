#include <string>

#include "absl/algorithm/container.h"
#include "tensorflow/core/framework/function.h"
#include "tensorflow/core/graph/graph.h"
#include "xla/clusters/clusters.h"
#include "xla/clusters/compilable.h"

namespace ipufeed {
namespace {

using tensorflow::Graph;
using tensorflow::GraphOptimizationPassOptions;
using tensorflow::Node;

// What Grappler takes for the mark of a call that will be compiled, and does not
// inline. TensorFlow's own pass for such marks runs before the one that makes it here.
constexpr char kMark[] = "_xla_compile_id";
constexpr char kKept[] = "ipufeed_kept_call";

}  // namespace

absl::Status keep_calls(const GraphOptimizationPassOptions& options) {
  if (options.graph == nullptr || options.flib_def == nullptr ||
      options.is_function_graph) {
    return absl::OkStatus();
  }
  const Graph& graph = **options.graph;
  const auto on_ipu = [&](const Node* node) { return !ipu_of(*node, options).empty(); };
  if (absl::c_none_of(graph.op_nodes(), on_ipu)) return absl::OkStatus();
  for (Node* node : graph.op_nodes()) {
    const bool calls = node->IsPartitionedCall() ||
                       options.flib_def->Find(node->type_string()) != nullptr;
    if (calls && node->attrs().Find(kMark) == nullptr) node->AddAttr(kMark, kKept);
  }
  return absl::OkStatus();
}

absl::Status release_calls(const GraphOptimizationPassOptions& options) {
  if (options.graph == nullptr) return absl::OkStatus();
  for (Node* node : (*options.graph)->op_nodes()) {
    std::string mark;
    if (tensorflow::TryGetNodeAttr(node->attrs(), kMark, &mark) && mark == kKept) {
      node->ClearAttr(kMark);
    }
  }
  return absl::OkStatus();
}

}  // namespace ipufeed
