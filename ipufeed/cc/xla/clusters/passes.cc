// The passes over a graph that TensorFlow calls, and the one that makes programs of
// clusters.

#include <memory>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/guard.h"
#include "tensorflow/compiler/jit/encapsulate_subgraphs_pass.h"
#include "tensorflow/core/common_runtime/function_body.h"
#include "tensorflow/core/common_runtime/function_def_utils.h"
#include "tensorflow/core/common_runtime/optimization_registry.h"
#include "tensorflow/core/framework/function.h"
#include "tensorflow/core/framework/node_def_builder.h"
#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/graph/graph.h"
#include "xla/clusters/clusters.h"
#include "xla/clusters/compilable.h"

namespace ipufeed {
namespace {

using tensorflow::DataType;
using tensorflow::Edge;
using tensorflow::Graph;
using tensorflow::GraphOptimizationPassOptions;
using tensorflow::Node;
using tensorflow::NodeDefBuilder;

// The call of a cluster's function takes values that XLA needs as constants, then
// others, then variables; so does XlaLaunch, which ipu_compiler.compile's programs are,
// too.
absl::Status launch(Graph* graph, Node* call) {
  int constants = 0;
  int variables = 0;
  TF_RETURN_IF_ERROR(tensorflow::GetNodeAttr(
      call->attrs(), tensorflow::kXlaNumConstantArgsAttr, &constants));
  TF_RETURN_IF_ERROR(tensorflow::GetNodeAttr(
      call->attrs(), tensorflow::kXlaNumResourceArgsAttr, &variables));
  std::vector<NodeDefBuilder::NodeOut> inputs(
      static_cast<std::size_t>(call->num_inputs()));
  for (const Edge* edge : call->in_edges()) {
    if (edge->IsControlEdge()) continue;
    inputs[static_cast<std::size_t>(edge->dst_input())] = {
        edge->src()->name(), edge->src_output(),
        edge->src()->output_type(edge->src_output())};
  }
  const auto part = [&](std::size_t from, std::size_t to) {
    return std::vector<NodeDefBuilder::NodeOut>(
        inputs.begin() + static_cast<std::ptrdiff_t>(from),
        inputs.begin() + static_cast<std::ptrdiff_t>(to));
  };
  const auto types_of = [](const std::vector<NodeDefBuilder::NodeOut>& tensors) {
    std::vector<DataType> types;
    types.reserve(tensors.size());
    for (const auto& each : tensors) types.push_back(each.data_type);
    return types;
  };
  const auto first = static_cast<std::size_t>(constants);
  const std::size_t last = inputs.size() - static_cast<std::size_t>(variables);
  const auto known = part(0, first);
  const auto others = part(first, last);
  tensorflow::NameAttrList function;
  function.set_name(call->type_string());
  tensorflow::NodeDef def;
  TF_RETURN_IF_ERROR(
      NodeDefBuilder(call->name(), "XlaLaunch")
          .Input(known)
          .Input(others)
          .Input(part(last, inputs.size()))
          .Attr("Tconstants", types_of(known))
          .Attr("Targs", types_of(others))
          .Attr("Nresources", variables)
          .Attr("Tresults", std::vector<DataType>(call->output_types().begin(),
                                                  call->output_types().end()))
          .Attr("function", function)
          .Device(call->requested_device())
          .Finalize(&def));
  def.clear_input();
  absl::Status status;
  Node* program = graph->AddNode(def, &status);
  TF_RETURN_IF_ERROR(status);
  program->set_assigned_device_name(call->assigned_device_name());
  const std::vector<const Edge*> in(call->in_edges().begin(), call->in_edges().end());
  for (const Edge* edge : in) {
    graph->AddEdge(edge->src(), edge->src_output(), program, edge->dst_input());
  }
  const std::vector<const Edge*> out(call->out_edges().begin(),
                                     call->out_edges().end());
  for (const Edge* edge : out) {
    Node* const to = edge->dst();
    const int output = edge->src_output();
    const int input = edge->dst_input();
    graph->RemoveEdge(edge);
    graph->AddEdge(program, output, to, input);
  }
  graph->RemoveNode(call);
  return absl::OkStatus();
}

constexpr char kLower[] = "_lower_using_switch_merge";

bool is_lowered(const tensorflow::AttrSlice& attributes) {
  bool lowered = false;
  tensorflow::TryGetNodeAttr(attributes, kLower, &lowered);
  return lowered;
}

// Has TensorFlow leave the loops and conditionals of a function whole for which `keeps`
// holds, by their names in it.
template <class Keeps>
absl::Status keep_in_function(const std::string& name,
                              tensorflow::FunctionLibraryDefinition* library,
                              const Keeps& keeps) {
  const tensorflow::FunctionDef* function = library->Find(name);
  const auto is_kept = [&](const tensorflow::NodeDef& node) {
    return is_lowered(tensorflow::AttrSlice(node)) && keeps(node.name());
  };
  if (function == nullptr || !absl::c_any_of(function->node_def(), is_kept)) {
    return absl::OkStatus();
  }
  tensorflow::FunctionDef kept = *function;
  for (tensorflow::NodeDef& node : *kept.mutable_node_def()) {
    if (is_kept(node)) (*node.mutable_attr())[kLower].set_b(false);
  }
  return library->ReplaceFunction(name, kept);
}

// The function that a call names, unless the call is compiled as a program of its own.
std::string function_of_call(const Node& node) {
  if (!node.IsPartitionedCall() || must_compile(node) || has_program(node.attrs())) {
    return "";
  }
  const tensorflow::AttrValue* const function = node.attrs().Find("f");
  return function == nullptr ? "" : function->func().name();
}

// Keeps the loops and conditionals of a graph on an IPU that can be compiled whole, and
// those of the functions that it calls: TensorFlow puts both into the graph, taken
// apart, for its executor.
class KeptControlFlow {
 public:
  explicit KeptControlFlow(const GraphOptimizationPassOptions& options)
      : options_(options), compilable_(options) {}

