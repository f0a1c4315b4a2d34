// Variables that belong to a program, such as the accumulators of gradients: no
// initializer of the graph makes them. Before the first run of a program they are made
// here, so that this run and later ones have the same inputs and are one program.

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/kernels.h"
#include "tensorflow/core/framework/node_def_builder.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/resource_mgr.h"
#include "tensorflow/core/framework/resource_var.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tensorflow/core/graph/graph.h"
#include "xla/clusters/clusters.h"
#include "xla/clusters/compilable.h"

namespace ipufeed {
namespace {

using tensorflow::Graph;
using tensorflow::GraphOptimizationPassOptions;
using tensorflow::Node;
using tensorflow::NodeDefBuilder;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::Var;

// The same in accumulator.py, which marks the handles of such variables.
constexpr char kProgramState[] = "_ipufeed_program_state";

REGISTER_OP("IpufeedProgramState")
    .Input("handle: resource")
    .Attr("dtype: type")
    .Attr("shape: shape")
    .SetIsStateful()
    .SetShapeFn([](tensorflow::shape_inference::InferenceContext* c) {
      tensorflow::shape_inference::ShapeHandle unused;
      return c->WithRank(c->input(0), 0, &unused);
    })
    .Doc("Makes a variable of a program, of zeros, unless it has a value.");

class ProgramStateOp : public Kernel {
 public:
  explicit ProgramStateOp(tensorflow::OpKernelConstruction* ctx) : Kernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("dtype", &dtype_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("shape", &shape_));
  }

  absl::Status run(OpKernelContext* ctx) override {
    TF_RETURN_IF_ERROR(check_scalars(ctx, {0}));
    TF_RETURN_IF_ERROR(check_bytes(type_string(), 0, dtype_));
    const tensorflow::ResourceHandle& handle = tensorflow::HandleFromInput(ctx, 0);
    tensorflow::core::RefCountPtr<Var> variable;
    TF_RETURN_IF_ERROR(tensorflow::LookupOrCreateResource<Var>(
        ctx, handle, &variable, [this](Var** made) {
          *made = new Var(dtype_);
          return absl::OkStatus();
        }));
    const tensorflow::mutex_lock lock(*variable->mu());
    if (variable->is_initialized) return absl::OkStatus();
    Tensor zeros;
    TF_RETURN_IF_ERROR(
        allocate(dtype_, shape_, "a variable of a program", handle.name(), &zeros));
    std::fill_n(static_cast<char*>(zeros.data()), zeros.TotalBytes(), '\0');
    *variable->tensor() = std::move(zeros);
    variable->is_initialized = true;
    return absl::OkStatus();
  }

 private:
  tensorflow::DataType dtype_ = tensorflow::DT_INVALID;
  tensorflow::TensorShape shape_;
};

REGISTER_KERNEL_BUILDER(Name("IpufeedProgramState").Device(tensorflow::DEVICE_CPU),
                        ProgramStateOp);

bool is_program_state(const Node& node) {
  bool marked = false;
  return node.type_string() == "VarHandleOp" &&
         tensorflow::TryGetNodeAttr(node.attrs(), kProgramState, &marked) && marked;
}

absl::Status make_before(Node* program, Node* handle, Graph* graph) {
  tensorflow::DataType dtype = tensorflow::DT_INVALID;
  tensorflow::TensorShape shape;
  TF_RETURN_IF_ERROR(tensorflow::GetNodeAttr(handle->attrs(), "dtype", &dtype));
  TF_RETURN_IF_ERROR(tensorflow::GetNodeAttr(handle->attrs(), "shape", &shape));
  tensorflow::NodeDef def;
  TF_RETURN_IF_ERROR(
      NodeDefBuilder(graph->NewName(handle->name() + "/made"), "IpufeedProgramState")
          .Input(handle->name(), 0, tensorflow::DT_RESOURCE)
          .Attr("dtype", dtype)
          .Attr("shape", shape)
          .Device(handle->requested_device())
          .Finalize(&def));
  def.clear_input();
  absl::Status status;
  Node* const made = graph->AddNode(def, &status);
  TF_RETURN_IF_ERROR(status);
  made->set_assigned_device_name(handle->assigned_device_name());
  graph->AddEdge(handle, 0, made, 0);
  graph->AddControlEdge(made, program);
  return absl::OkStatus();
}

}  // namespace

absl::Status make_program_state(const GraphOptimizationPassOptions& options) {
  if (options.graph == nullptr) return absl::OkStatus();
  Graph* const graph = options.graph->get();
  std::vector<std::pair<Node*, Node*>> uses;
  for (Node* node : graph->op_nodes()) {
    if (node->type_string() != "XlaLaunch" || ipu_of(*node, options).empty()) continue;
    for (Node* input : node->in_nodes()) {
      if (is_program_state(*input)) uses.emplace_back(node, input);
    }
  }
  for (const auto& [program, handle] : uses) {
    TF_RETURN_IF_ERROR(make_before(program, handle, graph));
  }
  return absl::OkStatus();
}

}  // namespace ipufeed
