#include "xla/clusters/compilable.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tensorflow/compiler/tf2xla/xla_op_registry.h"
#include "tensorflow/core/framework/function.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/public/version.h"
#include "tensorflow/core/util/device_name_utils.h"

namespace ipufeed {
namespace {

using tensorflow::AttrSlice;
using tensorflow::DataType;
using tensorflow::GraphOptimizationPassOptions;
using tensorflow::Node;
using Checker = tensorflow::RecursiveCompilabilityChecker;

// Noted by ipufeed/device/program/outside_compilation.py.
constexpr char kProgram[] = "_ipufeed_program";
constexpr char kOutside[] = "_ipufeed_outside";

Checker make_checker() {
  tensorflow::XlaOpRegistry::RegisterCompilationKernels();
  Checker::OperationFilter filter;
  filter.allow_resource_ops_in_called_functions = true;
  filter.allow_stack_ops = true;
  filter.allow_tensor_array_ops = true;
  filter.allow_stateful_rng_ops = true;
  filter.allow_control_trigger = true;
  // XLA would drop them.
  filter.allow_eliding_assert_and_checknumerics_ops = false;
  filter.allow_ops_producing_or_consuming_variant = true;
  filter.allow_slow_ops = true;
  filter.allow_inaccurate_ops = true;
  filter.require_always_compilable = true;
  // Their shapes would depend on values.
  filter.allow_where_op = false;
  filter.allow_unique_op = false;
  return Checker(filter, tensorflow::DeviceType(tensorflow::DEVICE_CPU_XLA_JIT));
}

// What TensorFlow's executor does for a graph, and what only names a variable.
bool is_of_the_executor(const Node& node) {
  static const auto* const types = new absl::flat_hash_set<std::string>{
      "DestroyResourceOp",      "NoOp",        "Placeholder",
      "PlaceholderWithDefault", "VarHandleOp", "VarIsInitializedOp",
      "_VarHandlesOp"};
  return node.IsArg() || node.IsRetval() || node.IsSend() || node.IsRecv() ||
         absl::StartsWith(node.type_string(), "Xla") ||
         absl::StartsWith(node.type_string(), "_Xla") ||
         types->contains(node.type_string());
}

bool cannot_be_in(DataType type) {
  return tensorflow::IsRefType(type) || type == tensorflow::DT_STRING;
}

// The CPU's kernel draws the same numbers in each run from a seed in the graph; XLA's
// has no seeds.
bool draws_from_a_seed(const Node& node) {
  if (!absl::StartsWith(node.type_string(), "Random") &&
      node.type_string() != "TruncatedNormal" && node.type_string() != "Multinomial") {
    return false;
  }
  std::int64_t seed = 0;
  std::int64_t seed2 = 0;
  tensorflow::TryGetNodeAttr(node.attrs(), "seed", &seed);
  tensorflow::TryGetNodeAttr(node.attrs(), "seed2", &seed2);
  return seed != 0 || seed2 != 0;
}

// XLA needs the size of a stack or list before it runs. A negative constant sets none:
// TensorFlow's gradients of loops have it outside of `compile`.
bool is_unlimited(const AttrSlice& constant) {
  const tensorflow::TensorProto* value = nullptr;
  if (!tensorflow::TryGetNodeAttr(constant, "value", &value)) return false;
  tensorflow::Tensor size;
  return size.FromProto(*value) && size.dtype() == tensorflow::DT_INT32 &&
         size.NumElements() == 1 && size.flat<std::int32_t>()(0) < 0;
}

// Which input is the limit of what an op makes; -1 if it makes no stack or list.
int limit_of(std::string_view type) {
  if (type == "StackV2") return 0;
  return type == "EmptyTensorList" ? 1 : -1;
}

// An array that grows with what is written.
bool grows(std::string_view type, const AttrSlice& attributes) {
  bool does = false;
  if (type == "TensorArrayV3") {
    tensorflow::TryGetNodeAttr(attributes, "dynamic_size", &does);
  } else if (type == "TensorListSetItem") {
    tensorflow::TryGetNodeAttr(attributes, "resize_if_index_out_of_bounds", &does);
  }
  return does;
}

bool has_no_size(const Node& node) {
  if (grows(node.type_string(), node.attrs())) return true;
  const int limit = limit_of(node.type_string());
  const Node* size = nullptr;
  return limit >= 0 && node.input_node(limit, &size).ok() && size->IsConstant() &&
         is_unlimited(size->attrs());
}

// The node that makes an input, such as that of max_size:output:0; or null.
const tensorflow::NodeDef* source_of(const std::string_view input,
                                     const tensorflow::FunctionDef& function) {
  const std::string_view name = input.substr(0, input.find(':'));
  const auto found = absl::c_find_if(
      function.node_def(),
      [&](const tensorflow::NodeDef& each) { return each.name() == name; });
  return found == function.node_def().end() ? nullptr : &*found;
}

bool has_no_size(const tensorflow::NodeDef& node,
                 const tensorflow::FunctionDef& function) {
  if (grows(node.op(), AttrSlice(node))) return true;
  // Gradients of loops outside of `compile` keep the length of a list in another one.
  const bool is_list = node.op() == "TensorListReserve";
  const int limit = is_list ? 1 : limit_of(node.op());
  if (limit < 0 || limit >= node.input_size()) return false;
  const tensorflow::NodeDef* const size = source_of(node.input(limit), function);
  if (size == nullptr) return false;
  return is_list ? size->op() == "TensorListPopBack"
                 : size->op() == "Const" && is_unlimited(AttrSlice(*size));
}

// A conditional on whether a variable has a value: XLA reads those of both branches.
bool asks_for_a_value(const Node& node) {
  const int predicate = node.IsSwitch() ? 1 : node.IsIfNode() ? 0 : -1;
  const Node* source = nullptr;
  if (predicate < 0 || !node.input_node(predicate, &source).ok()) return false;
  while (source->IsIdentity() || source->type_string() == "LogicalNot") {
    if (!source->input_node(0, &source).ok()) return false;
  }
  return source->type_string() == "VarIsInitializedOp";
}

}  // namespace

std::string ipu_of(const Node& node, const GraphOptimizationPassOptions& options) {
  std::string name = node.assigned_device_name();
  if (name.empty()) name = node.requested_device();
  if (name.empty() && options.default_function_device != nullptr) {
    name = options.default_function_device->name();
  }
  tensorflow::DeviceNameUtils::ParsedName parsed;
  if (!tensorflow::DeviceNameUtils::ParseFullOrLocalName(name, &parsed)) return "";
  return parsed.has_type && parsed.type == "IPU" ? name : "";
}

bool must_compile(const Node& node) {
  bool must = false;
  tensorflow::TryGetNodeAttr(node.attrs(), "_XlaMustCompile", &must);
  return must;
}

bool is_queue_call(const std::string& type) {
  return type == "IpufeedDequeue" || type == "IpufeedEnqueue";
}

bool has_program(const AttrSlice& attributes) {
  return attributes.Find(kProgram) != nullptr ||
         attributes.Find("_xla_compile_id") != nullptr ||
         attributes.Find("_XlaCluster") != nullptr ||
         attributes.Find("_XlaAlreadyClustered") != nullptr;
}

bool is_outside(const AttrSlice& attributes) {
  return attributes.Find(kOutside) != nullptr && attributes.Find(kProgram) == nullptr;
}

bool is_control_flow(const Node& node) {
  return node.IsControlFlow() || node.IsLoopCond();
}

Compilable::Compilable(const GraphOptimizationPassOptions& options)
    : options_(options),
      libraries_(std::make_unique<tensorflow::ProcessFunctionLibraryRuntime>(
          nullptr, tensorflow::Env::Default(), /*config=*/nullptr, TF_GRAPH_DEF_VERSION,
          options.flib_def, tensorflow::OptimizerOptions())),
      library_(libraries_->GetFLR(
          tensorflow::ProcessFunctionLibraryRuntime::kDefaultFLRDevice)),
      checker_(make_checker()) {}

bool Compilable::operator()(const Node& node) const {
  if (!node.IsOp() || is_of_the_executor(node) || has_program(node.attrs()) ||
      must_compile(node) || draws_from_a_seed(node)) {
    return false;
  }
  if (absl::c_any_of(node.input_types(), cannot_be_in) ||
      absl::c_any_of(node.output_types(), cannot_be_in)) {
    return false;
  }
  if (asks_for_a_value(node) || makes_without_size(node)) return false;
  if (is_control_flow(node)) return true;
  return checker_.IsCompilableNode(node, library_);
}

std::vector<std::string> Compilable::called_by(const Node& node) const {
  absl::flat_hash_set<std::string> seen;
  std::vector<std::string> found;
  const auto add = [&](const std::string& name) {
    if (options_.flib_def->Find(name) == nullptr) return;
    if (seen.insert(name).second) found.push_back(name);
  };
  const auto add_called = [&](const AttrSlice& attributes) {
    for (const auto& [name, value] : attributes) {
      if (value.has_func()) add(value.func().name());
      for (const auto& each : value.list().func()) add(each.name());
    }
  };
  add_called(node.attrs());
  for (std::size_t i = 0; i < found.size(); ++i) {
    const std::string name = found[i];
    for (const auto& each : options_.flib_def->Find(name)->node_def()) {
      add(each.op());
      add_called(AttrSlice(each));
    }
  }
  return found;
}

bool Compilable::makes_without_size(const Node& node) const {
  if (has_no_size(node)) return true;
  return absl::c_any_of(called_by(node), [&](const std::string& name) {
    const tensorflow::FunctionDef& function = *options_.flib_def->Find(name);
    return absl::c_any_of(function.node_def(), [&](const tensorflow::NodeDef& each) {
      return has_no_size(each, function);
    });
  });
}

bool Compilable::calls_outside(const Node& node) const {
  return absl::c_any_of(called_by(node), [&](const std::string& name) {
    return absl::c_any_of(options_.flib_def->Find(name)->node_def(),
                          [](const tensorflow::NodeDef& each) {
                            const AttrSlice attributes(each);
                            return is_outside(attributes) || has_program(attributes);
                          });
  });
}

bool Compilable::calls_queues(const Node& node) const {
  return absl::c_any_of(called_by(node), [&](const std::string& name) {
    return absl::c_any_of(
        options_.flib_def->Find(name)->node_def(),
        [](const tensorflow::NodeDef& each) { return is_queue_call(each.op()); });
  });
}

std::string Compilable::reason(const Node& node) const {
  for (const auto& [key, found] : checker_.FindUncompilableNodes(node, library_)) {
    for (const auto& each : found.second) {
      const bool own = each.name == node.name();
      const bool unknown = absl::StrContains(each.uncompilable_reason, "OpKernel");
      return absl::StrCat(
          own ? "" : absl::StrCat("because of ", each.name, ", "),
          unknown ? "XLA has no kernel for it" : each.uncompilable_reason);
    }
  }
  if (asks_for_a_value(node)) return "it depends on whether a variable has a value";
  if (makes_without_size(node)) return "a tensor in it has no size before it runs";
  return draws_from_a_seed(node) ? "it draws from a seed in the graph"
                                 : "it has strings or references to variables";
}

}  // namespace ipufeed
