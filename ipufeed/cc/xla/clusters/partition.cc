#include "xla/clusters/partition.h"

#include <algorithm>
#include <atomic>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "tensorflow/compiler/tf2xla/const_analysis.h"
#include "tensorflow/core/graph/control_flow.h"
#include "tensorflow/core/graph/graph.h"
#include "xla/clusters/branches.h"
#include "xla/clusters/compilable.h"
#include "xla/clusters/left_ops.h"
#include "xla/clusters/levels.h"

namespace ipufeed {
namespace {

using tensorflow::ControlFlowInfo;
using tensorflow::DataType;
using tensorflow::Edge;
using tensorflow::Graph;
using tensorflow::GraphOptimizationPassOptions;
using tensorflow::Node;

std::atomic<std::int64_t> clusters{0};

// Ops that compute nothing: a cluster of nothing else is not worth a program, as in the
// original, which has none for a graph that only hands values on.
bool computes(const Node& node) {
  static const auto* const types = new absl::flat_hash_set<std::string>{
      "Const", "ControlTrigger", "Identity", "IdentityN", "NoOp", "ReadVariableOp"};
  return !types->contains(node.type_string());
}

// The author's name of a function: __inference_train_95 is train.
std::string author_of(const GraphOptimizationPassOptions& options) {
  if (options.function_def == nullptr) return "";
  std::string_view name = options.function_def->signature().name();
  for (const char* const before : {"__inference_", "__forward_", "__backward_"}) {
    if (absl::ConsumePrefix(&name, before)) break;
  }
  while (!name.empty() && std::isdigit(static_cast<unsigned char>(name.back())) != 0) {
    name.remove_suffix(1);
  }
  while (!name.empty() && name.back() == '_') name.remove_suffix(1);
  // Such as <lambda>.
  const bool is_name = std::all_of(name.begin(), name.end(), [](unsigned char each) {
    return std::isalnum(each) != 0 || each == '_';
  });
  return is_name ? std::string(name) : std::string();
}

bool stays_inside(DataType type) {
  return type == tensorflow::DT_RESOURCE || type == tensorflow::DT_VARIANT;
}

// A node's program is what it may share a cluster with: its IPU, and the scope that it
// was built in. A region is a whole loop or conditional of TensorFlow 1, with all that
// is in it.
class Partition {
 public:
  explicit Partition(const GraphOptimizationPassOptions& options)
      : options_(options),
        compilable_(options),
        graph_(options.graph->get()),
        program_(static_cast<std::size_t>(graph_->num_node_ids())),
        region_(program_.size(), -1),
        loop_(program_.size(), -1),
        ends_(program_.size(), false) {}

  absl::StatusOr<std::map<std::string, std::string>> whole_regions() {
    TF_RETURN_IF_ERROR(find());
    std::map<std::string, std::string> found;
    for (Node* node : graph_->op_nodes()) {
      if (in_region(*node)) found[node->name()] = ipu_of(*node, options_);
    }
    return found;
  }

  absl::Status mark() {
    TF_RETURN_IF_ERROR(find());
    // What could not be made functional stays with the executor.
    for (Node* node : graph_->op_nodes()) {
      if (in_region(*node)) program(*node).clear();
    }
    split_constants();
    settle_queues();
    bool changed = true;
    while (changed) {
      find_levels();
      TF_ASSIGN_OR_RETURN(const bool ended, end_before_constants());
      changed = drop_what_crosses() || ended;
    }
    write();
    return absl::OkStatus();
  }

 private:
  // What may be in a program, and in which.
  absl::Status find() {
    bool any = false;
    for (Node* node : graph_->op_nodes()) {
      const std::string ipu = ipu_of(*node, options_);
      if (ipu.empty()) continue;
      if (compilable_(*node) && !compilable_.calls_outside(*node)) {
        std::string scope;
        tensorflow::TryGetNodeAttr(node->attrs(), "_ipufeed_jit_scope", &scope);
        program(*node) = absl::StrCat(ipu, " ", scope);
        any = true;
      } else if (!belongs_to_executor(*node)) {
        log_left(*node, compilable_.reason(*node));
      }
    }
    return any ? find_regions() : absl::OkStatus();
  }

  std::string& program(const Node& node) {
    return program_[static_cast<std::size_t>(node.id())];
  }
  int& region(const Node& node) { return region_[static_cast<std::size_t>(node.id())]; }
  int& loop(const Node& node) { return loop_[static_cast<std::size_t>(node.id())]; }
  bool ends(const Node& node) const {
    return ends_[static_cast<std::size_t>(node.id())];
  }
  int& level(const Node& node) { return level_[static_cast<std::size_t>(node.id())]; }

