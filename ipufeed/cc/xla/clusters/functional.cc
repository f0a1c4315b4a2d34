#include "xla/clusters/functional.h"

#include <memory>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "tensorflow/compiler/tf2xla/functionalize_control_flow.h"
#include "tensorflow/core/framework/function.h"
#include "tensorflow/core/framework/node_def.pb.h"
#include "tensorflow/core/graph/graph.h"

namespace ipufeed {
namespace {

using tensorflow::FunctionLibraryDefinition;
using tensorflow::Graph;
using tensorflow::GraphOptimizationPassOptions;
using tensorflow::Node;
using tensorflow::NodeDef;
using tensorflow::OpDef;

using Counts = std::map<std::string, int>;  // by type
using Names = absl::flat_hash_set<std::string>;

// Whether to run an op of this type twice is seen. Conditionals and loops are made
// here.
bool has_effect(const std::string& type, const FunctionLibraryDefinition& library) {
  static const auto* const types =
      new Names{"Case", "If", "ReadVariableOp", "VarHandleOp", "While"};
  const OpDef* op = nullptr;
  return !types->contains(type) && !absl::StartsWith(type, "TensorArray") &&
         !absl::StartsWith(type, "Stack") && library.LookUpOpDef(type, &op).ok() &&
         op->is_stateful();
}

// Counts the ops with an effect in a graph and in its functions, those of a function as
// often as it is called. The older functions do not count.
class Effects {
 public:
  Effects(const FunctionLibraryDefinition& library, const Names& older)
      : library_(library), older_(older) {}

  Counts of(const Graph& graph) {
    Counts counts;
    for (const Node* node : graph.op_nodes()) add(node->def(), &counts);
    return counts;
  }

 private:
  void add(const NodeDef& node, Counts* counts) {
    if (has_effect(node.op(), library_)) ++(*counts)[node.op()];
    for (const auto& [_, value] : node.attr()) {
      if (!value.has_func()) continue;
      for (const auto& [type, count] : of(value.func().name())) {
        (*counts)[type] += count;
      }
    }
  }

  const Counts& of(const std::string& name) {
    const auto [found, is_new] = known_.try_emplace(name);
    const auto* function =
        is_new && !older_.contains(name) ? library_.Find(name) : nullptr;
    if (function == nullptr) return found->second;
    Counts counts;
    for (const NodeDef& node : function->node_def()) add(node, &counts);
    return known_[name] = std::move(counts);
  }

  const FunctionLibraryDefinition& library_;
  const Names& older_;
  std::map<std::string, Counts> known_;
};

// Whether an op is gone that is not of a loop or conditional that was to be functional:
// where others stay, with a Merge of their own, TensorFlow may remove what they give.
bool is_damaged(const Graph& before, const Graph& after,
                const std::map<std::string, std::string>& devices) {
  Names left;
  for (const Node* node : after.op_nodes()) left.insert(node->name());
  return absl::c_any_of(before.op_nodes(), [&](const Node* node) {
    return devices.count(node->name()) == 0 && !left.contains(node->name());
  });
}

}  // namespace

absl::StatusOr<std::string> functionalize(
    const std::map<std::string, std::string>& devices,
    const GraphOptimizationPassOptions& options) {
  const Graph& graph = **options.graph;
  Names older;
  for (const std::string& name : options.flib_def->ListFunctionNames()) {
    older.insert(name);
  }
  auto made = std::make_unique<Graph>(*options.flib_def);
  made->Copy(graph);
  const absl::Status status = tensorflow::FunctionalizeControlFlow(
      made.get(), options.flib_def,
      [&](const Node* node) { return devices.find(node->name()) != devices.end(); });
  if (!status.ok()) {
    VLOG(1) << "A loop or a conditional stays with the executor: " << status;
    return "";
  }
  Effects effects(*options.flib_def, older);
  if (is_damaged(graph, *made, devices)) {
    VLOG(1) << "Conditionals stay with the executor: others would be removed";
    return "";
  }
  const Counts before = effects.of(graph);
  for (const auto& [type, count] : effects.of(*made)) {
    const auto found = before.find(type);
    if (found != before.end() && count > found->second) return type;
  }
  // Graphs of sessions hold a function library of their own.
  TF_RETURN_IF_ERROR(made->AddFunctionLibrary(options.flib_def->ToProto()));
  for (Node* node : made->op_nodes()) {
    if (!node->assigned_device_name().empty()) continue;
    node->set_assigned_device_name(devices.begin()->second);
  }
  options.graph->swap(made);
  return "";
}

}  // namespace ipufeed
