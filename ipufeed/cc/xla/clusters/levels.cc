#include "xla/clusters/levels.h"

#include <algorithm>
#include <cstddef>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "tensorflow/core/graph/graph.h"

namespace ipufeed {

using tensorflow::Edge;
using tensorflow::Node;

std::vector<int> levels_of(const tensorflow::Graph& graph,
                           const std::vector<std::string>& program,
                           const std::vector<int>& loop,
                           const std::vector<bool>& ends) {
  const auto id = [](const Node& node) { return static_cast<std::size_t>(node.id()); };
  const auto counts = [&](const Edge& edge) {
    if (!edge.src()->IsOp() || !edge.dst()->IsOp()) return false;
    const int from = loop[id(*edge.src())];
    return from < 0 || from != loop[id(*edge.dst())];
  };
  std::vector<int> level(program.size(), 0);
  std::vector<int> waits(program.size(), 0);
  std::vector<bool> reached(program.size(), false);
  std::map<int, std::vector<const Node*>> members;
  std::map<int, int> loop_waits;
  std::deque<const Node*> ready;
  for (const Node* node : graph.op_nodes()) {
    int edges = 0;
    for (const Edge* edge : node->in_edges()) edges += counts(*edge) ? 1 : 0;
    waits[id(*node)] = edges;
    if (loop[id(*node)] >= 0) {
      members[loop[id(*node)]].push_back(node);
      loop_waits[loop[id(*node)]] += edges;
    } else if (edges == 0) {
      ready.push_back(node);
    }
  }
  const auto finish_loop = [&](int number) {
    int most = 0;
    for (const Node* each : members[number]) most = std::max(most, level[id(*each)]);
    for (const Node* each : members[number]) level[id(*each)] = most;
    for (const Node* each : members[number]) ready.push_back(each);
  };
  for (const auto& [number, left] : loop_waits) {
    if (left == 0) finish_loop(number);
  }
  while (!ready.empty()) {
    const Node* const node = ready.front();
    ready.pop_front();
    reached[id(*node)] = true;
    for (const Edge* edge : node->out_edges()) {
      if (!counts(*edge)) continue;
      const Node* const next = edge->dst();
      const std::string& own = program[id(*node)];
      const bool leaves =
          !own.empty() && (own != program[id(*next)] || ends[id(*node)]);
      level[id(*next)] =
          std::max(level[id(*next)], level[id(*node)] + (leaves ? 1 : 0));
      const int around = loop[id(*next)];
      if (around >= 0) {
        if (--loop_waits[around] == 0) finish_loop(around);
      } else if (--waits[id(*next)] == 0) {
        ready.push_back(next);
      }
    }
  }
  for (std::size_t i = 0; i < level.size(); ++i) {
    if (!reached[i]) level[i] = kNoLevel;
  }
  return level;
}

}  // namespace ipufeed
