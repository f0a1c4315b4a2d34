// Orders programs: how many of them a value has passed before it reaches an op.
#pragma once

#include <string>
#include <vector>

#include "tensorflow/core/graph/graph.h"

namespace ipufeed {

// Of an op that waits for a loop that waits for itself.
inline constexpr int kNoLevel = -1;

// Returns, by node, how many changes between programs, or from one to the host, lie
// before it. What is of one program and level is a cluster: no path leads out of it and
// back. A loop that the executor runs is one step of such a path: what comes out of it
// may depend, over its iterations, on all that goes in.
//
// By node: its program ("" for none), the outermost loop around it (-1 for none), and
// whether what is made of its results is in a later program.
std::vector<int> levels_of(const tensorflow::Graph& graph,
                           const std::vector<std::string>& program,
                           const std::vector<int>& loop, const std::vector<bool>& ends);

}  // namespace ipufeed
