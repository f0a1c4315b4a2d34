// Which branches of TensorFlow 1's conditionals an op runs in alone.
#pragma once

#include <vector>

#include "tensorflow/core/graph/graph.h"

namespace ipufeed {

// Whether each node, by its number, does not run if a branch is not taken. A Merge does
// if its whole conditional does, which may be within a branch of another one.
std::vector<bool> runs_in_branch(const tensorflow::Graph& graph);

}  // namespace ipufeed
