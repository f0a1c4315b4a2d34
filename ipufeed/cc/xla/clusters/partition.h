// Decides which ops of a graph form a program: its clusters.
//
// A cluster has the ops of one IPU and one scope with no op of the host in between: no
// path leads out of it and back. A loop or conditional of TensorFlow 1 is in one
// cluster as a whole, or in none.
#pragma once

#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tensorflow/core/common_runtime/optimization_registry.h"
#include "tensorflow/core/graph/graph.h"

namespace ipufeed {

// Whether an op only orders others, as tf.group does.
bool is_group(const tensorflow::Node& node);

// Ops of the loops and conditionals of TensorFlow 1 that are wholly on one IPU and can
// be compiled, by name, and where.
absl::StatusOr<std::map<std::string, std::string>> whole_regions(
    const tensorflow::GraphOptimizationPassOptions& options);

// Gives each op of a cluster the cluster's name, as `_XlaCluster`.
absl::Status mark_partition(const tensorflow::GraphOptimizationPassOptions& options);

}  // namespace ipufeed