  void drop(const Node& node) {
    program(node).clear();
    if (region(node) < 0) return;
    for (Node* each : graph_->op_nodes()) {
      if (region(*each) == region(node)) program(*each).clear();
    }
  }

  // What runs in a frame of a loop, or not at all if a branch is not taken. A region is
  // dropped if some of it cannot be in the program.
  absl::Status find_regions() {
    std::vector<ControlFlowInfo> frames;
    TF_RETURN_IF_ERROR(tensorflow::BuildControlFlowInfo(graph_, &frames));
    std::vector<bool> inside(program_.size(), false);
    const auto is_root = [&](const Node& node) {
      const Node* frame = frames[static_cast<std::size_t>(node.id())].frame;
      return frame == nullptr || !frame->IsOp();
    };
    std::map<std::string, int> loops;  // by the name of their frame
    for (const Node* node : graph_->op_nodes()) {
      for (const Node* each = node; !is_root(*each);) {
        const auto& info = frames[static_cast<std::size_t>(each->id())];
        loop(*node) = loops.try_emplace(info.frame_name, static_cast<int>(loops.size()))
                          .first->second;
        each = info.parent_frame;
      }
    }
    const std::vector<bool> branches = runs_in_branch(*graph_);
    for (const Node* node : graph_->op_nodes()) {
      const auto id = static_cast<std::size_t>(node->id());
      inside[id] = !is_root(*node) || is_control_flow(*node) || branches[id];
    }
    int count = 0;
    for (const Node* start : graph_->op_nodes()) {
      if (!inside[static_cast<std::size_t>(start->id())] || region(*start) >= 0)
        continue;
      collect(*start, count++, inside);
    }
    return absl::OkStatus();
  }

  // All that hangs together with `start`. What is not on an IPU, or another, spoils it.
  void collect(const Node& start, int number, const std::vector<bool>& inside) {
    std::vector<const Node*> members{&start};
    region(start) = number;
    const auto add = [&](const Node* node) {
      if (!node->IsOp() || !inside[static_cast<std::size_t>(node->id())]) return;
      if (region(*node) >= 0) return;
      region(*node) = number;
      members.push_back(node);
    };
    for (std::size_t i = 0; i < members.size(); ++i) {
      for (const Edge* edge : members[i]->in_edges()) add(edge->src());
      for (const Edge* edge : members[i]->out_edges()) add(edge->dst());
    }
    const std::string wanted = program(start);
    // A NoOp of a branch has no kernel to compile, and may be in a program.
    const bool whole =
        std::all_of(members.begin(), members.end(), [&](const Node* each) {
          return is_group(*each) || (!wanted.empty() && program(*each) == wanted);
        });
    for (const Node* each : members) program(*each) = whole ? wanted : std::string();
  }

  // The host gets constants of its own: a result of a program would be known too late
  // for what the next one needs from the host.
  void split_constants() {
    std::vector<Node*> constants;
    for (Node* node : graph_->op_nodes()) {
      if (node->IsConstant() && !in_region(*node)) constants.push_back(node);
    }
    for (Node* node : constants) {
      std::vector<const Edge*> to_host;
      bool to_program = false;
      for (const Edge* edge : node->out_edges()) {
        if (edge->IsControlEdge()) continue;
        if (program(*edge->dst()).empty()) {
          to_host.push_back(edge);
        } else {
          to_program = true;
        }
      }
      if (!to_program) program(*node).clear();
      if (to_host.empty() || program(*node).empty()) continue;
      Node* const copy = graph_->CopyNode(node);
      copy->set_name(graph_->NewName(node->name()));
      program_.resize(static_cast<std::size_t>(graph_->num_node_ids()));
      region_.resize(program_.size(), -1);
      loop_.resize(program_.size(), -1);
      ends_.resize(program_.size(), false);
      for (const Edge* edge : node->in_edges()) {
        graph_->AddControlEdge(edge->src(), copy, /*allow_duplicates=*/true);
      }
      for (const Edge* edge : to_host) {
        Node* const to = edge->dst();
        const int input = edge->dst_input();
        graph_->RemoveEdge(edge);
        graph_->AddEdge(copy, 0, to, input);
      }
    }
  }

