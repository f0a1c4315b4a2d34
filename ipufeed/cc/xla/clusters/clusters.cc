#include "xla/clusters/clusters.h"

#include <atomic>
#include <cstddef>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "tensorflow/core/graph/graph.h"
#include "xla/clusters/compilable.h"
#include "xla/clusters/functional.h"
#include "xla/clusters/left_ops.h"
#include "xla/clusters/partition.h"

namespace ipufeed {
namespace {

using tensorflow::Edge;
using tensorflow::Graph;
using tensorflow::GraphOptimizationPassOptions;
using tensorflow::Node;

std::atomic<bool> compiles{true};

// A group of more edges than this is left where it is.
constexpr std::size_t kMostEdges = 100'000;

// tf.group puts a NoOp between ops, which may be on the host: an op after it waits
// for the ops themselves.
void go_around_groups(const GraphOptimizationPassOptions& options, Graph* graph) {
  for (Node* node : graph->op_nodes()) {
    if (!is_group(*node)) continue;
    std::vector<Node*> before;
    std::vector<Node*> after;
    bool from_ipu = false;
    bool to_ipu = false;
    for (const Edge* edge : node->in_edges()) {
      if (!edge->src()->IsOp()) continue;
      before.push_back(edge->src());
      from_ipu =
          from_ipu || is_group(*edge->src()) || !ipu_of(*edge->src(), options).empty();
    }
    for (const Edge* edge : node->out_edges()) {
      if (!edge->dst()->IsOp()) continue;
      after.push_back(edge->dst());
      to_ipu =
          to_ipu || is_group(*edge->dst()) || !ipu_of(*edge->dst(), options).empty();
    }
    if (!from_ipu || !to_ipu || before.size() * after.size() > kMostEdges) continue;
    for (Node* one : before) {
      for (Node* other : after) graph->AddControlEdge(one, other);
    }
    std::vector<const Edge*> gone;
    for (const Edge* edge : node->out_edges()) {
      if (edge->dst()->IsOp()) gone.push_back(edge);
    }
    for (const Edge* edge : gone) graph->RemoveControlEdge(edge);
  }
}

// Makes loops and conditionals of TensorFlow 1 functional if they can be in a program.
absl::Status make_functional(const GraphOptimizationPassOptions& options) {
  Graph* graph = options.graph->get();
  const bool any = absl::c_any_of(
      graph->op_nodes(), [](const Node* node) { return is_control_flow(*node); });
  if (!any) return absl::OkStatus();
  TF_ASSIGN_OR_RETURN(const auto names, whole_regions(options));
  if (names.empty()) return absl::OkStatus();
  TF_ASSIGN_OR_RETURN(const std::string repeated, functionalize(names, options));
  if (repeated.empty()) return absl::OkStatus();
  for (const Node* node : graph->op_nodes()) {
    if (node->type_string() != repeated || names.count(node->name()) == 0) continue;
    log_left(*node, "XLA would run it again for each result of nested conditionals");
  }
  return absl::OkStatus();
}

}  // namespace

void set_compiles_graphs(bool value) {
  compiles.store(value, std::memory_order_relaxed);
}

bool compiles_graphs() { return compiles.load(std::memory_order_relaxed); }

absl::Status mark_clusters(const GraphOptimizationPassOptions& options) {
  if (!compiles_graphs() || options.graph == nullptr || options.flib_def == nullptr) {
    return absl::OkStatus();
  }
  // TensorFlow wraps an eager operation that is called by itself.
  if (options.function_def != nullptr &&
      absl::StartsWith(options.function_def->signature().name(), "__wrapped__")) {
    return absl::OkStatus();
  }
  Graph* graph = options.graph->get();
  bool on_ipu = false;
  for (const Node* node : graph->op_nodes()) {
    on_ipu = on_ipu || !ipu_of(*node, options).empty();
    // The executor runs all of a function that is partly for the host.
    if (is_outside(node->attrs())) return absl::OkStatus();
    // Session.partial_run: a program would wait for feeds that follow its results.
    bool later = false;
    if (node->IsRecv()) {
      tensorflow::TryGetNodeAttr(node->attrs(), "client_terminated", &later);
    }
    if (later) return absl::OkStatus();
  }
  if (!on_ipu) return absl::OkStatus();
  go_around_groups(options, graph);
  TF_RETURN_IF_ERROR(make_functional(options));
  return mark_partition(options);
}

}  // namespace ipufeed
