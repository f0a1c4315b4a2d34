#include <cstdint>
#include <functional>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_set.h"
#include "tensorflow/core/framework/function.h"
#include "tensorflow/core/graph/algorithm.h"
#include "tensorflow/core/graph/graph.h"
#include "xla/clusters/clusters.h"
#include "xla/clusters/compilable.h"

namespace ipufeed {
namespace {

using tensorflow::Graph;
using tensorflow::GraphOptimizationPassOptions;
using tensorflow::Node;

// The same in host_collectives.py, which numbers the ops of each such program.
constexpr char kCollectiveNumber[] = "_ipufeed_collective";

struct NumberedProgram {
  std::int64_t number = 0;
  Node* program = nullptr;
  absl::flat_hash_set<const Node*> before;  // that it needs
};

// The number of a program between processes; -1 if it is none.
std::int64_t number_of(const Node& node, const GraphOptimizationPassOptions& options) {
  if (node.type_string() != "XlaLaunch" || ipu_of(node, options).empty()) return -1;
  const tensorflow::AttrValue* const name = node.attrs().Find("function");
  if (name == nullptr) return -1;
  const tensorflow::FunctionDef* const function =
      options.flib_def->Find(name->func().name());
  std::int64_t number = -1;
  if (function == nullptr) return number;
  for (const tensorflow::NodeDef& each : function->node_def()) {
    if (tensorflow::TryGetNodeAttr(each, kCollectiveNumber, &number)) break;
  }
  return number;
}

}  // namespace

absl::Status order_collectives(const GraphOptimizationPassOptions& options) {
  if (options.graph == nullptr || options.flib_def == nullptr) return absl::OkStatus();
  Graph* const graph = options.graph->get();
  std::vector<NumberedProgram> left;
  for (Node* node : graph->op_nodes()) {
    const std::int64_t number = number_of(*node, options);
    if (number >= 0) left.push_back({number, node, {}});
  }
  if (left.size() < 2) return absl::OkStatus();
  absl::flat_hash_set<const Node*> programs;
  for (const NumberedProgram& each : left) programs.insert(each.program);
  for (NumberedProgram& each : left) {
    const Node* const from[] = {each.program};
    const std::function<void(const Node*)> enter = [&](const Node* node) {
      if (node != each.program && programs.contains(node)) each.before.insert(node);
    };
    tensorflow::ReverseDFSFrom(*graph, from, enter, nullptr);
  }
  absl::c_sort(left, [](const NumberedProgram& one, const NumberedProgram& other) {
    return one.number < other.number;
  });
  // By number, but after what a program needs: an edge against the graph's own order
  // would be a circle.
  Node* last = nullptr;
  while (!left.empty()) {
    auto next = absl::c_find_if(left, [&](const NumberedProgram& each) {
      return absl::c_none_of(each.before,
                             [&](const Node* node) { return programs.contains(node); });
    });
    if (next == left.end()) return absl::OkStatus();  // in a loop of TensorFlow 1
    if (last != nullptr) graph->AddControlEdge(last, next->program);
    last = next->program;
    programs.erase(last);
    left.erase(next);
  }
  return absl::OkStatus();
}

}  // namespace ipufeed
