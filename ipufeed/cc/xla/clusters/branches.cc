#include "xla/clusters/branches.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <set>
#include <utility>
#include <vector>

#include "tensorflow/core/graph/algorithm.h"

namespace ipufeed {
namespace {

using tensorflow::Edge;
using tensorflow::Graph;
using tensorflow::Node;

// A side of a conditional: the node and the output of its predicate, and which side.
using Branch = std::pair<std::pair<int, int>, int>;
using Branches = std::set<Branch>;

bool goes_back(const Edge& edge) {
  return edge.src()->IsNextIteration() && edge.dst()->IsMerge();
}

// What a data output of a node adds to the branches of the node.
void add_side(const Edge& edge, Branches* branches) {
  if (!edge.src()->IsSwitch() || edge.IsControlEdge()) return;
  const Edge* predicate = nullptr;
  if (!edge.src()->input_edge(1, &predicate).ok()) return;
  while (predicate->src()->IsIdentity()) {
    if (!predicate->src()->input_edge(0, &predicate).ok()) return;
  }
  if (predicate->src()->IsLoopCond()) return;  // that of a loop is not a branch
  branches->insert(
      {{predicate->src()->id(), predicate->src_output()}, edge.src_output()});
}

}  // namespace

std::vector<bool> runs_in_branch(const Graph& graph) {
  const auto nodes = static_cast<std::size_t>(graph.num_node_ids());
  std::vector<Branches> found(nodes);
  std::vector<Node*> order;
  tensorflow::GetReversePostOrder(graph, &order, {},
                                  [](const Edge& edge) { return !goes_back(edge); });
  for (const Node* node : order) {
    Branches& own = found[static_cast<std::size_t>(node->id())];
    bool is_first = true;
    for (const Edge* edge : node->in_edges()) {
      if (!edge->src()->IsOp() || goes_back(*edge)) continue;
      // A Merge runs when one of its values is there.
      if (node->IsMerge() && edge->IsControlEdge()) continue;
      Branches from = found[static_cast<std::size_t>(edge->src()->id())];
      add_side(*edge, &from);
      if (!node->IsMerge() || is_first) {
        own.insert(from.begin(), from.end());
      } else {
        Branches common;
        std::set_intersection(own.begin(), own.end(), from.begin(), from.end(),
                              std::inserter(common, common.end()));
        own = std::move(common);
      }
      is_first = false;
    }
  }
  std::vector<bool> inside(nodes);
  std::transform(found.begin(), found.end(), inside.begin(),
                 [](const Branches& each) { return !each.empty(); });
  return inside;
}

}  // namespace ipufeed
