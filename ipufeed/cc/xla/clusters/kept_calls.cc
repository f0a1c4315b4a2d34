#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "tensorflow/core/common_runtime/lower_functional_ops.h"
#include "tensorflow/core/framework/function.h"
#include "tensorflow/core/graph/graph.h"
#include "tensorflow/core/public/session_options.h"
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
constexpr char kKeptCall[] = "ipufeed_kept_call";

bool is_call(const Node& node, const GraphOptimizationPassOptions& options) {
  return node.IsPartitionedCall() || node.type_string() == "SymbolicGradient" ||
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

// The calls of a graph with an IPU, outside of what TensorFlow compiles. None if it is
// a function's own graph.
struct Calls {
  explicit Calls(const GraphOptimizationPassOptions& options) {
    if (options.graph == nullptr || options.flib_def == nullptr ||
        options.is_function_graph) {
      return;
    }
    bool has_ipu = false;
    for (Node* node : (*options.graph)->op_nodes()) {
      has_ipu = has_ipu || !ipu_of(*node, options).empty();
      if (is_call(*node, options) && node->attrs().Find(kMark) == nullptr) {
        all.push_back(node);
      }
    }
    if (!has_ipu) all.clear();
    if (all.empty()) return;
    const Compilable compilable(options);
    must_be_inlined = absl::c_any_of(all, [&](const Node* call) {
      return depends_on_its_program(*call, compilable, options) &&
             !(compiles_graphs() && compilable(*call));
    });
  }

  std::vector<Node*> all;
  bool must_be_inlined = false;
};

}  // namespace

absl::Status inline_calls(const GraphOptimizationPassOptions& options) {
  if (!Calls(options).must_be_inlined) return absl::OkStatus();
  tensorflow::SessionOptions inlining;
  if (options.session_options != nullptr) inlining = *options.session_options;
  inlining.config.mutable_graph_options()
      ->mutable_optimizer_options()
      ->set_do_function_inlining(true);
  GraphOptimizationPassOptions with = options;
  with.session_options = &inlining;
  return tensorflow::LowerFunctionalOpsPass().Run(with);
}

absl::Status keep_calls(const GraphOptimizationPassOptions& options) {
  const Calls calls(options);
  if (calls.must_be_inlined) return absl::OkStatus();
  for (Node* call : calls.all) call->AddAttr(kMark, kKeptCall);
  return absl::OkStatus();
}

absl::Status release_calls(const GraphOptimizationPassOptions& options) {
  if (options.graph == nullptr) return absl::OkStatus();
  for (Node* node : (*options.graph)->op_nodes()) {
    std::string mark;
    if (tensorflow::TryGetNodeAttr(node->attrs(), kMark, &mark) && mark == kKeptCall) {
      node->ClearAttr(kMark);
    }
  }
  return absl::OkStatus();
}

}  // namespace ipufeed