  // A program that the executor runs keeps its queues until the end of the step, so
  // either all calls of queues are in clusters, or none.
  void settle_queues() {
    std::vector<const Node*> calls;
    bool on_executor = false;
    for (const Node* node : graph_->op_nodes()) {
      const bool is_program = must_compile(*node) || has_program(node->attrs());
      if (is_program) continue;
      if (is_queue_call(node->type_string())) {
        on_executor = on_executor || program(*node).empty();
      } else if (program(*node).empty() || !compilable_.calls_queues(*node)) {
        continue;
      }
      calls.push_back(node);
    }
    if (!on_executor) return;
    for (const Node* node : calls) drop(*node);
  }

  void find_levels() {
    level_ = levels_of(*graph_, program_, loop_, ends_);
    for (const Node* node : graph_->op_nodes()) {
      if (level(*node) == kNoLevel) program(*node).clear();
    }
  }

  bool in_region(const Node& node) {
    return region(node) >= 0 && !program(node).empty();
  }

  bool together(const Node& one, const Node& other) {
    return !program(one).empty() && program(one) == program(other) &&
           level(one) == level(other);
  }

  // XLA needs some values before it compiles, such as the rows of a sum over segments,
  // and with them all that they are made of. A variable cannot be given to it so: what
  // makes such a value of a variable ends its program. Whether there was any.
  absl::StatusOr<bool> end_before_constants() {
    std::vector<bool> known(program_.size(), false);
    TF_RETURN_IF_ERROR(tensorflow::BackwardsConstAnalysis(
        *graph_, nullptr, &known, compilable_.library(),
        [&](const Edge& edge) { return together(*edge.src(), *edge.dst()); }));
    bool found = false;
    for (const Node* node : graph_->op_nodes()) {
      const auto id = static_cast<std::size_t>(node->id());
      if (!known[id] || program(*node).empty() || ends_[id]) continue;
      if (!absl::c_linear_search(node->input_types(), tensorflow::DT_RESOURCE))
        continue;
      ends_[id] = found = true;
    }
    return found;
  }

  // Drops ops that would hand on what cannot be an argument or a result of a program;
  // variables can be. Whether there were any.
  bool drop_what_crosses() {
    bool found = false;
    for (const Node* node : graph_->op_nodes()) {
      for (const Edge* edge : node->in_edges()) {
        if (edge->IsControlEdge() || !edge->src()->IsOp()) continue;
        const Node& source = *edge->src();
        if (together(source, *node)) continue;
        if (!stays_inside(source.output_type(edge->src_output()))) continue;
        // An argument may be a list, too: a function's gradient gets those of its
        // loops.
        const bool is_resource =
            source.output_type(edge->src_output()) == tensorflow::DT_RESOURCE;
        const bool is_variable =
            (source.type_string() == "VarHandleOp" || source.IsArg()) && is_resource &&
            ipu_of(source, options_) == ipu_of(*node, options_);
        for (const Node* each : {&source, node}) {
          if (program(*each).empty() || (each == node && is_variable)) continue;
          drop(*each);
          found = true;
        }
      }
    }
    return found;
  }

  void write() {
    std::map<std::pair<std::string, int>, std::vector<Node*>> groups;
    for (Node* node : graph_->op_nodes()) {
      if (!program(*node).empty())
        groups[{program(*node), level(*node)}].push_back(node);
    }
    const std::string author = author_of(options_);
    for (const auto& [where, nodes] : groups) {
      const bool useful = std::any_of(nodes.begin(), nodes.end(),
                                      [](const Node* each) { return computes(*each); });
      if (!useful) continue;
      // Not a name that xla.compile gives in the same session: cluster, cluster_1, ...
      const std::string name =
          absl::StrCat(author, author.empty() ? "" : "__", "cluster_0_",
                       clusters.fetch_add(1, std::memory_order_relaxed));
      for (Node* node : nodes) node->AddAttr("_XlaCluster", name);
    }
  }

  const GraphOptimizationPassOptions& options_;
  const Compilable compilable_;
  Graph* const graph_;
  std::vector<std::string> program_;  // by node; "" for what is in none
  std::vector<int> region_;
  std::vector<int> loop_;   // the outermost loop around a node; -1 for none
  std::vector<bool> ends_;  // whether what is made of a node is in a later program
  std::vector<int> level_;  // as of find_levels()
};

}  // namespace

bool is_group(const Node& node) { return node.type_string() == "NoOp"; }

absl::StatusOr<std::map<std::string, std::string>> whole_regions(
    const GraphOptimizationPassOptions& options) {
  return Partition(options).whole_regions();
}

absl::Status mark_partition(const GraphOptimizationPassOptions& options) {
  return Partition(options).mark();
}

}  // namespace ipufeed
