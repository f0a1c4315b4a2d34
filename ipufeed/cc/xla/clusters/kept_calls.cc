#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
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

bool is_call(const Node& node, const GraphOptimizationPassOptions& options) {
  return node.IsPartitionedCall() ||
         options.flib_def->Find(node.type_string()) != nullptr;
}

// Whether a function that an op calls uses a queue, or checks something. On
// TensorFlow's executor a call is a program of its own, which has queues of its own and
// ends alone.
bool depends_on_its_program(const Node& call, const Compilable& compilable,
                            const GraphOptimizationPassOptions& options) {
  const auto depends = [](const tensorflow::NodeDef& node) {
    return absl::StartsWith(node.op(), "Ipufeed") || node.op() == "Assert";
  };
  return absl::c_any_of(compilable.called_by(call), [&](const std::string& name) {
    return absl::c_any_of(options.flib_def->Find(name)->node_def(), depends);
  });
}

}  // namespace

absl::Status keep_calls(const GraphOptimizationPassOptions& options) {
  if (options.graph == nullptr || options.flib_def == nullptr ||
      options.is_function_graph) {
    return absl::OkStatus();
  }
  const Graph& graph = **options.graph;
  std::vector<Node*> calls;
  bool has_ipu = false;
  for (Node* node : graph.op_nodes()) {
    has_ipu = has_ipu || !ipu_of(*node, options).empty();
    if (is_call(*node, options) && node->attrs().Find(kMark) == nullptr) {
      calls.push_back(node);
    }
  }
  if (!has_ipu || calls.empty()) return absl::OkStatus();
  const Compilable compilable(options);
  const auto must_be_inlined = [&](const Node* call) {
    return depends_on_its_program(*call, compilable, options) &&
           !(compiles_graphs() && compilable(*call));
  };
  if (absl::c_any_of(calls, must_be_inlined)) return absl::OkStatus();
  for (Node* call : calls) call->AddAttr(kMark, kKept);
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