  absl::Status keep(Graph* graph) {
    for (Node* node : graph->op_nodes()) {
      if (ipu_of(*node, options_).empty()) continue;
      TF_ASSIGN_OR_RETURN(const bool kept, keep_called(*node));
      if (!kept || !is_lowered(node->attrs())) continue;
      node->ClearAttr(kLower);
      node->AddAttr(kLower, false);
    }
    return absl::OkStatus();
  }

 private:
  // Whether a node can be compiled whole: then all that it calls is kept. Of a call
  // that cannot be, the parts that can.
  absl::StatusOr<bool> keep_called(const Node& node) {
    const std::string called = function_of_call(node);
    if (called.empty() && !is_lowered(node.attrs())) return false;
    if (compilable_(node) && !compilable_.calls_outside(node)) {
      for (const std::string& name : compilable_.called_by(node)) {
        TF_RETURN_IF_ERROR(keep_in_function(name, options_.flib_def,
                                            [](const std::string&) { return true; }));
      }
      return true;
    }
    if (!called.empty()) TF_RETURN_IF_ERROR(keep_parts(node, called));
    return false;
  }

  absl::Status keep_parts(const Node& call, const std::string& name) {
    const tensorflow::FunctionDef* function = options_.flib_def->Find(name);
    if (function == nullptr || !seen_.insert(name).second) return absl::OkStatus();
    std::unique_ptr<tensorflow::FunctionBody> body;
    TF_RETURN_IF_ERROR(tensorflow::FunctionDefToBodyHelper(*function, call.attrs(),
                                                           options_.flib_def, &body));
    const std::string ipu = ipu_of(call, options_);
    absl::flat_hash_set<std::string> kept;
    for (Node* node : body->graph->op_nodes()) {
      if (node->requested_device().empty()) node->set_requested_device(ipu);
      if (ipu_of(*node, options_).empty()) continue;
      TF_ASSIGN_OR_RETURN(const bool is_kept, keep_called(*node));
      if (is_kept) kept.insert(node->name());
    }
    return keep_in_function(name, options_.flib_def, [&](const std::string& each) {
      return kept.contains(each);
    });
  }

