// Gives TensorFlow's random ops on an IPU the seeds of the device.
//
//   RandomUniform, RandomStandardNormal, TruncatedNormal --> IpufeedSeed, IpufeedRandom
//
// What a program builds in the scope of an IPU is built as the latter
// (device/random/ops.py). Left are the initializers of variables, which TensorFlow
// builds outside of all scopes and colocates with the variable, and ops of a
// SavedModel. XLA ignores their seeds, and has the same numbers in each process.

#include <cstdint>
#include <string>
#include <vector>

#include "core/seeds.h"
#include "random/random_numbers.h"
#include "tensorflow/core/framework/node_def_builder.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/graph/graph.h"
#include "tensorflow/core/platform/fingerprint.h"
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

// The distribution of a random op of TensorFlow; -1 if it is another op.
std::int64_t distribution_of(const Node& node) {
  const std::string& type = node.type_string();
  if (type == "RandomUniform") {
    return static_cast<std::int64_t>(Distribution::kUniform);
  }
  if (type == "RandomStandardNormal") {
    return static_cast<std::int64_t>(Distribution::kNormal);
  }
  if (type == "TruncatedNormal") {
    return static_cast<std::int64_t>(Distribution::kTruncatedNormal);
  }
  return -1;
}

// Puts random numbers of a drawn seed in the place of one op.
class Replacement {
 public:
  Replacement(Graph* graph, Node* random) : graph_(graph), random_(random) {}

  absl::Status make() {
    std::int64_t seed = 0;
    std::int64_t seed2 = 0;
    DataType dtype = tensorflow::DT_INVALID;
    TF_RETURN_IF_ERROR(tensorflow::GetNodeAttr(random_->attrs(), "seed", &seed));
    TF_RETURN_IF_ERROR(tensorflow::GetNodeAttr(random_->attrs(), "seed2", &seed2));
    TF_RETURN_IF_ERROR(tensorflow::GetNodeAttr(random_->attrs(), "dtype", &dtype));
    const bool keeps_own = seed != 0 || seed2 != 0;
    const std::uint64_t own =
        mix(mix(static_cast<std::uint64_t>(seed)) ^ static_cast<std::uint64_t>(seed2));
    // The ops that Python builds are numbered from 0; the name is that of each process.
    std::uint64_t number = tensorflow::Fingerprint64(random_->name());
    if (keeps_own) number ^= own;
    TF_ASSIGN_OR_RETURN(Node* const given, constant(keeps_own ? own : 0));
    TF_ASSIGN_OR_RETURN(Node* const drawn,
                        add(NodeDefBuilder(name("seed"), "IpufeedSeed")
                                .Input(given->name(), 0, tensorflow::DT_INT32)
                                .Attr("o", static_cast<std::int64_t>(number))
                                .Attr("keeps_own", keeps_own)));
    graph_->AddEdge(given, 0, drawn, 0);
    const Edge* shape = nullptr;
    TF_RETURN_IF_ERROR(random_->input_edge(0, &shape));
    Node* sizes = shape->src();
    int output = shape->src_output();
    if (sizes->output_type(output) != tensorflow::DT_INT32) {
      TF_ASSIGN_OR_RETURN(
          Node* const cast,
          add(NodeDefBuilder(name("shape"), "Cast")
                  .Input(sizes->name(), output, sizes->output_type(output))
                  .Attr("DstT", tensorflow::DT_INT32)));
      graph_->AddEdge(sizes, output, cast, 0);
      sizes = cast;
      output = 0;
    }
    TF_ASSIGN_OR_RETURN(Node* const numbers,
                        add(NodeDefBuilder(name("numbers"), "IpufeedRandom")
                                .Input(sizes->name(), output, tensorflow::DT_INT32)
                                .Input(drawn->name(), 0, tensorflow::DT_INT32)
                                .Attr("dtype", dtype)
                                .Attr("distribution", distribution_of(*random_))));
    graph_->AddEdge(sizes, output, numbers, 0);
    graph_->AddEdge(drawn, 0, numbers, 1);
    move_edges(drawn, numbers);
    return absl::OkStatus();
  }

 private:
  std::string name(const char* part) const {
    return graph_->NewName(random_->name() + "/" + part);
  }

  absl::StatusOr<Node*> constant(std::uint64_t value) {
    tensorflow::Tensor tensor(tensorflow::DT_INT32, {2});
    tensor.flat<std::int32_t>()(0) = static_cast<std::int32_t>(value);
    tensor.flat<std::int32_t>()(1) = static_cast<std::int32_t>(value >> 32);
    return add(NodeDefBuilder(name("own"), "Const")
                   .Attr("dtype", tensorflow::DT_INT32)
                   .Attr("value", tensor));
  }

  absl::StatusOr<Node*> add(NodeDefBuilder& builder) {
    tensorflow::NodeDef def;
    TF_RETURN_IF_ERROR(builder.Device(random_->requested_device()).Finalize(&def));
    def.clear_input();
    absl::Status status;
    Node* const node = graph_->AddNode(def, &status);
    TF_RETURN_IF_ERROR(status);
    node->set_assigned_device_name(random_->assigned_device_name());
    return node;
  }

  void move_edges(Node* first, Node* last) {
    for (const Edge* edge : random_->in_edges()) {
      if (edge->IsControlEdge()) graph_->AddControlEdge(edge->src(), first);
    }
    const std::vector<const Edge*> out(random_->out_edges().begin(),
                                       random_->out_edges().end());
    for (const Edge* edge : out) {
      Node* const to = edge->dst();
      const int input = edge->dst_input();
      const bool is_control = edge->IsControlEdge();
      graph_->RemoveEdge(edge);
      if (is_control) {
        graph_->AddControlEdge(last, to);
      } else {
        graph_->AddEdge(last, 0, to, input);
      }
    }
    graph_->RemoveNode(random_);
  }

  Graph* const graph_;
  Node* const random_;
};

}  // namespace

absl::Status draw_device_seeds(const GraphOptimizationPassOptions& options) {
  if (options.graph == nullptr) return absl::OkStatus();
  Graph* const graph = options.graph->get();
  std::vector<Node*> found;
  for (Node* node : graph->op_nodes()) {
    if (distribution_of(*node) >= 0 && !ipu_of(*node, options).empty()) {
      found.push_back(node);
    }
  }
  for (Node* node : found) TF_RETURN_IF_ERROR(Replacement(graph, node).make());
  return absl::OkStatus();
}

}  // namespace ipufeed