  const GraphOptimizationPassOptions& options_;
  const Compilable compilable_;
  absl::flat_hash_set<std::string> seen_;
};

// A variable that is used by reference has no kernel on an IPU of the original, and
// makes no part of a compiled program here. The error is TensorFlow's for such a
// device.
absl::Status refuse_references(const GraphOptimizationPassOptions& options) {
  if (options.graph == nullptr) return absl::OkStatus();
  for (const Node* node : (*options.graph)->op_nodes()) {
    if (node->num_outputs() == 0 || !tensorflow::IsRefType(node->output_type(0))) {
      continue;
    }
    const std::string device = ipu_of(*node, options);
    if (device.empty()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("Cannot assign a device for operation ", node->name(),
                     ": Could not satisfy explicit device specification '", device,
                     "' because no supported kernel for IPU devices is available for ",
                     node->type_string(),
                     ", which uses a variable by reference. Make it with "
                     "use_resource=True, or in an "
                     "ipu_scope."));
  }
  return absl::OkStatus();
}

using Work = absl::Status (*)(const GraphOptimizationPassOptions&);

template <Work work>
class Pass : public tensorflow::GraphOptimizationPass {
 public:
  absl::Status Run(const GraphOptimizationPassOptions& options) override {
    return guarded("the rewriting of a graph for an IPU",
                   [&] { return work(options); });
  }
};

class RefuseReferences : public Pass<refuse_references> {};
class InlineCalls : public Pass<inline_calls> {};
class KeepCalls : public Pass<keep_calls> {};
class ReleaseCalls : public Pass<release_calls> {};
class KeepControlFlow : public Pass<keep_control_flow> {};
class DrawDeviceSeeds : public Pass<draw_device_seeds> {};
class MarkClusters : public Pass<mark_clusters> {};
class LaunchClusters : public Pass<launch_clusters> {};
class OrderCollectives : public Pass<order_collectives> {};
class MakeProgramState : public Pass<make_program_state> {};

using tensorflow::OptimizationPassRegistry;

REGISTER_OPTIMIZATION(OptimizationPassRegistry::PRE_PLACEMENT, 4, RefuseReferences);
// Before and after Grappler.
REGISTER_OPTIMIZATION(OptimizationPassRegistry::POST_PLACEMENT, 5, KeepCalls);
REGISTER_OPTIMIZATION(OptimizationPassRegistry::POST_REWRITE_FOR_EXEC, 0, ReleaseCalls);
// Before TensorFlow lowers functional control flow, in phase 10.
REGISTER_OPTIMIZATION(OptimizationPassRegistry::PRE_PLACEMENT, 5, KeepControlFlow);
// Behind it: the body of a loop that was lowered may have calls.
REGISTER_OPTIMIZATION(OptimizationPassRegistry::PRE_PLACEMENT, 11, InlineCalls);
// Before and after TensorFlow's EncapsulateSubgraphsPass, in phase 50, and after its
// own marks, which end in phase 45.
REGISTER_OPTIMIZATION(OptimizationPassRegistry::POST_REWRITE_FOR_EXEC, 47,
                      DrawDeviceSeeds);
REGISTER_OPTIMIZATION(OptimizationPassRegistry::POST_REWRITE_FOR_EXEC, 48,
                      MarkClusters);
REGISTER_OPTIMIZATION(OptimizationPassRegistry::POST_REWRITE_FOR_EXEC, 55,
                      LaunchClusters);
REGISTER_OPTIMIZATION(OptimizationPassRegistry::POST_REWRITE_FOR_EXEC, 56,
                      OrderCollectives);
REGISTER_OPTIMIZATION(OptimizationPassRegistry::POST_REWRITE_FOR_EXEC, 57,
                      MakeProgramState);

}  // namespace

absl::Status launch_clusters(const GraphOptimizationPassOptions& options) {
  if (options.graph == nullptr) return absl::OkStatus();
  Graph* graph = options.graph->get();
  std::vector<Node*> calls;
  for (Node* node : graph->op_nodes()) {
    if (tensorflow::IsXlaCompiledKernel(*node) && !ipu_of(*node, options).empty()) {
      calls.push_back(node);
    }
  }
  for (Node* call : calls) TF_RETURN_IF_ERROR(launch(graph, call));
  return absl::OkStatus();
}

absl::Status keep_control_flow(const GraphOptimizationPassOptions& options) {
  if (!compiles_graphs() || options.graph == nullptr || options.flib_def == nullptr) {
    return absl::OkStatus();
  }
  Graph* const graph = options.graph->get();
  bool any = false;
  for (const Node* node : graph->op_nodes()) {
    if (ipu_of(*node, options).empty()) continue;
    if (!is_lowered(node->attrs()) && function_of_call(*node).empty()) continue;
    if (is_outside(node->attrs())) return absl::OkStatus();
    any = true;
  }
  return any ? KeptControlFlow(options).keep(graph) : absl::OkStatus();
}

}  // namespace ipufeed
